// Losses that compare numbers one by one, as torch.nn has them, and the likelihood of a normal distribution.
import { opmathType } from "../../ffi/dtype.ts";
import { constant, scale, sub, upcast } from "../../ffi/make.ts";
import {
  bce,
  bceWithLogits,
  chunk,
  detach,
  div,
  exp,
  hingeEmbeddingLoss,
  huberLoss,
  klDiv,
  l1Loss,
  log,
  lt,
  marginRankingLoss,
  mean,
  mseLoss,
  mul,
  narrow,
  neg,
  poissonNllLoss,
  smoothL1Loss,
  softMarginLoss,
  sum,
  toDtype,
  where,
} from "../../ffi/ops.ts";
import { autocast } from "../../ffi/context.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { NORMAL } from "./distribution_losses.ts";
import type { Loss } from "./losses.ts";
import type { Facts } from "./model.ts";
import { EACH, MEAN, SUM } from "./reduction.ts";
import { inOutputShape } from "./targets.ts";
import { meanOverValid, onlyValid, type Points } from "./valid_points.ts";

/** `weight` is null where all points count; it is 0 where one does not. */
export type Compare = (output: Tensor, target: Tensor, reduction: number, weight: Tensor | null) => Tensor;

type About = Pick<Loss, "name" | "outputs" | "like" | "ignored">;

/** Points that do not count are 0 on both sides, and `compare` gives 0 for them. */
export function ofNumbers(about: About, compare: Compare, points: Points | null): Loss {
  if (!points) return elementwise(about, (output, target) => compare(output, target, MEAN, null));
  return {
    ...about,
    apply(output, target) {
      const compared = inOutputShape(target, output), valid = points.valid(compared);
      const a = onlyValid(output, valid), b = onlyValid(compared, valid);
      return points.weights
        ? points.mean(compare(a, b, EACH, valid), valid)
        : meanOverValid(compare(a, b, SUM, valid), valid);
    },
    validCount: points.count,
  };
}

/** `compare` may give anything for 0 and 0, which does not count where a point is missing. */
const ofKnownNumbers = (about: About, compare: Compare, points: Points | null): Loss =>
  ofNumbers(
    about,
    (output, target, reduction, valid) => {
      if (!valid) return compare(output, target, reduction, null);
      const each = onlyValid(compare(output, target, EACH, null), valid);
      return reduction === EACH ? each : sum(each);
    },
    points,
  );

const elementwise = (about: About, compare: (output: Tensor, target: Tensor) => Tensor): Loss => ({
  ...about,
  apply: (output, target) => compare(output, inOutputShape(target, output)),
  validCount: (target) => target.numel,
});

/** The numbers that a term gives for its arguments. */
interface Values {
  number(name: string, otherwise: number): number;
  flag(name: string, otherwise: boolean): boolean;
}

/** Losses of numbers, point by point; null for any other. */
export function numberLoss(
  name: string,
  facts: Facts,
  { number, flag }: Values,
  points: Points | null,
): Loss | null {
  const about = { name, outputs: facts.outputs }, strange = { ...about, like: "none" } as const;
  switch (name) {
    case "mse":
      return ofNumbers(about, (output, target, reduction) => mseLoss(output, target, reduction), points);
    case "l1":
      return ofNumbers(about, (output, target, reduction) => l1Loss(output, target, reduction), points);
    case "huber": {
      const delta = number("delta", 1);
      return ofNumbers(
        about,
        (output, target, reduction) => huberLoss(output, target, reduction, delta),
        points,
      );
    }
    case "smooth_l1": {
      const beta = number("beta", 1);
      return ofNumbers(
        about,
        (output, target, reduction) => smoothL1Loss(output, target, reduction, beta),
        points,
      );
    }
    case "poisson_nll": {
      const ofLogs = flag("log_input", true), full = flag("full", false), eps = number("eps", 1e-8);
      const compare: Compare = (output, target, reduction) =>
        poissonNllLoss(output, target, ofLogs, full, eps, reduction);
      return { ...ofKnownNumbers(about, compare, points), ...(ofLogs && { answer: exp }) };
    }
    case "kl_div":
      return divergence(strange, flag("log_target", false), flag("batchmean", false), points);
    case "soft_margin":
      return ofKnownNumbers(
        strange,
        (output, target, reduction) => softMarginLoss(output, target, reduction),
        points,
      );
    case "hinge_embedding": {
      const margin = number("margin", 1);
      return ofKnownNumbers(
        strange,
        (output, target, reduction) => hingeEmbeddingLoss(output, target, margin, reduction),
        points,
      );
    }
    case "margin_ranking":
      return ranking(facts, number("margin", 0), points);
    case "gaussian_nll":
      return flag("log_variance", true)
        ? gaussianNll(facts, points)
        : gaussianOfVariances(facts, flag("full", false), number("eps", 1e-6), points);
    default:
      return null;
  }
}

function divergence(about: About, logTarget: boolean, batchmean: boolean, points: Points | null): Loss {
  const compare: Compare = (output, target, reduction) => klDiv(output, target, reduction, logTarget);
  if (!batchmean || points) return ofKnownNumbers(about, compare, points);
  return {
    ...about,
    counts: "samples",
    apply: (output, target) =>
      div(
        compare(output, inOutputShape(target, output), SUM, null),
        constant(output.shape[0], output.dtype, output.device),
      ),
    validCount: (target) => target.shape[0],
  };
}

/** All targets' first scores come first, then all their second. */
function ranking(facts: Facts, margin: number, points: Points | null): Loss {
  const about = { name: "margin_ranking", outputs: 2 * facts.outputs, like: "none" } as const;
  return {
    ...about,
    parts: ["first", "second"],
    apply(output, target) {
      const [a, b] = chunk(output, 2, 1), compared = inOutputShape(target, a);
      if (!points) return marginRankingLoss(a, b, compared, margin);
      const valid = points.valid(compared), [x, y, z] = [a, b, compared].map((t) => onlyValid(t, valid));
      return points.mean(onlyValid(marginRankingLoss(x, y, z, margin, EACH), valid), valid);
    },
    validCount: (target) => points?.count(target) ?? target.numel,
  };
}

/** Logits, of targets that are 0 or 1, or between. `ofOnes`: what those of 1 count more, one for all or for each target. */
export const binaryCrossEntropy = (ofOnes: ((like: Tensor) => Tensor) | null): Compare =>
(
  output,
  target,
  reduction,
  weight,
) => {
  const dtype = opmathType(output.dtype);
  if (target.dtype !== dtype) target = toDtype(target, dtype);
  return bceWithLogits(output, target, weight && toDtype(weight, dtype), ofOnes && ofOnes(output), reduction);
};

/** The output is probabilities. PyTorch refuses this loss under autocast on a GPU: its logarithms want f32. */
export const crossEntropyOfProbabilities: Compare = (output, target, reduction, weight) =>
  autocast(null, output.device !== "cpu", () => {
    const [shares, wanted, weights] = [output, target, weight].map((t) =>
      t && toDtype(t, opmathType(output.dtype))
    );
    return bce(shares!, wanted!, weights, reduction);
  });

const halves = (output: Tensor): [Tensor, Tensor] => {
  const whole = upcast(output), count = whole.shape[1] / 2;
  return [narrow(whole, 1, 0, count), narrow(whole, 1, count, count)];
};

/**
 * This is the negative log-likelihood of a normal distribution, without its constant. The model's outputs
 * are, along dimension 1, first the means and then the logarithms of the variances: half * (v + (mean -
 * target)^2 * e^-v).
 */
function gaussianNll(facts: Facts, points: Points | null): Loss {
  return {
    name: "gaussian_nll",
    outputs: 2 * facts.outputs,
    ...NORMAL,
    apply(output, target) {
      const [centre, logVariance] = halves(output), compared = inOutputShape(target, centre);
      if (points) {
        const valid = points.valid(compared), known = (t: Tensor) => onlyValid(t, valid);
        return points.mean(halfSquares(known(centre), known(logVariance), known(compared)), valid);
      }
      return mean(halfSquares(centre, logVariance, compared));
    },
    validCount: (target) => points?.count(target) ?? target.numel,
  };
}

function halfSquares(centre: Tensor, logVariance: Tensor, target: Tensor): Tensor {
  const miss = sub(centre, target);
  const weighted = mul(mul(miss, miss), exp(neg(logVariance)));
  return scale(sub(logVariance, weighted, -1), 0.5);
}

/** As torch.nn.GaussianNLLLoss: a variance below `eps` counts as it, and has its gradient all the same. */
function gaussianOfVariances(facts: Facts, full: boolean, eps: number, points: Points | null): Loss {
  const each = (centre: Tensor, variance: Tensor, target: Tensor): Tensor => {
    const now = detach(variance), least = constant(eps, variance.dtype, variance.device);
    const safe = where(lt(now, least), sub(sub(variance, now), least, -1), variance);
    const miss = sub(centre, target);
    const half = scale(sub(log(safe), div(mul(miss, miss), safe), -1), 0.5);
    return full ? sub(half, constant(0.5 * Math.log(2 * Math.PI), half.dtype, half.device), -1) : half;
  };
  return {
    name: "gaussian_nll",
    outputs: 2 * facts.outputs,
    parts: ["mean", "variance"],
    point: 0,
    variance: 1,
    apply(output, target) {
      const [centre, variance] = halves(output), compared = inOutputShape(target, centre);
      if (!points) return mean(each(centre, variance, compared));
      const valid = points.valid(compared), known = (t: Tensor) => onlyValid(t, valid);
      const certain = where(valid, variance, constant(1, variance.dtype, variance.device));
      return points.mean(known(each(known(centre), certain, known(compared))), valid);
    },
    validCount: (target) => points?.count(target) ?? target.numel,
  };
}
