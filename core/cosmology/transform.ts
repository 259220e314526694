// Fourier transforms of grids, on one thread: with several, some processors' libraries add up in another order, and the
// same seed would give other bits on another number of threads. Ranks share the work instead. May import ffi.
import { fftIrfftn, fftRfftn } from "../../ffi/ops.ts";
import { setThreads, threads } from "../../ffi/random.ts";
import type { Tensor } from "../../ffi/tensor.ts";

export const transform = (x: Tensor): Tensor => onOneThread(() => fftRfftn(x));

/** Back to a grid of n x n x n. */
export const inverse = (x: Tensor, n: number): Tensor => onOneThread(() => fftIrfftn(x, [n, n, n], ALONG));

const ALONG = [0, 1, 2];

function onOneThread<T>(run: () => T): T {
  const before = threads();
  if (before === 1) return run();
  setThreads(1);
  try {
    return run();
  } finally {
    setThreads(before);
  }
}
