// The sums of numbers and of their errors, of a small batch on the host: a loop takes microseconds where two dozen ops take a
// hundred. A batch is small by itself, so its sums have the same bits whoever is beside it.
import { copyNumbers } from "../../ffi/make.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { SUMS } from "./requested_metrics.ts";

/** A batch has at most so many numbers. */
const MOST = 4096;

const answers = new Float32Array(MOST), targets = new Float32Array(MOST);

/**
 * SUMS x outputs, and a place for the loss: how many numbers there are; the sums of the targets' distances from the reference and
 * of their squares; those of the errors, their sizes and their squares. Null where libtorch has to take them.
 */
export function sumsOnHost(
  output: Tensor,
  target: Tensor,
  reference: readonly number[],
): Float64Array | null {
  const { length: count } = reference, numel = target.numel;
  if (output.numel !== numel || !copyNumbers(targets, target) || !copyNumbers(answers, output)) return null;
  const items = target.shape[0], points = numel / (items * count);
  const sums = new Float64Array(SUMS * count + 1);
  for (let k = 0; k < count; k++) sums[k] = items * points;
  for (let item = 0, at = 0; item < items; item++) {
    for (let k = 0; k < count; k++) {
      const near = reference[k];
      for (let point = 0; point < points; point++, at++) {
        const d = targets[at] - near, e = answers[at] - near - d;
        sums[k + count] += d;
        sums[k + 2 * count] += d * d;
        sums[k + 3 * count] += e;
        sums[k + 4 * count] += Math.abs(e);
        sums[k + 5 * count] += e * e;
      }
    }
  }
  return sums;
}
