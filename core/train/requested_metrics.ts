// The metrics that --metrics asks for are of the counts of classes, or of sums over numbers.
import { add, constant } from "../../ffi/make.ts";
import { abs, clamp, div, mul } from "../../ffi/ops.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import type { Config } from "../settings/settings.ts";
import { type RequestedMetric, requestedMetrics } from "../settings/metrics.ts";

/** @internal */
export interface RequestedMetrics {
  readonly list: readonly RequestedMetric[];
  /** Their names in events. */
  readonly keys: readonly string[];
}

/** Null where nothing is asked for. */
export function requestedIn({ metrics }: Pick<Config["training"], "metrics">): RequestedMetrics | null {
  const list = requestedMetrics(metrics);
  return list.length === 0 ? null : { list, keys: list.map(({ key }) => key) };
}

/** How many items have each label, are predicted as it, and both. */
export interface ClassCounts {
  readonly labelled: number;
  readonly predicted: number;
  readonly both: number;
}

const share = (part: number, whole: number): number => whole > 0 ? part / whole : 0;

type Score = (one: ClassCounts, all: number) => number;

const OF_COUNTS: Readonly<Record<string, (beta: number) => Score>> = {
  precision: () => ({ predicted, both }) => share(both, predicted),
  recall: () => ({ labelled, both }) => share(both, labelled),
  f1: () => (one) => fBeta(one, 1),
  f_beta: (beta) => (one) => fBeta(one, beta),
  dice: () => (one) => fBeta(one, 1),
  iou: () => ({ labelled, predicted, both }) => share(both, labelled + predicted - both),
  specificity: () => ({ labelled, predicted, both }, all) =>
    share(all - labelled - predicted + both, all - labelled),
};

const fBeta = ({ labelled, predicted, both }: ClassCounts, beta: number): number =>
  share((1 + beta ** 2) * both, beta ** 2 * labelled + predicted);

/** True for a metric that needs the counts of each class. */
export const countsClasses = ({ name }: RequestedMetric): boolean =>
  Object.hasOwn(OF_COUNTS, name) || ["balanced_accuracy", "kappa", "mcc"].includes(name);

/** Predictions of the ignored class are no area. */
const OF_AREAS: readonly string[] = ["iou", "dice"];

/** A metric of the counts of all classes, as torchmetrics and scikit-learn have it. */
export function ofClassCounts(
  { name, values }: RequestedMetric,
  counted: readonly ClassCounts[],
  ignored: number,
): number {
  const each = OF_AREAS.includes(name) ? counted.filter((_, k) => k !== ignored) : counted;
  const seen = each.filter(({ labelled, predicted }) => labelled + predicted > 0);
  const total = (of: (one: ClassCounts) => number) => each.reduce((sum, one) => sum + of(one), 0);
  const all = total(({ labelled }) => labelled), hits = total(({ both }) => both);
  if (name === "balanced_accuracy") {
    const labelled = seen.filter(({ labelled }) => labelled > 0);
    return labelled.reduce((sum, { labelled, both }) => sum + both / labelled, 0) / labelled.length;
  }
  if (name === "kappa" || name === "mcc") {
    const product = total(({ labelled, predicted }) => labelled * predicted);
    if (name === "kappa") return (hits * all - product) / (all ** 2 - product);
    const rest = (of: (one: ClassCounts) => number) => all ** 2 - total((one) => of(one) ** 2);
    const spread = Math.sqrt(rest(({ labelled }) => labelled) * rest(({ predicted }) => predicted));
    return spread === 0 ? 0 : (hits * all - product) / spread;
  }
  const score = OF_COUNTS[name](Number(values.get("beta") ?? 1)), average = values.get("average") ?? "macro";
  if (average === "micro") return microOf(name, score, each, all);
  if (average === "macro") return seen.reduce((sum, one) => sum + score(one, all), 0) / seen.length;
  return total((one) => one.labelled * score(one, all)) / all;
}

/** The counts of all classes together, each item once for each class. */
function microOf(name: string, score: Score, each: readonly ClassCounts[], all: number): number {
  const sum = (of: (one: ClassCounts) => number) => each.reduce((total, one) => total + of(one), 0);
  const together = {
    labelled: sum(({ labelled }) => labelled),
    predicted: sum(({ predicted }) => predicted),
    both: sum(({ both }) => both),
  };
  return score(together, name === "specificity" ? all * each.length : all);
}

// Numbers.

/** Count, d and d^2, e, |e| and e^2, where d = target - reference and e = output - target. */
export const SUMS = 6;

interface Compared {
  /** Target less reference, [batches, items, targets, points], and output less target; 0 where nothing counts. */
  readonly target: Tensor;
  readonly error: Tensor;
  readonly reference: Tensor;
  /** The sum over items and points, [batches, targets]. */
  total(t: Tensor): Tensor;
}

/** torchmetrics' least size of a number to divide by. */
const LEAST = 1.17e-6;

const atLeast = (t: Tensor): Tensor => clamp(t, constant(LEAST, t.dtype, t.device));

/** Sums beside the six, by the metrics that need them. */
const FURTHER: Readonly<Record<string, (compared: Compared) => Tensor>> = {
  pearson: ({ target, error }) => mul(target, error),
  mape: ({ target, error, reference }) => div(abs(error), atLeast(abs(add(target, reference)))),
  smape: ({ target, error, reference }) => {
    const truth = add(target, reference), size = add(abs(truth), abs(add(truth, error)));
    return div(add(abs(error), abs(error)), atLeast(size));
  },
};

/** One target's, of its sums; `more` is what the metric added. */
function ofNumberSums(name: string, [n, d, dd, e, absolute, ee]: readonly number[], more: number): number {
  const spread = dd - d * d / n, misses = ee - e * e / n;
  switch (name) {
    case "pearson": {
      const together = spread + more - d * e / n, own = spread + 2 * (more - d * e / n) + misses;
      return together / Math.sqrt(spread * own);
    }
    case "mape":
    case "smape":
      return more / n;
    case "explained_variance":
      return 1 - misses / spread;
    case "mse":
      return ee / n;
    case "mae":
      return absolute / n;
    default:
      throw new Error(`internal: ${name} is no metric of sums.`);
  }
}

/** They are among the task's own, or of the order of answers. */
const ELSEWHERE: readonly string[] = ["mae", "rmse", "r2", "bias", "spearman"];

/** The metrics of numbers that were asked for: their sums follow the six of each target. */
export function requestedOfNumbers(requested: readonly RequestedMetric[]) {
  const own = requested.filter(({ name }) => !ELSEWHERE.includes(name));
  const further = own.filter(({ name }) => Object.hasOwn(FURTHER, name));
  return {
    size: further.length,
    sums: (compared: Compared): Tensor[] =>
      further.map(({ name }) => compared.total(FURTHER[name](compared))),
    /** The mean over targets that have points, and each target's where they have names. */
    finish(
      sums: Float64Array,
      count: number,
      named: ((k: number) => string) | null,
    ): Record<string, number> {
      const metrics: Record<string, number> = {};
      for (const one of own) {
        const at = SUMS + further.indexOf(one);
        const values = Array.from({ length: count }, (_, k) => {
          const six = Array.from({ length: SUMS }, (_, i) => sums[i * count + k]);
          return { n: six[0], value: ofNumberSums(one.name, six, at < SUMS ? 0 : sums[at * count + k]) };
        });
        const seen = values.filter(({ n }) => n > 0);
        metrics[one.key] = seen.reduce((sum, { value }) => sum + value, 0) / seen.length;
        if (named) values.forEach(({ value }, k) => metrics[`${one.key}/${named(k)}`] = value);
      }
      return metrics;
    },
  };
}
