// Where targets have missing points, a loss is the mean over the others. A missing point has no part in the
// gradient: it is left out before anything is computed with it, as NaN times 0 would be NaN.
import { isFloating } from "../../ffi/dtype.ts";
import { constant } from "../../ffi/make.ts";
import { clamp, div, eq, ne, sum, where } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";

/** True at each point that counts: numbers that are there, or classes other than the ignored one. */
export const validPoints = (target: Tensor, ignored: number): Tensor =>
  isFloating(target.dtype)
    ? eq(target, target) // NaN alone differs from itself
    : ne(target, constant(ignored, target.dtype, target.device));

/** Waits for the device. */
export const countValid = (target: Tensor, ignored: number): number =>
  scope(() => Number(sum(validPoints(target, ignored)).itemBigInt()));

/** Points that do not count are 0, and no gradient goes back from them. */
export const onlyValid = (values: Tensor, valid: Tensor): Tensor =>
  where(valid, values, constant(0, values.dtype, values.device));

/** Less than any weight of a class, and enough to divide by. */
const LEAST = 1e-30;

/** A weighted sum over its weights; nothing has a mean of 0. */
export const meanOf = (total: Tensor, weight: Tensor): Tensor =>
  div(total, clamp(weight, constant(LEAST, weight.dtype, weight.device)));

/** Divides a sum over the valid points by their number; nothing has a mean of 0. */
export function meanOverValid(total: Tensor, valid: Tensor): Tensor {
  const count = sum(valid);
  return div(total, clamp(count, constant(1, count.dtype, count.device)));
}
