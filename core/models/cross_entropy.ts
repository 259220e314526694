// Cross entropy of scores, and the likelihood of logarithms of probabilities that a model gives itself (nll).
import { constant, zeros } from "../../ffi/make.ts";
import { cat, crossEntropyLoss, mul, ne, nllLoss, permute, reshape, sum, toDtype } from "../../ffi/ops.ts";
import { describe, scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import type { ClassWeights } from "./class_losses.ts";
import type { Loss } from "./losses.ts";
import type { Facts } from "./model.ts";
import { EACH, MEAN, SUM } from "./reduction.ts";
import { classesLast, isSoft, toLabels } from "./targets.ts";
import {
  meanOf,
  meanOverValid,
  type Points,
  type PointWeights,
  sharesOfPoints,
  validPoints,
} from "./valid_points.ts";

interface Options {
  readonly name: "cross_entropy" | "nll";
  readonly ignored: number;
  readonly smoothing: number;
  readonly deterministic: string;
  readonly weights: ClassWeights | null;
  readonly points: Points | null;
  /** Weights are trained in it. */
  readonly dtype: "f32" | "f64";
}

/**
 * Outputs are [N, C], [N, C, H, W], or [B, T, V] for language. Targets are class numbers, or shares of
 * classes [N, C].
 */
export function crossEntropy(
  facts: Facts,
  { name, ignored, smoothing, deterministic, weights, points, dtype }: Options,
): Loss {
  const rows = [-1, facts.outputs], all = [-1];
  const language = facts.task === "language";
  const judge = (output: Tensor, target: Tensor, weight: Tensor | null, reduction: number): Tensor =>
    name === "nll"
      ? nllLoss(output, target, weight, reduction, ignored)
      : crossEntropyLoss(output, target, weight, reduction, ignored, smoothing);
  const weightsOf = (scores: Tensor): Tensor | null => weights && weights.of(scores.shape[1], scores.device);
  const weighed = (share: Tensor, labels: Tensor) => weights ? mul(share, weights.each(labels)) : share;
  const weightOf = (labels: Tensor, ofPoints: PointWeights): number =>
    scope(() => {
      const share = sharesOfPoints(validPoints(labels, ignored), ofPoints);
      return sum(weighed(share, labels), "f64").item();
    });
  /** On a GPU the gradient of an interpolation is added up in any order. */
  const sized = (output: Tensor, target: Tensor): Tensor => {
    const scores = toLabels(output, target);
    if (scores === output || deterministic === "off" || output.device === "cpu") return scores;
    throw new UserError(
      "usage",
      `the model gives ${describe(output)} and the labels are ${
        describe(target)
      }: to bring the scores to the labels' size ` +
        "has no fixed order on a GPU. Leave --deterministic out, or give labels of the model's size.",
    );
  };
  return {
    name,
    like: "cross_entropy",
    ...(weights && { counts: "weights" }),
    outputs: facts.outputs,
    ignored,
    ...(language && !weights && !points && {
      total: {
        sum: (logits: Tensor, labels: Tensor) => judge(logits, toDtype(labels, "i64"), null, SUM),
        count: (labels: Tensor) =>
          sum(ne(toDtype(labels, "i64"), constant(ignored, "i64", labels.device)), dtype),
      },
    }),
    apply(output, target) {
      if (!language && isSoft(target)) {
        if (name === "nll") throw sharesOfClasses(name);
        if (ignored >= 0) throw ignoredAmongShares(ignored);
        return judge(output, widened(target, output), weightsOf(output), MEAN);
      }
      if (target.dtype !== "i64") target = toDtype(target, "i64");
      const labels = target;
      const rowsOfClasses = language || classesLast(output, target);
      if (!rowsOfClasses) output = sized(output, target);
      if (rowsOfClasses) {
        rows[1] = output.shape[output.shape.length - 1];
        output = reshape(output, rows);
        target = reshape(target, all);
      } else if (deterministic !== "off" && output.shape.length === 4) { // On a GPU the loss of maps adds up in any order.
        output = reshape(permute(output, [0, 2, 3, 1]), rows);
        target = reshape(target, all);
      }
      if (points?.weights) {
        const each = judge(output, target, weightsOf(output), EACH);
        const share = sharesOfPoints(points.valid(labels), points.weights);
        return meanOf(sum(mul(reshape(each, labels.shape), share)), sum(weighed(share, labels)));
      }
      if (points) { // the mean over nothing is NaN
        const total = judge(output, target, weightsOf(output), SUM);
        return weights
          ? meanOf(total, sum(weights.each(target)))
          : meanOverValid(total, points.valid(target));
      }
      return judge(output, target, weightsOf(output), MEAN);
    },
    validCount: (target) =>
      !language && isSoft(target)
        ? target.shape[0]
        : points?.weights
        ? weightOf(target, points.weights)
        : weights
        ? weights.sum(target)
        : scope(() => Number(sum(ne(target, constant(ignored, "i64", target.device))).itemBigInt())),
  };
}

/** Classes that only the model has get shares of 0. */
export function widened(target: Tensor, output: Tensor): Tensor {
  const more = output.shape[1] - target.shape[1];
  return more > 0 ? cat([target, zeros([target.shape[0], more], target)], 1) : target;
}

export const ignoredAmongShares = (ignored: number) =>
  new UserError(
    "usage",
    `training.ignore_index ${ignored} names a class label, and --mixup, --cutmix and --one-hot make shares of all ` +
      "classes of the labels: leave one or the other out.",
  );

export const sharesOfClasses = (name: string) =>
  new UserError(
    "usage",
    `the loss ${name} takes class numbers, and --mixup, --cutmix and --one-hot make shares of classes: leave them out, or ` +
      "use --loss cross_entropy.",
  );
