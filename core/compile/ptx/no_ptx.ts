// The end of a text that has no PTX: thrown inside this folder, a field outside of it.
import type { NoKernels } from "../../../ffi/cuda_kernels.ts";

export class NoPtx extends Error {
  constructor(text: string) {
    super(`this program has no PTX for "${text}"`);
  }
}

/** The text, or why there is none. */
export function orNoKernels(body: () => string): string | NoKernels {
  try {
    return body();
  } catch (error) {
    if (!(error instanceof NoPtx)) throw error;
    return { refused: "compiler", why: error.message };
  }
}
