// The measures of a task beside its loss. A measure keeps sums that can be added up over batches, ranks and
// attempts of a run.
import { constant, sub, toNumbers, zeros } from "../../ffi/make.ts";
import {
  abs,
  cat,
  expand,
  logicalAnd,
  mul,
  narrow,
  reshape,
  square,
  sumDim,
  toDtype,
  where,
} from "../../ffi/ops.ts";
import { describe, type Tensor } from "../../ffi/tensor.ts";
import type { Baselines } from "../data/source/climate.ts";
import type { Normalisation, Source } from "../data/source/source.ts";
import { unscaling } from "../data/transforms/targets.ts";
import { UserError } from "../base/errors.ts";
import type { Loss } from "../models/losses.ts";
import { areScores } from "../models/targets.ts";
import { sharesOfPoints, validPoints } from "../models/valid_points.ts";
import type { UserMetrics } from "../models/user/made.ts";
import { calibrationOf } from "./calibration.ts";
import { classes, MOST_JUDGED, MOST_NAMED } from "./class_metrics.ts";
import { withTerms } from "./term_metrics.ts";
import { type RequestedMetrics, requestedOfNumbers, SUMS } from "./requested_metrics.ts";
import type { RequestedMetric } from "../settings/metrics.ts";
import { sumsOnHost } from "./number_sums.ts";
import { constantOnDevice, type Measure, type Metrics, spreadMask } from "./measure.ts";

type Judged = Pick<
  Loss,
  | ("name" | "like" | "ignored" | "parts" | "point" | "logVariance" | "variance" | "levels" | "weights")
  | ("terms" | "answer")
>;

/** `full` adds what costs too much in a training step. */
interface Judging {
  readonly loss: Judged;
  readonly full: boolean;
  readonly own?: UserMetrics | null;
  readonly requested?: RequestedMetrics | null;
}

const made = new WeakMap<Source, (Judging & { readonly measure: Measure })[]>();

export function measureOf(source: Source, { loss, full, own = null, requested = null }: Judging): Measure {
  const all = made.get(source) ?? [];
  const known = all.find((one) =>
    one.loss === loss && one.full === full && one.own === own && one.requested === requested
  );
  if (known) return known.measure;
  const task = taskMeasure(source, loss, full, full && requested ? requested.list : []);
  // An evaluation has its terms beside, since the loss may see other targets than its metrics.
  const of = loss.terms && !full ? withTerms(task, loss.terms) : task;
  const measure = own ? withOwn(of, full ? own : inUnitsOf(source, loss, own)) : of;
  made.set(source, [...all, { loss, full, own, requested, measure }]);
  return measure;
}

function taskMeasure(
  source: Source,
  judged: Judged,
  full: boolean,
  requested: readonly RequestedMetric[],
): Measure {
  const { like, name: named, ignored, weights } = judged, name = like ?? named;
  const { facts: { task, outputs, targetless, missing = false }, names } = source;
  if (like === "none" || targetless) return nothing;
  if (task === "language") {
    const of = judged.terms ? nothing : tokens(source.bytesPerToken), beside = requested.filter(ofScores);
    return beside.length === 0
      ? of
      : withMetricsOf(of, classes({ ...TOKENS, count: outputs, ignored, requested: beside }));
  }
  if (task === "regression") return name === "bce" ? nothing : numbers(source, full, judged, requested);
  if (name !== "bce" && name !== "cross_entropy") return nothing;
  const oneLogit = name === "bce", perPixel = task === "segmentation", ofOthers = OF_OTHERS.includes(named);
  const fitting = ofOthers ? (of: Measure) => whereFits(of, outputs) : (of: Measure) => of;
  return fitting(classes({
    count: oneLogit ? 2 : outputs,
    names,
    oneLogit,
    missing,
    weights,
    ignored: ignored ?? -1,
    requested,
    top5: full && !oneLogit && !perPixel && outputs > 5,
    overlap: full && perPixel,
    judged: full && !perPixel && outputs <= MOST_JUDGED,
  }));
}

/** These losses may take anything of a model. */
const OF_OTHERS: readonly string[] = ["own", "graph"];

/** Outputs that are no scores of the classes are not measured. */
const whereFits = (of: Measure, count: number): Measure => ({
  ...of,
  rows: (output, target, batches, mask) =>
    areScores(output, target, count)
      ? of.rows(output, target, batches, mask)
      : zeros([batches, of.size], { dtype: "f64", device: output.device }),
  finish: (sums, loss) =>
    sums.every((sum) => sum === 0) ? { metrics: {}, worst: null } : of.finish(sums, loss),
});

/** The loss alone says how good a model is. */
export const nothing: Measure = {
  size: 0,
  seesOutputs: false,
  many: true,
  rows: () => {
    throw new Error("internal: nothing is measured of these targets.");
  },
  finish: () => ({ metrics: {}, worst: null }),
};

/** Scores alone tell them: the classes of a vocabulary are too many to be counted one by one. */
const ofScores = ({ name }: RequestedMetric): boolean => name === "top_k" || name === "accuracy";

const TOKENS = { oneLogit: false, missing: false, top5: false, overlap: false, judged: false } as const;

/** The second's metrics stand beside the first's, which has no sums. */
const withMetricsOf = (of: Measure, beside: Measure): Measure => ({
  ...beside,
  finish: (sums, loss) => {
    const { metrics, worst } = of.finish(sums, loss);
    return { metrics: { ...metrics, ...beside.finish(sums, loss).metrics }, worst };
  },
});

/** The bits that a byte of the text takes compare models whose tokens differ. */
const tokens = (bytesPerToken?: number): Measure => ({
  ...nothing,
  finish: (_, loss) => ({
    metrics: {
      perplexity: Math.exp(loss),
      ...(bytesPerToken && { bits_per_byte: loss / Math.LN2 / bytesPerToken }),
    },
    worst: null,
  }),
});

/** The R2 of anomalies: the R2 of the values has the seasons' share in it, which a model of anomalies did not learn. */
export const ANOMALY_R2 = "anomaly_r2";

/**
 * The target's own axis is dimension 1. Without the reference, a number near the mean, squares would lose the
 * spread of targets far from zero.
 */
function numbers(
  source: Source,
  full: boolean,
  judged: Judged,
  requested: readonly RequestedMetric[],
): Measure {
  const { point = 0, weights } = judged, calibration = full ? calibrationOf(judged) : null;
  const { facts, target: { shape }, names = [], units } = source;
  const further = requestedOfNumbers(requested);
  const count = shape[0] ?? 1, targets = count / (source.leads ?? 1);
  // While training the loss's own targets are compared, which may be normalised; errors are told in their own units.
  const { mean, std } = !full && source.targetScale || NOT_SCALED;
  const own = source.reference ?? Array<number>(count).fill(0);
  const near = own.map((value, k) => mean.length > 0 ? (value - mean[k]) / std[k] : value);
  const named = (k: number) => names.length === count ? names[k] : String(k);
  const reference = constantOnDevice(() => Float64Array.from(near));
  const isPlain = point === 0 && !facts.missing && !weights && calibration === null && further.size === 0 &&
    (full || !judged.answer);
  return {
    size: (SUMS + further.size + (calibration?.size ?? 0)) * count,
    seesOutputs: true,
    many: true,
    sumsOnHost: (output, target) => isPlain ? sumsOnHost(output, target, near) : null,
    rows(output, target, batches, mask = null) {
      const items = target.shape[0] / batches;
      const part = [batches, items, count, -1];
      const at = reference(output.device, [1, 1, count, 1]);
      // Masked items may be no number at all.
      const valid = facts.missing || weights ? validPoints(target, 0) : null;
      const shown = mask && spreadMask(mask, target);
      const both = valid && shown ? logicalAnd(valid, shown) : valid ?? shown;
      const counted = both && reshape(both, part);
      const zero = constant(0, "f64", output.device);
      const answered = full ? output : judged.answer?.(output) ?? output; // an evaluation gives answers
      const from = (t: Tensor) => {
        const difference = sub(reshape(t, part), at);
        return counted ? where(counted, difference, zero) : difference;
      };
      const d = from(target), e = sub(from(pointsIn(answered, target, point * count, count)), d);
      const share = weights && both && reshape(toDtype(sharesOfPoints(both, weights), "f64"), part);
      const total = (t: Tensor) => sumDim(share ? mul(t, share) : t, [1, 3], false, "f64");
      const each = items * d.shape[3];
      const rows = counted ? total(counted) : expand(constant(each, "f64", output.device), [batches, count]);
      const sums = [rows, total(d), total(square(d)), total(e), total(abs(e)), total(square(e))];
      const partOf = (i: number) => reshape(narrow(output, 1, i * count, count), part);
      const own = calibration?.sums({
        part: partOf,
        fromReference: from,
        target: d,
        error: e,
        counted,
        total,
      });
      const more = further.sums({ target: d, error: e, reference: at, total });
      return cat([...sums, ...more, ...(own ?? [])], 1);
    },
    finish(sums) {
      const each = Array.from({ length: count }, (_, k) => ofTarget(sums, k, count, std[k]));
      const several = count > 1 && count <= MOST_NAMED;
      const seen = each.filter(({ n }) => n > 0); // a mask may leave nothing of a target
      const r2 = seen.reduce((sum, one) => sum + one.r2, 0) / seen.length;
      const metrics: Metrics = {
        [full || !source.anomalies ? "r2" : ANOMALY_R2]: r2,
        ...errorsOf(each, targets),
      };
      Object.assign(
        metrics,
        further.finish(sums.subarray(0, (SUMS + further.size) * count), count, several ? named : null),
      );
      if (units && count === 1) inUnits(metrics, "", each[0], units, 0);
      if (calibration) {
        const own = sums.subarray((SUMS + further.size) * count), counts = each.map(({ n }) => n);
        Object.assign(metrics, calibration.finish(own, counts, { targets, named: several ? named : null }));
      }
      const shares = weights ? toNumbers(weights.on("cpu")) : null;
      const baselines = full ? source.baselines?.(shares) : undefined;
      if (baselines) withSkill(metrics, each, { baselines, targets, named: several ? named : null });
      if (count === 1) return { metrics, worst: null };
      if (full && count <= MOST_NAMED) {
        each.forEach((one, k) => {
          for (const name of ["r2", "mae", "rmse", "bias"] as const) {
            metrics[`${name}/${named(k)}`] = one[name];
          }
          if (units) inUnits(metrics, `/${named(k)}`, one, units, k);
        });
      }
      const first = Math.max(0, each.findIndex(({ n }) => n > 0));
      const least = each.reduce((worst, { r2 }, k) => r2 < each[worst].r2 ? k : worst, first);
      return { metrics, worst: { name: named(least), r2: each[least].r2 } };
    },
  };
}

interface Errors {
  /** So many points count. */
  readonly n: number;
  readonly mae: number;
  readonly rmse: number;
  readonly bias: number;
}

/** Over all leads and points of each target, of which the mean is taken over the targets. */
function errorsOf(each: readonly Errors[], targets: number): Record<"mae" | "rmse" | "bias", number> {
  const pooled = Array.from({ length: targets }, (_, target) => {
    const own = each.filter(({ n }, k) => k % targets === target && n > 0);
    const all = own.reduce((sum, { n }) => sum + n, 0);
    const mean = (of: (one: Errors) => number) => own.reduce((sum, one) => sum + one.n * of(one), 0) / all;
    return {
      all,
      mae: mean(({ mae }) => mae),
      rmse: Math.sqrt(mean(({ rmse }) => rmse ** 2)),
      bias: mean(({ bias }) => bias),
    };
  }).filter(({ all }) => all > 0);
  const over = (name: "mae" | "rmse" | "bias") =>
    pooled.reduce((sum, one) => sum + one[name], 0) / pooled.length;
  return { mae: over("mae"), rmse: over("rmse"), bias: over("bias") };
}

interface Beside {
  readonly baselines: Baselines;
  readonly targets: number;
  readonly named: ((k: number) => string) | null;
}

/**
 * A skill is 1 where nothing is missed, and 0 where the forecast is no better than the baseline. Outputs whose baseline
 * nobody knows have none; `lackNote` says why.
 */
function withSkill(metrics: Metrics, each: readonly Errors[], { baselines, targets, named }: Beside): void {
  for (const name of ["persistence", "climatology"] as const) {
    const errors = baselines[name];
    if (errors?.length !== each.length) continue;
    const known = each.map((one, k) => Number.isNaN(errors[k]) ? { ...one, n: 0 } : one);
    if (known.every(({ n }) => n === 0)) continue;
    const baseline = errorsOf(known.map((one, k) => ({ ...one, rmse: errors[k] })), targets);
    metrics[`skill_${name}`] = 1 - errorsOf(known, targets).rmse / baseline.rmse;
    if (!named) continue;
    known.forEach(({ n, rmse }, k) => {
      if (n > 0) metrics[`skill_${name}/${named(k)}`] = 1 - rmse / errors[k];
    });
  }
}

/** The target had these units before it was scaled. */
function inUnits(
  metrics: Metrics,
  of: string,
  { mae, rmse, bias }: Metrics,
  { std }: NonNullable<Source["units"]>,
  k: number,
): void {
  const scale = std[k];
  for (const [name, value] of Object.entries({ mae, rmse, bias })) {
    metrics[`${name}_in_units${of}`] = value * scale;
  }
}

/** A smaller part of the squares is rounding. */
const ROUNDING = 1e-12;

const NOT_SCALED: Normalisation = { mean: [], std: [] };

function ofTarget(sums: Float64Array, k: number, count: number, scale = 1) {
  const [n, d, dd, e, absolute, ee] = Array.from({ length: SUMS }, (_, part) => sums[part * count + k]);
  const residual = dd - d * d / n;
  const varies = residual > ROUNDING * dd;
  // A target that never varies can only be met or missed.
  const r2 = n < 2 ? NaN : varies ? 1 - ee / residual : ee === 0 ? 1 : Number.isNaN(ee) ? NaN : 0;
  return { n, r2, mae: scale * absolute / n, rmse: scale * Math.sqrt(ee / n), bias: scale * e / n };
}

/** A variance is no value that a climatology could be added to. */
export const shiftedParts = (
  { parts, logVariance, variance }: Pick<Loss, "parts" | "logVariance" | "variance">,
): boolean[] | undefined => parts?.map((_, part) => part !== logVariance && part !== variance);

/** A distribution is more than one number for each target: `from` is where those begin that are compared. */
export function pointsIn(output: Tensor, target: Tensor, from: number, count: number): Tensor {
  if (output.numel === target.numel) return output;
  const rest = (t: Tensor) => t.shape.slice(2).join();
  if (output.shape[0] === target.shape[0] && output.shape[1] > count && rest(output) === rest(target)) {
    return narrow(output, 1, from, count);
  }
  throw new UserError(
    "data",
    `the model gives ${describe(output)} and the targets are ${
      describe(target)
    }, so no metric can compare them: choose a ` +
      "model (and model.output_size) that gives one number per target.",
  );
}

/** A user's metric of training is of the targets' own units, as that of an evaluation is. */
function inUnitsOf({ targetScale }: Source, loss: Judged, own: UserMetrics): UserMetrics {
  if (!targetScale) return own;
  const unscaled = unscaling(targetScale), parts = shiftedParts(loss);
  return { ...own, sums: (output, target) => own.sums(unscaled(output, parts), unscaled(target)) };
}

/** The user's sums, and the number of samples, follow the task's. */
function withOwn(of: Measure, own: UserMetrics): Measure {
  const { names } = own;
  return {
    size: of.size + names.length + 1,
    seesOutputs: true,
    many: false,
    rows(output, target, _, mask) {
      const first = of.seesOutputs ? [of.rows(output, target, 1, mask)] : [];
      const count = constant(target.shape[0], "f64", output.device);
      const sums = reshape(own.sums(output, target), [1, names.length]);
      return cat([...first, sums, reshape(count, [1, 1])], 1);
    },
    finish(sums, loss) {
      const count = sums[sums.length - 1];
      const values = names.map((name, i) => [name, sums[of.size + i] / count]);
      const { metrics, worst } = of.finish(sums.subarray(0, of.size), loss);
      return { metrics: { ...metrics, ...Object.fromEntries(values) }, worst };
    },
  };
}
