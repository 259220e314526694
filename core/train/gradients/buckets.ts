// Ranks exchange gradients in buckets: parts of the arena in the order in which backward makes them whole.
import type { Model } from "../../models/model.ts";
import type { Collectives } from "../../ranks/collectives.ts";
import type { Arena } from "../arena.ts";

/** Elements `from` to `to` - 1 of the arena; whole when backward of block `after` has returned. */
export interface Bucket {
  readonly from: number;
  readonly to: number;
  readonly after: number;
}

const MIB = 2 ** 20;

/** NCCL reaches its full rate at 16 MiB and more; on CPUs small pieces hide best behind backward. */
const OWN_CHOICE_MB = { nccl: 25, cpu: 4 };

export const bucketElements = (megabytes: number, { backend }: Pick<Collectives, "backend">): number =>
  (megabytes || OWN_CHOICE_MB[backend === "nccl" ? "nccl" : "cpu"]) * MIB / Float32Array.BYTES_PER_ELEMENT;

/**
 * Backward comes from the arena's end. `least` does not hold for the last bucket; `multiple` divides each
 * size, as it must `total`. Every rank has the same order.
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
    after = from > start ? blocks[i] : Infinity; // the next bucket has a few of this parameter's
  }
  return buckets.sort((a, b) => b.after - a.after);
}

export function firstBlocks({ parameters }: Pick<Arena, "parameters">, { blocks }: Model): number[] {
  const first = new Map<unknown, number>();
  blocks.forEach(({ module }, i) => {
    for (const [, parameter] of module?.namedParameters() ?? []) {
      if (!first.has(parameter)) first.set(parameter, i);
    }
  });
  return parameters.map((parameter) => first.get(parameter) ?? 0);
}
