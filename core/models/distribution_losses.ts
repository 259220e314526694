// Losses of predicted distributions: quantiles, and the CRPS of a normal distribution.
import { constant, constantRowBeside, scale, sub, upcast } from "../../ffi/make.ts";
import { div, erf, exp, maximum, mean, mul, narrow, reshape, unsqueeze } from "../../ffi/ops.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import type { Loss } from "./losses.ts";
import type { Facts } from "./model.ts";
import { inOutputShape } from "./targets.ts";
import { onlyValid, type Points } from "./valid_points.ts";

export const QUANTILES: readonly string[] = ["0.1", "0.5", "0.9"];

/**
 * The pinball loss: max(q e, (q - 1) e) of e = target - prediction, the mean over quantiles, targets and samples. All
 * targets' first quantile comes first, then all targets' second.
 */
export function quantile(facts: Facts, given: readonly string[], points: Points | null): Loss {
  const levels = levelsOf(given.length > 0 ? given : QUANTILES);
  const middle = levels.reduce(
    (best, q, i) => Math.abs(q - 0.5) < Math.abs(levels[best] - 0.5) ? i : best,
    0,
  );
  const less = [0, 1].map((one) => constantRowBeside(levels.map((q) => q - one)));
  const at = (one: number, like: Tensor, dims: number): Tensor =>
    reshape(less[one](like), [1, levels.length, ...new Array<number>(dims - 2).fill(1)]);
  return {
    name: "quantile",
    outputs: levels.length * facts.outputs,
    parts: levels.map((q) => `q${q}`),
    levels,
    point: middle,
    apply(output, target) {
      const whole = upcast(output);
      const [items, channels, ...rest] = whole.shape;
      const count = channels / levels.length;
      const truth = unsqueeze(inOutputShape(target, narrow(whole, 1, 0, count)), 1);
      const predicted = reshape(whole, [items, levels.length, count, ...rest]), dims = 3 + rest.length;
      const valid = points?.valid(truth);
      const miss = valid ? sub(onlyValid(truth, valid), onlyValid(predicted, valid)) : sub(truth, predicted);
      const each = maximum(mul(miss, at(0, whole, dims)), mul(miss, at(1, whole, dims)));
      return points && valid ? scale(points.mean(each, valid), 1 / levels.length) : mean(each);
    },
    validCount: (target) => points?.count(target) ?? target.numel,
  };
}

function levelsOf(given: readonly string[]): number[] {
  const levels = given.map(Number);
  const wrong = given.find((_, i) => !(levels[i] > 0 && levels[i] < 1));
  const again = levels.find((q, i) => i > 0 && q <= levels[i - 1]);
  if (wrong === undefined && again === undefined) return levels;
  throw new UserError(
    "usage",
    `--quantiles takes numbers between 0 and 1 in rising order, such as ${QUANTILES.join(",")}, but got ` +
      `${wrong === undefined ? given.join(",") : `"${wrong}"`}.`,
  );
}

/** A model answers so with a normal distribution. */
export const NORMAL = { parts: ["mean", "log_variance"], point: 0, logVariance: 1 } as const;

const SQRT2 = Math.SQRT2, INVERSE_SQRT_PI = 1 / Math.sqrt(Math.PI);

/**
 * The continuous ranked probability score of a normal distribution, in the target's own units: sigma * (z erf(z / sqrt 2)
 * + sqrt(2 / pi) e^(-z^2 / 2) - 1 / sqrt(pi)), where z = (target - mean) / sigma. The outputs are those of gaussian_nll:
 * the means, then the logarithms of the variances.
 */
export function crps(facts: Facts, points: Points | null): Loss {
  return {
    name: "crps",
    outputs: 2 * facts.outputs,
    ...NORMAL,
    apply(output, target) {
      const whole = upcast(output);
      const count = whole.shape[1] / 2;
      const centre = narrow(whole, 1, 0, count), logVariance = narrow(whole, 1, count, count);
      const truth = inOutputShape(target, centre);
      if (!points) return mean(normalCrps(centre, logVariance, truth));
      const valid = points.valid(truth), known = (t: Tensor) => onlyValid(t, valid);
      return points.mean(known(normalCrps(known(centre), known(logVariance), known(truth))), valid);
    },
    validCount: (target) => points?.count(target) ?? target.numel,
  };
}

function normalCrps(centre: Tensor, logVariance: Tensor, target: Tensor): Tensor {
  const sigma = exp(scale(logVariance, 0.5));
  const z = div(sub(target, centre), sigma);
  const tails = scale(exp(scale(mul(z, z), -0.5)), SQRT2 * INVERSE_SQRT_PI);
  const both = sub(mul(z, erf(scale(z, 1 / SQRT2))), tails, -1);
  return mul(sigma, sub(both, constant(INVERSE_SQRT_PI, centre.dtype, centre.device)));
}
