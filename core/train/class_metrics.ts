// The measure of classes: accuracy, top 5, precision, recall, F1, calibration and the overlap of areas, all of sums that can be added
// over batches and ranks.
import { constant } from "../../ffi/make.ts";
import {
  abs,
  amax,
  argmax,
  cat,
  clamp,
  eq,
  floor,
  ge,
  gt,
  logicalAnd,
  lt,
  mul,
  ne,
  reshape,
  sigmoid,
  softmax,
  sumDim,
  toDtype,
  topk,
  unsqueeze,
  where,
  zerosLike,
} from "../../ffi/ops.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { classesSecond, isSoft, toLabels } from "../models/targets.ts";
import { constantOnDevice, type Measure, type Metrics, spreadMask } from "./measure.ts";
import type { RequestedMetric } from "../settings/metrics.ts";
import { type ClassCounts, countsClasses, ofClassCounts } from "./requested_metrics.ts";
import { type PointWeights, validPoints } from "../models/valid_points.ts";

/** More targets or classes have no metrics of their own. */
export const MOST_NAMED = 32;

/** Counts of more classes would take longer than the evaluation. */
export const MOST_JUDGED = 4096;

/** torchmetrics' default. */
const BINS = 15;

/** The sums of the calibration error: the number in each bin of confidence, its confidences and its hits. */
const OF_BIN = 3;

/** [batches, bins] for each. `scores` are [items, classes, ...], or [items, ...] of one logit. */
function calibrationSums(
  scores: Tensor,
  oneLogit: boolean,
  hit: Tensor,
  valid: Tensor,
  batches: number,
  bins: number,
): Tensor[] {
  const { device } = scores, c = (value: number) => constant(value, "f64", device);
  const [isValid, isHit] = [valid, hit].map((t) => reshape(t, [-1]));
  const exact = toDtype(scores, "f64");
  const shares = oneLogit
    ? sigmoid(abs(exact)) // of the likelier class
    : amax(softmax(exact, 1), [1]);
  const sure = where(isValid, reshape(shares, [-1]), c(0));
  const bin = clamp(floor(mul(sure, c(bins))), null, c(bins - 1)), numbered = numbersUpTo(bins);
  const within = logicalAnd(eq(unsqueeze(bin, 1), numbered(device, [1, bins])), unsqueeze(isValid, 1));
  const total = (t: Tensor) => sumDim(reshape(t, [batches, -1, bins]), [1], false, "f64");
  return [
    total(within),
    total(where(within, unsqueeze(sure, 1), c(0))),
    total(logicalAnd(within, unsqueeze(isHit, 1))),
  ];
}

/** The mean distance between the share of hits and the confidence, bin by bin (Guo et al. 2017). */
function calibrationError(sums: Float64Array, bins: number): number {
  let error = 0, all = 0;
  for (let i = 0; i < bins; i++) {
    all += sums[i];
    error += Math.abs(sums[bins + i] - sums[2 * bins + i]);
  }
  return error / all;
}

/**
 * Means over the classes that are labelled or predicted, as scikit-learn's "macro"; a class that is never
 * predicted has a precision of 0.
 */
function scoresOf(
  classes: readonly ClassCounts[],
  named: ((k: number) => string) | null,
): Record<string, number> {
  const seen = classes.map((one, k) => ({ ...one, k })).filter(({ labelled, predicted }) =>
    labelled + predicted > 0
  );
  const mean = (of: (one: ClassCounts) => number) =>
    seen.reduce((sum, one) => sum + of(one), 0) / seen.length;
  const share = (part: number, whole: number) => whole > 0 ? part / whole : 0;
  const f1 = ({ labelled, predicted, both }: ClassCounts) => 2 * both / (labelled + predicted);
  return {
    precision: mean(({ predicted, both }) => share(both, predicted)),
    recall: mean(({ labelled, both }) => share(both, labelled)),
    f1: mean(f1),
    ...(named && Object.fromEntries(seen.map((one) => [`f1/${named(one.k)}`, f1(one)]))),
  };
}

interface Classes {
  readonly count: number;
  readonly names?: readonly string[];
  /** A positive number means class 1. */
  readonly oneLogit: boolean;
  /** Labels may be missing: they are the ignored class. */
  readonly missing: boolean;
  /** Pixels count so much. */
  readonly weights?: PointWeights;
  readonly ignored?: number;
  readonly top5: boolean;
  /** Intersection over union, class by class. */
  readonly overlap: boolean;
  /** Precision, recall, F1 and calibration. */
  readonly judged: boolean;
  /** Further ones. */
  readonly requested: readonly RequestedMetric[];
}

/**
 * Classes stand in dimension 1. An item counts unless its label is ignored or unknown. The largest of soft
 * labels is the label.
 */
export function classes(
  { count, names = [], oneLogit, missing, weights, ignored = -1, top5, overlap, judged, requested }: Classes,
): Measure {
  const tops = [...new Set([...(top5 ? [5] : []), ...requested.flatMap(topOf)])];
  const binned = [...new Set([...(judged ? [BINS] : []), ...requested.flatMap(binsOf)])];
  const named = (i: number) => names[i] ?? String(i);
  const numbered = numbersUpTo(count),
    counted = overlap || judged || requested.some(countsClasses) ? 3 * count : 0;
  const perBatch = (hits: Tensor, batches: number) => sumDim(reshape(hits, [batches, -1]), [1], true, "f64");
  const counts = (labels: Tensor, highest: number): Tensor => {
    const { device, dtype } = labels;
    const inRange = logicalAnd(
      ge(labels, constant(0, dtype, device)),
      lt(labels, constant(highest, dtype, device)),
    );
    return ignored < 0 ? inRange : logicalAnd(inRange, ne(labels, constant(ignored, dtype, device)));
  };
  /** Labels, predictions, and both: [items, class, ...]. */
  const overlaps = (predicted: Tensor, labels: Tensor, valid: Tensor, batches: number): Tensor[] => {
    const each = numbered(labels.device, [1, count, ...labels.shape.slice(1).map(() => 1)]);
    const of = (t: Tensor) => logicalAnd(eq(unsqueeze(t, 1), each), unsqueeze(valid, 1));
    const a = of(labels), b = of(predicted);
    const share = weights && unsqueeze(weights.on(labels.device), 0);
    return [a, b, logicalAnd(a, b)].map((t) =>
      sumDim(
        reshape(share ? mul(t, share) : t, [batches, labels.shape[0] / batches, count, -1]),
        [1, 3],
        false,
        "f64",
      )
    );
  };
  return {
    size: 2 + tops.length + counted + binned.reduce((sum, bins) => sum + OF_BIN * bins, 0),
    seesOutputs: true,
    many: true,
    rows(output, target, batches, mask = null) {
      const labels = isSoft(target) && target.shape[1] > 1
        ? argmax(target, 1)
        : oneLogit
        ? toDtype(ne(target, zerosLike(target)), "i64")
        : target;
      const scores = oneLogit ? output : toLabels(classesSecond(output, labels), labels);
      const predicted = oneLogit
        ? toDtype(reshape(gt(scores, zerosLike(scores)), labels.shape), "i64")
        : argmax(scores, 1);
      const inRange = counts(labels, oneLogit ? 2 : scores.shape[1]);
      // Any class but 0 is taken for 1 there, the ignored one too.
      const known = oneLogit && missing ? logicalAnd(inRange, validPoints(target, ignored)) : inRange;
      const valid = mask ? logicalAnd(known, spreadMask(mask, labels)) : known;
      const share = weights?.on(labels.device);
      const total = (which: Tensor) => perBatch(share ? mul(which, share) : which, batches);
      const hit = logicalAnd(eq(predicted, labels), valid), columns = [total(hit), total(valid)];
      for (const k of tops) {
        const [, best] = topk(scores, k, 1);
        columns.push(perBatch(logicalAnd(eq(best, unsqueeze(labels, 1)), unsqueeze(valid, 1)), batches));
      }
      if (counted > 0) columns.push(...overlaps(predicted, labels, valid, batches));
      for (const bins of binned) {
        columns.push(...calibrationSums(scores, oneLogit, hit, valid, batches, bins));
      }
      return cat(columns, 1);
    },
    finish(sums) {
      const metrics: Metrics = { accuracy: sums[0] / sums[1] };
      tops.forEach((k, i) => metrics[`top${k}`] = sums[2 + i] / sums[1]);
      const from = 2 + tops.length;
      const each = Array.from({ length: counted / 3 }, (_, k) => {
        const [labelled, predicted, both] = [0, 1, 2].map((part) => sums[from + part * count + k]);
        return { labelled, predicted, both };
      });
      if (judged) {
        Object.assign(metrics, scoresOf(each, count <= MOST_NAMED ? named : null));
      }
      let at = from + counted;
      for (const bins of binned) {
        metrics[bins === BINS ? "ece" : `ece_${bins}`] = calibrationError(sums.subarray(at), bins);
        at += OF_BIN * bins;
      }
      if (overlap) {
        const ious = each.map(({ labelled, predicted, both }) => both / (labelled + predicted - both) // NaN where the class is nowhere
        );
        const present = ious.filter((iou, k) => !Number.isNaN(iou) && k !== ignored);
        metrics.mean_iou = present.reduce((a, b) => a + b, 0) / present.length;
        if (count <= MOST_NAMED) ious.forEach((iou, k) => metrics[`iou/${named(k)}`] = iou);
      }
      for (const one of requested) {
        if (countsClasses(one)) metrics[one.key] = ofClassCounts(one, each, ignored);
      }
      return { metrics, worst: null };
    },
  };
}

const topOf = ({ name, values }: RequestedMetric): number[] =>
  name === "top_k" ? [Number(values.get("k") ?? 5)] : [];
const binsOf = ({ name, values }: RequestedMetric): number[] =>
  name === "ece" ? [Number(values.get("bins") ?? BINS)] : [];

type OnDevice = ReturnType<typeof constantOnDevice>;

const upTo = new Map<number, OnDevice>();

/** 0, 1, ..., one less than the number. */
function numbersUpTo(count: number): OnDevice {
  let cached = upTo.get(count);
  if (!cached) {
    upTo.set(
      count,
      cached = constantOnDevice(() => Float64Array.from({ length: count }, (_, i) => i)),
    );
  }
  return cached;
}
