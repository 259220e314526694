// The gradient arena cut into pieces that are reduced each as one. May import models and dist (types), arena.
import type { Collectives } from "../../dist/collectives.ts";
import type { Model } from "../../models/model.ts";
import type { Arena } from "../arena.ts";

/** Elements `from` to `to` - 1 of the arena; whole when backward of block `after` has returned. */
export interface Bucket {
  readonly from: number;
  readonly to: number;
  readonly after: number;
}

const MIB = 2 ** 20;
/** Published sweeps of NCCL reach its full rate at 16 MiB and more; on CPUs small pieces hide best behind backward. */
const OWN_CHOICE_MB = { nccl: 25, cpu: 4 };

/** Elements of a bucket: as many as were asked for, or what suits the engine. */
export const bucketElements = (megabytes: number, { backend }: Pick<Collectives, "backend">): number =>
  (megabytes || OWN_CHOICE_MB[backend === "nccl" ? "nccl" : "cpu"]) * MIB / Float32Array.BYTES_PER_ELEMENT;

/**
 * From the arena's end on, since backward comes from there; each at least `least` elements, but for the last, and as
 * many as `multiple` divides, as it must `total`. In the order in which they are whole, which is the same on every rank.
 */
export function bucketsOf(
  starts: readonly number[],
  total: number,
  blocks: readonly number[],
  least: number,
  multiple = 1,
): Bucket[] {
  const buckets: Bucket[] = [];
  let to = total, after = Infinity;
  for (let i = starts.length - 1; i >= 0; i--) {
    after = Math.min(after, blocks[i]);
    const start = i > 0 ? starts[i] : 0;
    const from = start + (to - start) % multiple;
    if (to - from < (i > 0 ? Math.max(least, 1) : 1)) continue;
    buckets.push({ from, to, after });
    to = from;
    after = from > start ? blocks[i] : Infinity; // a few of this parameter's are left to the next one
  }
  return buckets.sort((a, b) => b.after - a.after);
}

/** The first block that uses each parameter: backward adds to it until that one is done. */
export function firstBlocks({ parameters }: Pick<Arena, "parameters">, { blocks }: Model): number[] {
  const first = new Map<unknown, number>();
  blocks.forEach(({ module }, i) => {
    for (const [, parameter] of module?.namedParameters() ?? []) {
      if (!first.has(parameter)) first.set(parameter, i);
    }
  });
  return parameters.map((parameter) => first.get(parameter) ?? 0);
}
