// The gradient noise scale of a run, told with its logged steps: where a step adds up several micro-batches, the first one's gradient
// is longer than the whole one's by its noise. It costs a norm in some of the logged steps, and nothing in others.
import { type Readback, startReadback } from "../../ffi/readback.ts";
import { keep } from "../../ffi/tensor.ts";
import { noiseOf } from "./finders/noise.ts";
import { type Arena, gradientNorm } from "./arena.ts";
import type { Share } from "./micro_batch.ts";

/** Steps from one look to the next, at least: a norm is far less than 1% of so many. */
const APART = 10;
/** A single step's estimate is mostly chance: these are means over many, of which the first few tell nothing. */
const KEPT = 0.95, LEAST = 10;

interface Seen {
  readonly norm: Readback;
  readonly share: number;
}

export interface RunNoise {
  /** Comes before each step. */
  begin(step: number, logged: boolean): void;
  /** The arena has the gradient of the step's first micro-batch, weighted with its share. */
  first(arena: Arena, share: Share): void;
  /** From this step's `samples` and the norm of its whole gradient: the scale in samples, once it is known. */
  taken(samples: number): ((norm: number | undefined) => number | undefined) | null;
}

export function openRunNoise(): RunNoise {
  let last = -Infinity, wanted = false, seen: Seen | null = null;
  let square = 0, variance = 0, looks = 0;
  return {
    begin(step, logged) {
      seen?.norm.take(() => null); // of a step that was left in its middle
      seen = null;
      wanted = logged && step - last >= APART;
      if (wanted) last = step;
    },
    first(arena, share) {
      if (!wanted || typeof share !== "number" || share <= 0 || share >= 1) return;
      seen = { norm: startReadback(keep(gradientNorm(arena))), share };
    },
    taken(samples) {
      if (seen === null) return null;
      const { norm: read, share } = seen;
      seen = null;
      return (norm) => {
        const small = read.take((t) => t.item()) / share;
        if (norm === undefined || !Number.isFinite(small + norm)) return undefined;
        const one = noiseOf(small ** 2, norm ** 2, share * samples, 1 / share);
        square = KEPT * square + (1 - KEPT) * one.squaredMean;
        variance = KEPT * variance + (1 - KEPT) * one.variance;
        return ++looks >= LEAST && square > 0 && variance > 0
          ? Number((variance / square).toPrecision(4))
          : undefined;
      };
    },
  };
}
