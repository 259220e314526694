// Losses of classes beside cross entropy, focal and Dice, and the weights of classes.
import { add, constant, constantRow, onEachDevice, scale, sub, tensor } from "../../ffi/make.ts";
import {
  amax,
  clamp,
  crossEntropyLoss,
  div,
  eq,
  exp,
  indexSelect,
  meanDim,
  mul,
  ne,
  neg,
  pow,
  reshape,
  softmax,
  sum,
  sumDim,
  toDtype,
  where,
} from "../../ffi/ops.ts";
import { opmathType } from "../../ffi/dtype.ts";
import { type Device, scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { sharesOfClasses } from "./cross_entropy.ts";
import type { Loss } from "./losses.ts";
import type { Facts } from "./model.ts";
import { EACH } from "./reduction.ts";
import { classesSecond, isSoft, toLabels } from "./targets.ts";
import { meanOf } from "./valid_points.ts";

const counted = (labels: Tensor, ignored: number): Tensor =>
  ne(labels, constant(ignored, labels.dtype, labels.device));

const wholeLabels = (target: Tensor): Tensor => target.dtype === "i64" ? target : toDtype(target, "i64");

/** Each class counts so much in the mean. */
export interface ClassWeights {
  /** One for each of the model's classes. */
  of(classes: number, device: Device): Tensor;
  /** The weights of these labels, 0 where one is ignored: what a weighted mean divides by. */
  sum(labels: Tensor): number;
  /** The same, label by label. */
  each(labels: Tensor): Tensor;
}

/** Null where all classes count alike. */
export function classWeights(
  given: readonly string[],
  classes: number,
  ignored: number,
  dtype: "f32" | "f64",
): ClassWeights | null {
  if (given.length === 0) return null;
  const values = given.map(Number);
  const wrong = given.find((_, i) => !(values[i] >= 0 && Number.isFinite(values[i])));
  if (wrong !== undefined || values.length !== classes || values.every((value) => value === 0)) {
    const found = wrong === undefined ? `${values.length} of ${given.join(",")}` : `"${wrong}"`;
    throw new UserError(
      "usage",
      `--class-weights takes a number for each class, 0 or more, and this data has ${classes} classes, but got ${found}: ` +
        `give ${classes} numbers in the order of the classes, such as ${
          Array.from({ length: classes }, (_, i) => i + 1).slice(0, 8).join(",")
        }.`,
    );
  }
  const made = new Map<number, (device: Device) => Tensor>();
  const of = (count: number, device: Device): Tensor => {
    let weights = made.get(count);
    if (weights === undefined) { // classes that only the model has are never a label
      made.set(count, weights = constantRow(Array.from({ length: count }, (_, i) => values[i] ?? 1), dtype));
    }
    return weights(device);
  };
  const each = (labels: Tensor): Tensor => {
    const own = wholeLabels(labels), counts = counted(own, ignored);
    const safe = reshape(where(counts, own, constant(0, "i64", own.device)), [-1]);
    return mul(reshape(indexSelect(of(classes, own.device), 0, safe), own.shape), toDtype(counts, dtype));
  };
  return { of, each, sum: (labels) => scope(() => sum(each(labels), "f64").item()) };
}

interface FocalOptions {
  readonly gamma: number;
  readonly ignored: number;
  readonly weights: ClassWeights | null;
}

/** No power has an endless slope above it. */
const LEAST_MISS = 1e-8;

/** (1 - p)^gamma * -log(p) of each label's probability p: what is predicted well counts less. Lin et al. 2017. */
export function focal(facts: Facts, { gamma, ignored, weights }: FocalOptions): Loss {
  return {
    name: "focal",
    like: "cross_entropy",
    ...(weights && { counts: "weights" }),
    outputs: facts.outputs,
    ignored,
    apply(output, target) {
      if (facts.task !== "language" && isSoft(target)) throw sharesOfClasses("focal");
      const labels = wholeLabels(target);
      const scores = facts.task === "language"
        ? reshape(output, [-1, output.shape[output.shape.length - 1]])
        : toLabels(classesSecond(output, labels), labels);
      const flat = facts.task === "language" ? reshape(labels, [-1]) : labels;
      const surprise = crossEntropyLoss(scores, flat, null, EACH, ignored);
      const dtype = opmathType(scores.dtype),
        number = (value: number) => constant(value, dtype, scores.device);
      const miss = clamp(sub(number(1), exp(neg(surprise))), number(LEAST_MISS));
      const each = mul(pow(miss, number(gamma)), surprise);
      const share = weights ? weights.each(flat) : toDtype(counted(flat, ignored), dtype);
      return meanOf(sum(mul(each, share)), sum(share));
    },
    validCount: (target) => weights ? weights.sum(target) : countOf(target, ignored),
  };
}

const countOf = (target: Tensor, ignored: number): number =>
  scope(() => Number(sum(counted(wholeLabels(target), ignored)).itemBigInt()));

/** MONAI's smoothing of both sides of the fraction. */
const SMOOTH = 1e-5;

/**
 * 1 - 2 |p t| / (|p| + |t|) of each sample and class, p the probabilities and t the labels, as MONAI's
 * DiceLoss(softmax=True, to_onehot_y=True): the mean over classes, then over the samples that have a label that
 * counts. A sample is an item, so any split of a batch has the same mean.
 */
export function dice(facts: Facts, ignored: number): Loss {
  const any = (counts: Tensor) => amax(reshape(counts, [counts.shape[0], -1]), [1]);
  return {
    name: "dice",
    like: "cross_entropy",
    counts: "samples",
    outputs: facts.outputs,
    ignored,
    apply(output, target) {
      const labels = wholeLabels(target), { device } = labels;
      const scores = toLabels(output, labels);
      const [items, classes] = scores.shape, dtype = opmathType(scores.dtype);
      const counts = counted(labels, ignored);
      const share = toDtype(reshape(counts, [items, 1, -1]), dtype);
      const p = mul(softmax(reshape(scores, [items, classes, -1]), 1, dtype), share);
      const truth = eq(reshape(labels, [items, 1, -1]), classNumbers(classes, device));
      const t = mul(toDtype(truth, dtype), share);
      const both = sumDim(mul(p, t), [2]), all = add(sumDim(p, [2]), sumDim(t, [2]));
      const smooth = constant(SMOOTH, dtype, device);
      const overlap = meanDim(div(add(scale(both, 2), smooth), add(all, smooth)), [1]);
      const weight = toDtype(any(counts), dtype);
      const lost = mul(sub(constant(1, dtype, device), overlap), weight);
      return meanOf(sum(lost), sum(weight));
    },
    validCount: (target) => scope(() => Number(sum(any(counted(wholeLabels(target), ignored))).itemBigInt())),
  };
}

const numbers = new Map<number, (device: Device) => Tensor>();

/** [1, classes, 1] */
export function classNumbers(classes: number, device: Device): Tensor {
  let made = numbers.get(classes);
  if (made === undefined) {
    const values = BigInt64Array.from({ length: classes }, (_, i) => BigInt(i));
    numbers.set(classes, made = onEachDevice(() => tensor(values, [1, classes, 1])));
  }
  return made(device);
}
