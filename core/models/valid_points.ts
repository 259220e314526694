// The points of a target that a loss is the mean over: those that are there, each with its weight. A missing
// point has no part in the gradient: it is left out before anything is computed with it, as NaN times 0 would
// be NaN.
import { isFloating } from "../../ffi/dtype.ts";
import { constant } from "../../ffi/make.ts";
import { clamp, div, eq, mul, ne, sum, where } from "../../ffi/ops.ts";
import { type Device, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Facts } from "./model.ts";

/** Each point of a map counts so much (--loss-weight). */
export interface PointWeights {
  /** They have the shape of a map. */
  on(device: Device): Tensor;
}

/** The points that a loss is the mean over, where they do not all count alike. */
export interface Points {
  readonly weights: PointWeights | null;
  /** True at each point that counts. */
  valid(target: Tensor): Tensor;
  /** `each` has a value for each point of `valid`; nothing has a mean of 0. */
  mean(each: Tensor, valid: Tensor): Tensor;
  /** The mean divides by it. Waits for the device. */
  count(target: Tensor): number;
}

/** Null where all points are there and count alike. */
export function pointsOf(
  { missing = false }: Pick<Facts, "missing">,
  ignored: number,
  weights: PointWeights | null,
): Points | null {
  if (!missing && !weights) return null;
  const valid = (target: Tensor) => validPoints(target, ignored);
  return {
    weights,
    valid,
    mean(each, valid) {
      if (!weights) return meanOverValid(sum(each), valid);
      const share = sharesOfPoints(valid, weights);
      return meanOf(sum(mul(each, share)), sum(share));
    },
    count: (target) =>
      scope(() =>
        weights
          ? sum(sharesOfPoints(valid(target), weights), "f64").item()
          : Number(sum(valid(target)).itemBigInt())
      ),
  };
}

/** True at each point that counts: numbers that are there, or classes other than the ignored one. */
export const validPoints = (target: Tensor, ignored: number): Tensor =>
  isFloating(target.dtype)
    ? eq(target, target) // NaN alone differs from itself
    : ne(target, constant(ignored, target.dtype, target.device));

/** The weights of the valid points, and 0 elsewhere. */
export function sharesOfPoints(valid: Tensor, weights: PointWeights): Tensor {
  const { device } = valid, own = weights.on(device);
  return where(valid, own, constant(0, own.dtype, device));
}

/** Points that do not count are 0, and no gradient goes back from them. */
export const onlyValid = (values: Tensor, valid: Tensor): Tensor =>
  where(valid, values, constant(0, values.dtype, values.device));

/** Less than any weight, and enough to divide by. */
const LEAST = 1e-30;

/** A weighted sum over its weights; nothing has a mean of 0. */
export const meanOf = (total: Tensor, weight: Tensor): Tensor =>
  div(total, clamp(weight, constant(LEAST, weight.dtype, weight.device)));

/** Divides a sum over the valid points by their number; nothing has a mean of 0. */
export function meanOverValid(total: Tensor, valid: Tensor): Tensor {
  const count = sum(valid);
  return div(total, clamp(count, constant(1, count.dtype, count.device)));
}
