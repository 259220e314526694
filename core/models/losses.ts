// PyTorch's losses, each the mean over the valid items of one micro-batch. A step weights these means with their shares of its
// items, which is exact for any split: a loss that is no mean over items has no place here.
import { constant, scale, sub, zeros } from "../../ffi/make.ts";
import {
  bce,
  bceWithLogits,
  cat,
  crossEntropyLoss,
  exp,
  huberLoss,
  l1Loss,
  mean,
  mseLoss,
  mul,
  narrow,
  ne,
  neg,
  permute,
  reshape,
  sum,
  toDtype,
} from "../../ffi/ops.ts";
import { autocast } from "../../ffi/context.ts";
import { describe, scope, type Tensor } from "../../ffi/tensor.ts";
import { CLASS_LOSSES } from "../settings/sections/training.ts";
import type { Config } from "../settings/settings.ts";
import { UserError } from "../base/errors.ts";
import { isCode, userFile } from "./user/file.ts";
import { userLoss } from "./user/made.ts";
import { type ClassWeights, classWeights, dice, focal } from "./class_losses.ts";
import { crps, NORMAL, quantile } from "./distribution_losses.ts";
import {
  meanOf,
  meanOverValid,
  onlyValid,
  type Points,
  pointsOf,
  type PointWeights,
  sharesOfPoints,
  validPoints,
} from "./valid_points.ts";
import { spectral } from "./spectral_loss.ts";
import type { Facts } from "./model.ts";
import { classesLast, inOutputShape, isSoft, toLabels } from "./targets.ts";

/** A loss that training can take the mean of over batches of any size, and over ranks. */
export interface Loss {
  /** As --loss names it. */
  readonly name: string;
  /** How many numbers the model must give per sample: two per target for gaussian_nll, else the facts' own. */
  readonly outputs: number;
  /** For a loss of the user's own making: how metrics may compare the output with the targets. */
  readonly like?: "cross_entropy" | "mse" | "none";
  /** The class whose items do not count; absent where every item does. */
  readonly ignored?: number;
  /** Each target has these outputs, all targets' first part first; absent where it has one. */
  readonly parts?: readonly string[];
  /** The parts are quantiles of these levels. */
  readonly levels?: readonly number[];
  /** The part that metrics compare with the target; the first by default. */
  readonly point?: number;
  /** The part that is the logarithm of a normal distribution's variance. */
  readonly logVariance?: number;
  /** Points count so much, in metrics too; absent where they count alike. */
  readonly weights?: PointWeights;
  /** For a loss of tokens that can be added up over parts of them: the sum over valid tokens, and their number. */
  readonly total?: {
    sum(logits: Tensor, labels: Tensor): Tensor;
    count(labels: Tensor): Tensor;
  };
  /** The same loss where the model gives probabilities, for one that takes logits of numbers. */
  readonly ofProbabilities?: Loss;
  /** A line at the start of a run, where this is not quite the loss that was named. */
  readonly note?: string;
  /** The mean over this micro-batch's valid items, 0-dim, as PyTorch's reduction="mean". */
  apply(output: Tensor, target: Tensor): Tensor;
  /** How many items that mean divided by. Waits for the device when the loss ignores an index. */
  validCount(target: Tensor): number;
}

/** @internal */
type Settings =
  & Pick<Config["training"], "loss" | "label_smoothing" | "ignore_index" | "huber_delta">
  & Partial<
    Pick<
      Config["training"],
      "deterministic" | "class_weights" | "focal_gamma" | "quantiles" | "spectral_weight"
    >
  >;
type Name = Exclude<Settings["loss"], "auto" | "graph">;

const EACH = 0, MEAN = 1, SUM = 2; // at::Reduction

/** The loss of the settings for the task at hand; "auto" follows the task. */
export function createLoss(settings: Settings, facts: Facts, weights: PointWeights | null = null): Loss {
  const chosen = settings.loss;
  if (weights && (isCode(chosen) || WITHOUT_WEIGHTS.includes(chosen))) throw unweighted(chosen);
  if (isCode(chosen)) return userLoss(userFile(chosen), facts);
  const loss = namedLoss(settings, facts, pointsOf(facts, settings.ignore_index, weights));
  if (!weights) return loss;
  const { ofProbabilities } = loss;
  return { ...loss, weights, ...(ofProbabilities && { ofProbabilities: { ...ofProbabilities, weights } }) };
}

const WITHOUT_WEIGHTS: readonly string[] = ["graph", "focal", "dice", "spectral"];

export const unweighted = (loss: string): UserError =>
  new UserError(
    "usage",
    `--loss-weight weighs the points of a map, which the loss ${loss} does not take apart: use --loss mse, l1, huber, ` +
      "gaussian_nll, quantile, crps, bce or cross_entropy, or leave it out.",
  );

function namedLoss(settings: Settings, facts: Facts, points: Points | null): Loss {
  const chosen = settings.loss;
  // graphLoss replaces this one when the graph is loaded.
  const name: Name = chosen === "auto" || chosen === "graph"
    ? (facts.task === "regression" ? "mse" : "cross_entropy")
    : chosen;
  checkTask(name, facts);
  const weights = weightsFor(name, settings, facts);
  const ignored = facts.task === "regression" ? undefined : settings.ignore_index;
  const loss = (outputs: number, compare: Compare) =>
    points
      ? ofPoints({ name, outputs, ignored }, compare, points)
      : elementwise(name, outputs, (output, target) => compare(output, target, MEAN, null));
  switch (name) {
    case "cross_entropy":
      return crossEntropy(facts, settings, weights, points);
    case "focal":
      return focal(facts, { gamma: settings.focal_gamma ?? 2, ignored: settings.ignore_index, weights });
    case "dice":
      return dice(facts, settings.ignore_index);
    case "quantile":
      return quantile(facts, settings.quantiles ?? [], points);
    case "crps":
      return crps(facts, points);
    case "spectral":
      return spectral(facts, settings.spectral_weight ?? 1);
    case "mse":
      return loss(facts.outputs, (output, target, reduction) => mseLoss(output, target, reduction));
    case "l1":
      return loss(facts.outputs, (output, target, reduction) => l1Loss(output, target, reduction));
    case "huber": {
      const delta = settings.huber_delta;
      return loss(facts.outputs, (output, target, reduction) => huberLoss(output, target, reduction, delta));
    }
    case "bce":
      return facts.task === "regression"
        ? {
          ...loss(facts.outputs, binaryCrossEntropy),
          ofProbabilities: loss(facts.outputs, crossEntropyOfProbabilities),
        }
        : ofTwoClasses(loss(1, binaryCrossEntropy));
    case "gaussian_nll":
      return gaussianNll(facts, points);
  }
}

/** Only some losses know weights: others must not leave them out in silence. */
function weightsFor(
  name: Name,
  { class_weights: given = [], ignore_index: ignored }: Settings,
  facts: Facts,
) {
  if (given.length > 0 && name !== "cross_entropy" && name !== "focal") {
    throw new UserError(
      "usage",
      `--class-weights are for the losses cross_entropy and focal, and this run minimises ${name}: leave them out.`,
    );
  }
  return classWeights(given, facts.outputs, ignored);
}

function checkTask(name: Name, { task, outputs }: Facts): void {
  const numbers = task === "regression", ofClasses = CLASS_LOSSES.includes(name);
  if (ofClasses && numbers) {
    throw new UserError(
      "usage",
      `the loss ${name} needs classes, and this data has numbers as targets: ` +
        "use --loss mse, l1, huber, quantile, crps or gaussian_nll (or bce when the targets are between 0 and 1).",
    );
  }
  if (name === "dice" && task !== "segmentation") {
    throw new UserError(
      "usage",
      `the loss dice compares areas, and this data has no class for each pixel: use --loss cross_entropy or focal.`,
    );
  }
  if (name === "bce" && !numbers && (task === "language" || outputs > 2)) {
    throw new UserError(
      "usage",
      `the loss bce needs two classes, and this data has ${outputs}: use --loss cross_entropy.`,
    );
  }
  if (!ofClasses && name !== "bce" && !numbers) {
    throw new UserError(
      "usage",
      `the loss ${name} needs numbers as targets, and this data has ${outputs} classes: ` +
        "use --loss cross_entropy.",
    );
  }
}

/**
 * Outputs are [N, C], [N, C, H, W], or [B, T, V] for language. Targets are class numbers, or shares of
 * classes [N, C].
 */
function crossEntropy(
  facts: Facts,
  settings: Settings,
  weights: ClassWeights | null,
  points: Points | null,
): Loss {
  const { ignore_index: ignoreIndex, label_smoothing: labelSmoothing, deterministic = "off" } = settings;
  const rows = [-1, facts.outputs], all = [-1];
  const language = facts.task === "language";
  const weightsOf = (scores: Tensor): Tensor | null => weights && weights.of(scores.shape[1], scores.device);
  const weighed = (share: Tensor, labels: Tensor) => weights ? mul(share, weights.each(labels)) : share;
  const weightOf = (labels: Tensor, ofPoints: PointWeights): number =>
    scope(() => {
      const share = sharesOfPoints(validPoints(labels, ignoreIndex), ofPoints);
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
    name: "cross_entropy",
    outputs: facts.outputs,
    ignored: ignoreIndex,
    ...(language && !weights && !points && {
      total: {
        sum: (logits: Tensor, labels: Tensor) =>
          crossEntropyLoss(logits, toDtype(labels, "i64"), null, SUM, ignoreIndex, labelSmoothing),
        count: (labels: Tensor) =>
          sum(ne(toDtype(labels, "i64"), constant(ignoreIndex, "i64", labels.device)), "f32"),
      },
    }),
    apply(output, target) {
      if (!language && isSoft(target)) {
        if (ignoreIndex >= 0) throw ignoredAmongShares(ignoreIndex);
        return crossEntropyLoss(
          output,
          widened(target, output),
          weightsOf(output),
          MEAN,
          ignoreIndex,
          labelSmoothing,
        );
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
        const each = crossEntropyLoss(output, target, weightsOf(output), EACH, ignoreIndex, labelSmoothing);
        const share = sharesOfPoints(points.valid(labels), points.weights);
        return meanOf(sum(mul(reshape(each, labels.shape), share)), sum(weighed(share, labels)));
      }
      if (points) { // the mean over nothing is NaN
        const total = crossEntropyLoss(output, target, weightsOf(output), SUM, ignoreIndex, labelSmoothing);
        return weights
          ? meanOf(total, sum(weights.each(target)))
          : meanOverValid(total, points.valid(target));
      }
      return crossEntropyLoss(output, target, weightsOf(output), MEAN, ignoreIndex, labelSmoothing);
    },
    validCount: (target) =>
      !language && isSoft(target)
        ? target.shape[0]
        : points?.weights
        ? weightOf(target, points.weights)
        : weights
        ? weights.sum(target)
        : scope(() => Number(sum(ne(target, constant(ignoreIndex, "i64", target.device))).itemBigInt())),
  };
}

/** Classes that only the model has get shares of 0. */
function widened(target: Tensor, output: Tensor): Tensor {
  const more = output.shape[1] - target.shape[1];
  return more > 0 ? cat([target, zeros([target.shape[0], more], target)], 1) : target;
}

const ignoredAmongShares = (ignored: number) =>
  new UserError(
    "usage",
    `training.ignore_index ${ignored} names a class label, and --mixup, --cutmix and --one-hot make shares of all ` +
      "classes of the labels: leave one or the other out.",
  );

function elementwise(name: Name, outputs: number, compare: (output: Tensor, target: Tensor) => Tensor): Loss {
  return {
    name,
    outputs,
    apply: (output, target) => compare(output, inOutputShape(target, output)),
    validCount: (target) => target.numel,
  };
}

/** Points that do not count are 0 on both sides; `weight` is 0 there too, and null where all count. */
type Compare = (output: Tensor, target: Tensor, reduction: number, weight: Tensor | null) => Tensor;

function ofPoints(
  about: Pick<Loss, "name" | "outputs" | "ignored">,
  compare: Compare,
  points: Points,
): Loss {
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

/** The output is logits. Targets are 0 or 1 (or between), also as class numbers. */
function binaryCrossEntropy(
  output: Tensor,
  target: Tensor,
  reduction: number,
  weight: Tensor | null,
): Tensor {
  if (target.dtype !== "f32") target = toDtype(target, "f32");
  return bceWithLogits(output, target, weight && toDtype(weight, "f32"), null, reduction);
}

/** The output is probabilities. PyTorch refuses this loss under autocast on a GPU: its logarithms want f32. */
const crossEntropyOfProbabilities: Compare = (output, target, reduction, weight) =>
  autocast(null, output.device !== "cpu", () => {
    const [shares, wanted, weights] = [output, target, weight].map((t) => t && toDtype(t, "f32"));
    return bce(shares!, wanted!, weights, reduction);
  });

/** The one logit stands for the second's share of two classes, [N, 2]. */
function ofTwoClasses(loss: Loss): Loss {
  const pair = (target: Tensor) => isSoft(target) && target.shape[1] === 2;
  return {
    ...loss,
    apply: (output, target) => loss.apply(output, pair(target) ? narrow(target, 1, 1, 1) : target),
    validCount: (target) => pair(target) ? target.shape[0] : loss.validCount(target),
  };
}

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
      const whole = output.dtype === "f32" ? output : toDtype(output, "f32");
      const count = whole.shape[1] / 2;
      const centre = narrow(whole, 1, 0, count);
      const logVariance = narrow(whole, 1, count, count);
      const compared = inOutputShape(target, centre);
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
