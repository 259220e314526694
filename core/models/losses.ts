// PyTorch's losses, each the mean over the valid items of one micro-batch. A step weights these means with their shares of its
// items, which is exact for any split: a loss that is no mean over items has no place here.
import { constant } from "../../ffi/make.ts";
import { gt, narrow, toDtype } from "../../ffi/ops.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { isExpression, isOfClasses, type LossTerm, lossTerms, type NamedLoss } from "../settings/losses.ts";
import { numbersIn } from "../settings/arguments.ts";
import { weightsDtype } from "../settings/precision.ts";
import type { Config } from "../settings/settings.ts";
import { UserError } from "../base/errors.ts";
import type { Value } from "../base/calls.ts";
import { isCode, userFile } from "./user/file.ts";
import { userLoss } from "./user/made.ts";
import { type ClassWeights, classWeights, dice, focal } from "./class_losses.ts";
import { bceOfClasses } from "./class_bce.ts";
import { crossEntropy } from "./cross_entropy.ts";
import { crps, quantile } from "./distribution_losses.ts";
import { multilabelMargin, multilabelSoftMargin, multiMargin, perTarget } from "./margin_losses.ts";
import { binaryCrossEntropy, crossEntropyOfProbabilities, numberLoss, ofNumbers } from "./number_losses.ts";
import { type Points, pointsOf, type PointWeights } from "./valid_points.ts";
import { spectral } from "./spectral_loss.ts";
import { summedLoss, type WeighedLoss } from "./summed_loss.ts";
import type { Facts } from "./model.ts";
import { isSoft } from "./targets.ts";

/** A loss that training can take the mean of over batches of any size, and over ranks. */
export interface Loss {
  /** As --loss names it. */
  readonly name: string;
  /** How many numbers the model must give per sample: two per target for gaussian_nll, else the facts' own. */
  readonly outputs: number;
  /** How metrics may compare the output with the targets, where its name does not say so. */
  readonly like?: "cross_entropy" | "bce" | "mse" | "none";
  /** The mean is over these, and `validCount` counts them; absent: points. */
  readonly counts?: "samples" | "weights";
  /** The losses that this one adds up. */
  readonly terms?: readonly WeighedLoss[];
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
  /** The part that is a variance. */
  readonly variance?: number;
  /** Metrics and predictions take this of the output: rates, of their logarithms. */
  readonly answer?: (output: Tensor) => Tensor;
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
  /** Refuses a part of a step whose share no one number can tell. Waits for the device. */
  refuseUneven?(target: Tensor): void;
  /** How many items that mean divided by. Waits for the device when the loss ignores an index. */
  validCount(target: Tensor): number;
}

/** @internal */
type Settings =
  & Pick<Config["training"], "loss" | "label_smoothing" | "ignore_index" | "huber_delta">
  & Partial<
    Pick<
      Config["training"],
      "amp" | "deterministic" | "class_weights" | "focal_gamma" | "quantiles" | "spectral_weight"
    >
  >;

/** The loss of the settings for the task at hand; "auto" follows the task. `targets`: their names. */
export function createLoss(
  settings: Settings,
  facts: Facts,
  weights: PointWeights | null = null,
  targets: readonly string[] = [],
): Loss {
  const chosen = settings.loss;
  if (weights && isCode(chosen)) throw unweighted(chosen);
  if (isCode(chosen)) return userLoss(userFile(chosen), facts);
  const points = pointsOf(facts, settings.ignore_index, weights);
  const make = (term: LossTerm, of: Facts) => {
    if (weights && WITHOUT_WEIGHTS.includes(term.name)) throw unweighted(term.name);
    if (facts.missing && WITHOUT_MISSING.includes(term.name)) throw incomplete(term.name);
    return namedLoss(term, settings, of, points);
  };
  if (weights && chosen === "graph") throw unweighted(chosen);
  const loss = isExpression(chosen)
    ? summedLoss(chosen, lossTerms(chosen), facts, targets, make)
    : make(alone(nameFor(chosen, facts)), facts);
  if (!isExpression(chosen)) refuseWeights(settings, [loss.name]);
  else refuseWeights(settings, lossTerms(chosen).map(({ name }) => name));
  if (!weights) return loss;
  const { ofProbabilities } = loss;
  return { ...loss, weights, ...(ofProbabilities && { ofProbabilities: { ...ofProbabilities, weights } }) };
}

/** graphLoss replaces the task's own when the graph is loaded. */
const nameFor = (chosen: Settings["loss"], { task }: Facts): NamedLoss =>
  chosen === "auto" || chosen === "graph" ? (task === "regression" ? "mse" : "cross_entropy") : chosen;

const alone = (name: NamedLoss): LossTerm => ({
  name,
  weight: 1,
  values: new Map(),
  targets: null,
  text: name,
});

const WITHOUT_WEIGHTS: readonly string[] = [
  ...["focal", "dice", "spectral", "multi_margin", "multilabel_margin", "multilabel_soft_margin"],
];

/** Their kernels take whole samples. */
const WITHOUT_MISSING: readonly string[] = ["multilabel_margin", "multilabel_soft_margin"];

export const unweighted = (loss: string): UserError =>
  new UserError(
    "usage",
    `--loss-weight weighs the points of a map, which the loss ${loss} does not take apart: use --loss mse, l1, huber, ` +
      "gaussian_nll, quantile, crps, bce or cross_entropy, or leave it out.",
  );

const incomplete = (loss: string): UserError =>
  new UserError(
    "usage",
    `the loss ${loss} takes all targets of a sample, and some are missing: leave such samples out (--missing drop), or ` +
      "use --loss bce, which counts what is there.",
  );

/** The values of a term, or what the settings have for it. */
const valuesOf = (values: ReadonlyMap<string, Value>) => ({
  number: (name: string, otherwise: number) => values.get(name) as number | undefined ?? otherwise,
  flag: (name: string, otherwise: boolean) => values.get(name) as boolean | undefined ?? otherwise,
  numbers: (name: string) => values.has(name) ? numbersIn(values.get(name)!) : null,
});

function namedLoss(term: LossTerm, settings: Settings, facts: Facts, points: Points | null): Loss {
  const { name } = term, { number, flag, numbers } = valuesOf(term.values);
  checkTask(name, facts);
  const ignored = settings.ignore_index, classed = { name, outputs: 1, ignored };
  const weights = classesOf(term, settings, facts);
  switch (name) {
    case "cross_entropy":
    case "nll":
      return crossEntropy(facts, {
        ...{ name, ignored, weights, points, dtype: weightsDtype(settings) },
        smoothing: number("label_smoothing", settings.label_smoothing),
        deterministic: settings.deterministic ?? "off",
      });
    case "focal":
      return focal(facts, { gamma: number("gamma", settings.focal_gamma ?? 2), ignored, weights });
    case "dice":
      return dice(facts, ignored);
    case "multi_margin":
      return multiMargin(facts, { p: number("p", 1), margin: number("margin", 1), ignored, weights });
    case "quantile":
      return quantile(facts, settings.quantiles ?? [], points);
    case "crps":
      return crps(facts, points);
    case "spectral":
      return spectral(facts, number("weight", settings.spectral_weight ?? 1));
    case "multilabel_margin":
      return multilabelMargin(facts);
    case "multilabel_soft_margin":
      return multilabelSoftMargin(facts, numbers("weight"));
    case "bce": {
      const given = numbers("pos_weight");
      const count = facts.task === "regression" || facts.outputs > 2 ? facts.outputs : 1;
      const compare = binaryCrossEntropy(given && perTarget("pos_weight of bce", given, count));
      const about = { name, outputs: facts.outputs }, ofShares = flag("logits", true) === false;
      const threshold = term.values.get("target_threshold") as number | undefined ?? null;
      if (facts.task === "regression" && threshold !== null) throw thresholdOfNumbers();
      if (facts.task !== "regression") {
        if (ofShares) throw sharesOfTwo();
        const of = number("label_smoothing", settings.label_smoothing);
        return facts.outputs > 2
          ? bceOfClasses(facts, { compare, smoothing: of, threshold, ignored })
          : ofTwoClasses(ofNumbers(classed, compare, points), threshold);
      }
      const ofProbabilities = ofNumbers(about, crossEntropyOfProbabilities, points);
      if (ofShares && given) throw weightedShares();
      if (ofShares) return ofProbabilities;
      return { ...ofNumbers(about, compare, points), ...(!given && { ofProbabilities }) };
    }
    default: {
      const own = {
        number: (of: string, otherwise: number) =>
          number(of, of === "delta" ? settings.huber_delta : otherwise),
        flag,
      };
      const loss = numberLoss(name, facts, own, points);
      if (loss === null) throw new Error(`internal: there is no loss ${name}.`);
      return loss;
    }
  }
}

const sharesOfTwo = () =>
  new UserError(
    "usage",
    "bce(logits=false) takes probabilities of numbers, and this data has two classes: leave logits=false out. A graph that " +
      "ends in sigmoid is taken before it.",
  );

const thresholdOfNumbers = () =>
  new UserError(
    "usage",
    "target_threshold of bce makes 0 or 1 of shares of classes, and the targets here are numbers: leave it out.",
  );

const weightedShares = () =>
  new UserError(
    "usage",
    "pos_weight of bce is for logits, as torch's BCEWithLogitsLoss has it: leave it or logits=false out.",
  );

const OF_WEIGHTED_CLASSES: readonly string[] = ["cross_entropy", "nll", "focal", "multi_margin"];

/** Its own weights, or those of the settings. */
function classesOf(
  { name, values }: LossTerm,
  settings: Settings,
  facts: Facts,
): ClassWeights | null {
  const { class_weights: given = [], ignore_index: ignored } = settings;
  if (!OF_WEIGHTED_CLASSES.includes(name)) return null;
  const own = values.has("weight") ? numbersIn(values.get("weight")!).map(String) : given;
  return classWeights(own, facts.outputs, ignored, weightsDtype(settings));
}

/** Only some losses know weights: others must not leave them out in silence. */
function refuseWeights({ class_weights: given = [] }: Settings, names: readonly string[]): void {
  const without = names.find((name) => !OF_WEIGHTED_CLASSES.includes(name));
  if (
    given.length === 0 || without === undefined ||
    names.length > 1 && names.some((name) => OF_WEIGHTED_CLASSES.includes(name))
  ) return;
  throw new UserError(
    "usage",
    `--class-weights are for the losses cross_entropy and focal, and this run minimises ${without}: leave them out.`,
  );
}

function checkTask(name: NamedLoss, { task, outputs }: Facts): void {
  const numbers = task === "regression", ofClasses = isOfClasses(name);
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
  if (name === "multi_margin" && task !== "classification") {
    throw new UserError(
      "usage",
      "the loss multi_margin takes a class for each sample, and this data has one for each pixel or token: use " +
        "--loss cross_entropy or focal.",
    );
  }
  if (name === "bce" && (task === "language" || task === "segmentation" && outputs > 2)) {
    throw new UserError(
      "usage",
      `the loss bce takes a pixel of two classes or a class of each sample, and this data has ${outputs} for each ` +
        `${task === "language" ? "token" : "pixel"}: use --loss cross_entropy.`,
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

/** The one logit stands for the second's share of two classes, [N, 2]. */
function ofTwoClasses(loss: Loss, threshold: number | null): Loss {
  const pair = (target: Tensor) => isSoft(target) && target.shape[1] === 2;
  return {
    ...loss,
    apply(output, target) {
      if (!pair(target)) return loss.apply(output, target);
      const share = narrow(target, 1, 1, 1);
      if (threshold === null) return loss.apply(output, share);
      return loss.apply(
        output,
        toDtype(gt(share, constant(threshold, share.dtype, share.device)), share.dtype),
      );
    },
    validCount: (target) => pair(target) ? target.shape[0] : loss.validCount(target),
  };
}
