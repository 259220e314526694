// Calibration tells whether a predicted distribution is right about its own errors: the share of the targets within 1 and
// 2 sigma of a normal distribution's mean, or below each quantile.
import { constant } from "../../ffi/make.ts";
import { exp, le, logicalAnd, mul, square, toDtype, where } from "../../ffi/ops.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import type { Loss } from "../models/losses.ts";

/** One part of the output for all targets, [batches, items, targets, points], as are the others here, in f64. */
interface Judged {
  part(i: number): Tensor;
  /** Its distance from the reference, which all targets' distances are from. */
  fromReference(t: Tensor): Tensor;
  readonly target: Tensor;
  /** Output less target. */
  readonly error: Tensor;
  /** False where nothing counts; null where all does. */
  readonly counted: Tensor | null;
  /** The sum over items and points, [batches, targets]. */
  total(t: Tensor): Tensor;
}

interface Calibration {
  /** A target has so many sums. */
  readonly size: number;
  /** One [batches, targets] for each sum. */
  sums(judged: Judged): Tensor[];
  /** `sums` has each sum for all outputs, of which there are so many points each; "NAME/OUTPUT" is one output's. */
  finish(sums: Float64Array, counts: readonly number[], of: Outputs): Record<string, number>;
}

interface Outputs {
  /** Outputs are so many targets at one lead, then at the next. */
  readonly targets: number;
  readonly named: ((output: number) => string) | null;
}

/** The metrics of one target, of its sums over `n` points. */
type Finish = (sums: readonly number[], n: number) => Record<string, number>;

/** The mean over the targets that have points, each over all its leads; and each output. */
const overTargets = (size: number, one: Finish): Calibration["finish"] => (sums, counts, of) => {
  const { targets, named } = of, seen = counts.flatMap((n, k) => n > 0 ? [k] : []);
  const metrics: Record<string, number> = {};
  const over = (outputs: readonly number[]) => {
    const total = (at: (k: number) => number) => outputs.reduce((sum, k) => sum + at(k), 0);
    const own = Array.from({ length: size }, (_, i) => total((k) => sums[i * counts.length + k]));
    return one(own, total((k) => counts[k]));
  };
  const each = Array.from({ length: targets }, (_, target) => seen.filter((k) => k % targets === target))
    .filter((outputs) => outputs.length > 0).map(over);
  for (const name of Object.keys(each[0] ?? {})) {
    metrics[name] = each.reduce((sum, one) => sum + one[name], 0) / each.length;
  }
  if (named) {
    for (const k of seen) {
      for (const [name, value] of Object.entries(over([k]))) metrics[`${name}/${named(k)}`] = value;
    }
  }
  return metrics;
};

/** Null for an output that is no distribution. */
export function calibrationOf(
  { logVariance, levels }: Pick<Loss, "logVariance" | "levels">,
): Calibration | null {
  return logVariance !== undefined ? ofNormal(logVariance) : levels ? ofQuantiles(levels) : null;
}

const share = ({ counted, total }: Judged, which: Tensor): Tensor =>
  total(toDtype(counted ? logicalAnd(counted, which) : which, "f64"));

/** The spread is the root of the mean variance, to compare with the RMSE. */
const ofNormal = (logVariance: number): Calibration => ({
  size: 3,
  sums(judged) {
    const { part, error, counted, total } = judged;
    const variance = exp(toDtype(part(logVariance), "f64"));
    const { device } = variance;
    const within = (sigmas: number) =>
      share(judged, le(square(error), mul(variance, constant(sigmas ** 2, "f64", device))));
    const known = counted ? where(counted, variance, constant(0, "f64", device)) : variance;
    return [within(1), within(2), total(known)];
  },
  finish: overTargets(3, ([one, two, variance], n) => ({
    within_1_sigma: one / n,
    within_2_sigma: two / n,
    spread: Math.sqrt(variance / n),
  })),
});

const ofQuantiles = (levels: readonly number[]): Calibration => ({
  size: levels.length,
  sums: (judged) =>
    levels.map((_, i) => share(judged, le(judged.target, judged.fromReference(judged.part(i))))),
  finish: overTargets(
    levels.length,
    (sums, n) => Object.fromEntries(levels.map((q, i) => [`below_q${q}`, sums[i] / n])),
  ),
});
