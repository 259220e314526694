// The sums of numbers and of their errors, of small batches on the host: a loop takes microseconds where two dozen ops take a
// hundred. A batch is small by itself, so its sums have the same bits however many are measured at once.
import { borrowBytes, tensor } from "../../ffi/make.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { SUMS } from "./requested_metrics.ts";

/** A batch has at most so many numbers. */
const MOST = 4096;

/**
 * [batches, SUMS x outputs] in f64: how many there are; the sums of the targets' distances from the reference and of their
 * squares; those of the errors, their sizes and their squares. Null where libtorch has to take them.
 */
export function sumsOnHost(
  output: Tensor,
  target: Tensor,
  batches: number,
  reference: readonly number[],
): Tensor | null {
  const { length: count } = reference,
    { numel } = target,
    answers = floatsOf(output),
    targets = floatsOf(target);
  if (answers?.length !== numel || targets?.length !== numel || numel > MOST * batches) return null;
  const items = target.shape[0] / batches, points = numel / (target.shape[0] * count);
  const sums = new Float64Array(batches * SUMS * count);
  for (let batch = 0, at = 0; batch < batches; batch++) {
    const first = batch * SUMS * count;
    for (let k = 0; k < count; k++) sums[first + k] = items * points;
    for (let item = 0; item < items; item++) {
      for (let k = 0; k < count; k++) {
        const to = first + k, near = reference[k];
        for (let point = 0; point < points; point++, at++) {
          const d = targets[at] - near, e = answers[at] - near - d;
          sums[to + count] += d;
          sums[to + 2 * count] += d * d;
          sums[to + 3 * count] += e;
          sums[to + 4 * count] += Math.abs(e);
          sums[to + 5 * count] += e * e;
        }
      }
    }
  }
  return tensor(sums, [batches, SUMS * count]);
}

const floatsOf = (t: Tensor): Float32Array | null =>
  t.host?.dtype === "f32" ? new Float32Array(borrowBytes(t).buffer, 0, t.numel) : null;
