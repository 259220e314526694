// What a sample costs the model, counted in the run's first forward pass. May import ffi.
import { countFlops } from "../../../ffi/flops.ts";

/** Backward takes twice what forward does: a product for each of its two arguments' gradients. */
const WITH_BACKWARD = 3;

export interface Flops {
  /** Floating-point operations to train with one sample; null before the first step. */
  readonly perSample: number | null;
  /** Called before each step, with the rows of its first batch. */
  before(rows: number): void;
}

export function openFlops(): Flops {
  let perSample: number | null = null, begun = false;
  return {
    get perSample() {
      return perSample;
    },
    before(rows) {
      if (begun || rows === 0) return;
      begun = true;
      countFlops((operations) => perSample = WITH_BACKWARD * operations / rows);
    },
  };
}
