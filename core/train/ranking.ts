// Metrics of an evaluation's order: the areas under the ROC curve and under that of precision and recall, and the correlation
// of ranks. All scores are held at once.
import { argmax, cat, copy_, narrow, reshape, toDtype } from "../../ffi/ops.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { toNumbers, zeros } from "../../ffi/make.ts";
import type { Loss } from "../models/losses.ts";
import { isSoft } from "../models/targets.ts";
import type { Source } from "../data/source/source.ts";
import type { Team } from "../ranks/team.ts";
import type { RequestedMetric } from "../settings/metrics.ts";
import { MOST_NAMED } from "./class_metrics.ts";
import { pointsIn } from "./metrics.ts";

/** All scores of an evaluation. */
export interface Ranking {
  /** It can tell these, if there is an order. */
  readonly names: readonly string[];
  /** `first` is the number of the first sample. */
  observe(first: number, output: Tensor, target: Tensor): void;
  /** All ranks call it. Empty where no class can be told from the others. */
  metrics(team: Team | null): Record<string, number>;
  close(): void;
}

/** Scores and labels that are held at once, 16 MiB of them. */
export const MOST_HELD = 2 ** 21;

type RankedLoss = Pick<Loss, "name" | "like" | "ignored" | "point">;

/** Null where nothing is to be ranked, or where there are too many scores to hold. */
export function openRanking(
  source: Source,
  loss: RankedLoss,
  device: Device,
  requested: readonly RequestedMetric[] = [],
): Ranking | null {
  const { facts, length, target: { shape } } = source;
  const name = loss.like ?? loss.name, oneLogit = name === "bce";
  if (facts.targetless) return null;
  if (facts.task === "regression" && requested.some(({ name }) => name === "spearman")) {
    const count = shape[0] ?? 1, points = shape.reduce((a, b) => a * b, 1);
    if (name === "none" || 2 * points * length > MOST_HELD) return null;
    return held(length, 2 * points, device, {
      names: ["spearman"],
      columns: (output, target, items) => {
        if (output.shape[0] !== items) return null;
        const own = pointsIn(output, target, (loss.point ?? 0) * count, count);
        return own.numel === items * points
          ? [reshape(target, [items, points]), reshape(own, [items, points])]
          : null;
      },
      metrics: (rows) => rankCorrelations(rows, count, points, source.names),
    });
  }
  if (facts.task !== "classification" || !(oneLogit || name === "cross_entropy")) return null;
  const width = oneLogit ? 1 : facts.outputs, row = width + 1;
  if (length * row > MOST_HELD || facts.outputs < 2 && !oneLogit) return null;
  const curves = requested.filter(({ name }) => name === "auroc" || name === "average_precision");
  return held(length, row, device, {
    names: ["auroc", ...curves.map(({ key }) => key).filter((key) => key !== "auroc")],
    columns: (output, target, items) => {
      if (output.numel !== items * width) return null;
      const labels = isSoft(target) && target.shape[1] > 1 ? argmax(target, 1) : target;
      return [reshape(output, [items, width]), reshape(labels, [items, 1])];
    },
    metrics(rows) {
      const auroc = areaUnderCurves(rows, width, loss.ignored ?? -1);
      const metrics: Record<string, number> = auroc === null ? {} : { auroc };
      for (const { name, key, values } of curves) {
        const how = {
          weighted: values.get("average") === "weighted",
          area: name === "auroc" ? areaOf : precisionOf,
        };
        const area = areaUnderCurves(rows, width, loss.ignored ?? -1, how);
        if (area !== null) metrics[key] = area;
      }
      return metrics;
    },
  });
}

interface Held {
  readonly names: readonly string[];
  /** [items, ...] side by side; null where these outputs can't be ranked. */
  columns(output: Tensor, target: Tensor, items: number): Tensor[] | null;
  metrics(rows: ArrayLike<number>): Record<string, number>;
}

function held(length: number, row: number, device: Device, { names, columns, metrics }: Held): Ranking {
  const buffer = keep(zeros([length, row], { dtype: "f64", device }));
  let odd = false;
  return {
    names,
    observe(first, output, target) {
      const count = target.shape[0];
      scope(() => {
        const parts = odd ? null : columns(output, target, count);
        odd ||= parts === null;
        if (parts) copy_(narrow(buffer, 0, first, count), cat(parts.map((t) => toDtype(t, "f64")), 1));
      });
    },
    metrics(team) {
      const [strange] = team ? team.reduce([odd ? 1 : 0], "max", "evaluation") : [odd ? 1 : 0];
      if (strange > 0) return {};
      // Rows that are other ranks' are zeros, which change no bit.
      if (team && team.world > 1) {
        team.collectives.wait(team.collectives.allReduce(buffer, "sum", "evaluation"));
      }
      return metrics(toNumbers(buffer));
    },
    close: () => buffer.free(),
  };
}

type Area = (own: Float64Array, others: Float64Array) => number | null;

/**
 * The mean over classes of how often a sample of the class has a higher probability of it than a sample of
 * another; equal ones count half. Rows are `width` scores and a label. Null where there are no two classes.
 */
export function areaUnderCurves(
  rows: ArrayLike<number>,
  width: number,
  ignored: number,
  { area = areaOf as Area, weighted = false } = {},
): number | null {
  const row = width + 1, classes = Math.max(2, width), known: number[] = [];
  for (let at = 0; at < rows.length; at += row) {
    const label = rows[at + width];
    const inRange = width === 1 ? !Number.isNaN(label) : label >= 0 && label < classes;
    if (inRange && label !== ignored) known.push(at);
  }
  const labels = known.map((at) => width === 1 ? Number(rows[at + 1] !== 0) : rows[at + width]);
  const chances = width === 1 ? Float64Array.from(known, (at) => rows[at]) : softmaxOf(rows, known, width);
  // Both of two classes have the same area.
  const judged = classes === 2 ? [1] : Array.from({ length: classes }, (_, k) => k);
  const areas = judged.flatMap((k) => {
    const of = (own: boolean) =>
      Float64Array.from(
        labels.flatMap((label, i) =>
          (label === k) === own ? [chances[i * width + (width === 1 ? 0 : k)]] : []
        ),
      );
    const own = of(true), found = area(own, of(false));
    return found === null ? [] : [{ area: found, weight: weighted ? own.length : 1 }];
  });
  const all = areas.reduce((sum, { weight }) => sum + weight, 0);
  return areas.length === 0 ? null : areas.reduce((sum, { area, weight }) => sum + weight * area, 0) / all;
}

function softmaxOf(rows: ArrayLike<number>, known: readonly number[], width: number): Float64Array {
  const made = new Float64Array(known.length * width);
  known.forEach((at, i) => {
    let most = -Infinity, sum = 0;
    for (let k = 0; k < width; k++) most = Math.max(most, rows[at + k]);
    for (let k = 0; k < width; k++) sum += made[i * width + k] = Math.exp(rows[at + k] - most);
    for (let k = 0; k < width; k++) made[i * width + k] /= sum;
  });
  return made;
}

/** Mann and Whitney's U, as a share of the pairs. NaN where a score is no number. */
function areaOf(own: Float64Array, others: Float64Array): number | null {
  if (own.length === 0 || others.length === 0) return null;
  if (own.some(Number.isNaN) || others.some(Number.isNaN)) return NaN;
  own.sort();
  others.sort();
  let below = 0, upTo = 0, pairs = 0;
  for (const score of own) {
    while (below < others.length && others[below] < score) below++;
    while (upTo < others.length && others[upTo] <= score) upTo++;
    pairs += (below + upTo) / 2;
  }
  return pairs / (own.length * others.length);
}

/** The sum over thresholds of the precision there times what the recall grows by, as scikit-learn's average precision. */
function precisionOf(own: Float64Array, others: Float64Array): number | null {
  if (own.length === 0 || others.length === 0) return null;
  if (own.some(Number.isNaN) || others.some(Number.isNaN)) return NaN;
  own.sort().reverse();
  others.sort().reverse();
  let i = 0, j = 0, sum = 0;
  while (i < own.length) {
    const threshold = own[i], before = i;
    while (i < own.length && own[i] >= threshold) i++;
    while (j < others.length && others[j] >= threshold) j++;
    sum += (i - before) * i / (i + j);
  }
  return sum / own.length;
}

/** Ranks from 1; equal values have the mean of theirs. */
function ranksOf(values: Float64Array): Float64Array {
  const order = Array.from(values.keys()).sort((a, b) => values[a] - values[b]),
    ranks = new Float64Array(values.length);
  for (let from = 0; from < order.length;) {
    let to = from + 1;
    while (to < order.length && values[order[to]] === values[order[from]]) to++;
    for (let i = from; i < to; i++) ranks[order[i]] = (from + 1 + to) / 2;
    from = to;
  }
  return ranks;
}

function correlationOf(a: Float64Array, b: Float64Array): number {
  const mean = (values: Float64Array) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x, y] = [a, b].map((values) => {
    const middle = mean(values);
    return values.map((value) => value - middle);
  });
  const product = (u: Float64Array, v: Float64Array) => u.reduce((sum, value, i) => sum + value * v[i], 0);
  return product(x, y) / Math.sqrt(product(x, x) * product(y, y));
}

/** Rows are all points of the targets, then of the predictions; a missing target does not count. */
function rankCorrelations(
  rows: ArrayLike<number>,
  count: number,
  points: number,
  names: readonly string[] = [],
): Record<string, number> {
  const each = points / count;
  const values = Array.from({ length: count }, (_, k) => {
    const known: number[] = [];
    for (let row = 0; row < rows.length; row += 2 * points) {
      for (let i = k * each; i < (k + 1) * each; i++) if (!Number.isNaN(rows[row + i])) known.push(row + i);
    }
    const of = (from: number) => Float64Array.from(known, (at) => rows[at + from]);
    const predicted = of(points);
    if (known.length < 2 || predicted.some(Number.isNaN)) return NaN;
    return correlationOf(ranksOf(of(0)), ranksOf(predicted));
  });
  const named = count > 1 && count <= MOST_NAMED;
  return {
    spearman: values.reduce((sum, value) => sum + value, 0) / count,
    ...(named && Object.fromEntries(values.map((value, k) => [`spearman/${names[k] ?? k}`, value]))),
  };
}
