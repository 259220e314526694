// `--search tpe`: the next run is where good runs are dense and the others are not.
import { key, uniform } from "../../core/base/random.ts";
import type { Earlier, SearchMethod } from "../../core/cluster/sweep/search.ts";
import { type SearchDimension, valueOf } from "../../core/cluster/sweep/space.ts";

// The tree-structured Parzen estimator (Bergstra et al., 2011): the next run is where good runs are dense and the
// others are not. Kernels, split and numbers are those of Optuna 5. Pure.

export interface TriedPoint extends Omit<Earlier, "words"> {
  readonly point: Point;
}

/** Runs drawn at random before the first estimate. */
const FIRST_RUNS = 10;
const CANDIDATES = 24;
const GOOD_SHARE = 0.1;
const MOST_GOOD = 25;

/** `tried` is in the order of the runs; null where the runs are too few for an estimate. */
function suggestPoint(
  space: readonly SearchDimension[],
  tried: readonly TriedPoint[],
  key: bigint,
): number[] | null {
  const ended = tried.filter(({ state }) => state !== "running");
  if (ended.length < FIRST_RUNS) return null;
  const { good, others } = splitTried(tried);
  const dense = parzenOf(space, good), sparse = parzenOf(space, others);
  const at = uniform(key);
  let drawn = 0, best: number[] | null = null, most = -Infinity;
  for (let i = 0; i < CANDIDATES; i++) {
    const point = drawFrom(dense, () => at(drawn++));
    const ratio = logDensity(dense, point) - logDensity(sparse, point);
    if (best === null || ratio > most) [best, most] = [point, ratio];
  }
  return best;
}

/** A run that failed is among the worst; one that still runs is no good one yet, so nobody goes where it is. */
export function splitTried(tried: readonly TriedPoint[]): { good: Point[]; others: Point[] } {
  const ended = tried.filter(({ state }) => state !== "running");
  const count = Math.min(Math.ceil(GOOD_SHARE * ended.length), MOST_GOOD);
  const ranked = ended.filter(({ state }) => state !== "failed").sort(byMerit);
  const good = new Set(ranked.slice(0, count));
  const pointsOf = (wanted: boolean) => tried.flatMap((one) => good.has(one) === wanted ? [one.point] : []);
  return { good: pointsOf(true), others: pointsOf(false) };
}

/** Whole runs come first; of those that were stopped, the ones that came far. */
function byMerit(a: TriedPoint, b: TriedPoint): number {
  const pruned = Number(a.state === "pruned") - Number(b.state === "pruned");
  if (pruned !== 0) return pruned;
  const further = a.state === "pruned" ? b.step - a.step : 0;
  return further || (a.value ?? Infinity) - (b.value ?? Infinity) || 0;
}

// Parzen estimators: a kernel at each observation and a wide one over the whole space, as Bergstra et al. (2011)
// have them and Optuna's multivariate TPE does. Pure.

/** One kernel is a product over the dimensions, so it sees which values were together. */
interface Parzen {
  readonly weights: readonly number[];
  /** One for each dimension. */
  readonly kernels: readonly Kernels[];
}

type Kernels = NumberKernels | ChoiceKernels;

interface NumberKernels {
  readonly kind: "number";
  /** Both are logarithms where the dimension is. */
  readonly low: number;
  readonly high: number;
  readonly log: boolean;
  readonly whole: boolean;
  readonly centres: readonly number[];
  readonly widths: readonly number[];
  /** The logarithms of what of each kernel lies within the space. */
  readonly within: readonly number[];
}

interface ChoiceKernels {
  readonly kind: "choice";
  /** Each kernel has one probability for each choice. */
  readonly shares: readonly (readonly number[])[];
}

/** Numbers are values, choices are their index. */
export type Point = readonly number[];

/** So many of the last observations count in full; those before count less, the older the less. */
const FULL = 25;

export function parzenOf(space: readonly SearchDimension[], points: readonly Point[]): Parzen {
  const weights = [...agesOf(points.length), 1];
  const sum = weights.reduce((a, b) => a + b, 0);
  return {
    weights: weights.map((weight) => weight / sum),
    kernels: space.map((dimension, d) => kernelsOf(dimension, points.map((point) => point[d]))),
  };
}

function agesOf(count: number): number[] {
  const old = Math.max(0, count - FULL);
  const ramp = (i: number) => old === 1 ? 1 / count : 1 / count + (1 - 1 / count) * i / (old - 1);
  return Array.from({ length: count }, (_, i) => i < old ? ramp(i) : 1);
}

function kernelsOf(dimension: SearchDimension, values: readonly number[]): Kernels {
  if (dimension.kind !== "choice") return numberKernels(dimension, values);
  const choices = dimension.choices.length, count = values.length + 1;
  const prior = Array.from({ length: choices }, () => 1 / choices);
  const around = (chosen: number) =>
    prior.map((_, choice) => (1 / count + (choice === chosen ? 1 : 0)) / (1 + choices / count));
  return { kind: "choice", shares: [...values.map(around), prior] };
}

/** A kernel is as wide as the larger gap to its neighbours, and never too narrow to look around. */
function numberKernels(
  dimension: SearchDimension & { kind: "float" | "int" },
  values: readonly number[],
): Kernels {
  const { log } = dimension, whole = dimension.kind === "int", margin = whole ? 0.5 : 0;
  const scale = log ? Math.log : (value: number) => value;
  const low = scale(dimension.low - margin), high = scale(dimension.high + margin);
  const centres = values.map(scale), count = centres.length;
  const order = centres.map((_, i) => i).sort((a, b) => centres[a] - centres[b] || a - b);
  const edges = [low, ...order.map((i) => centres[i]), high];
  const least = (high - low) / Math.min(100, count + 2);
  const widths = new Array<number>(count).fill(0);
  order.forEach((i, at) => {
    const before = edges[at + 1] - edges[at], after = edges[at + 2] - edges[at + 1];
    // Beyond the outermost ones lies nothing that was tried, and the gap there says nothing.
    const gap = count < 2
      ? Math.max(before, after)
      : at === 0
      ? after
      : at === count - 1
      ? before
      : Math.max(before, after);
    widths[i] = Math.min(Math.max(gap, least), high - low);
  });
  centres.push((low + high) / 2);
  widths.push(high - low);
  const within = centres.map((centre, k) => logMass((low - centre) / widths[k], (high - centre) / widths[k]));
  return { kind: "number", low, high, log, whole, centres, widths, within };
}

export function logDensity({ weights, kernels }: Parzen, point: Point): number {
  const terms = weights.map((weight, k) =>
    kernels.reduce((sum, kernel, d) => sum + logKernel(kernel, k, point[d]), Math.log(weight))
  );
  const most = Math.max(...terms);
  if (most === -Infinity) return -Infinity;
  return most + Math.log(terms.reduce((sum, term) => sum + Math.exp(term - most), 0));
}

function logKernel(kernels: Kernels, k: number, value: number): number {
  if (kernels.kind === "choice") return Math.log(kernels.shares[k][value]);
  const { low, high, log, whole, centres, widths, within } = kernels;
  const standard = (x: number) => (x - centres[k]) / widths[k];
  const scale = log ? Math.log : (x: number) => x;
  if (whole) return logMass(standard(scale(value - 0.5)), standard(scale(value + 0.5))) - within[k];
  const x = scale(value);
  if (x < low || x > high) return -Infinity;
  return -(standard(x) ** 2) / 2 - Math.log(Math.sqrt(2 * Math.PI) * widths[k]) - within[k];
}

/** `next` gives uniform numbers in [0, 1). */
function drawFrom({ weights, kernels }: Parzen, next: () => number): number[] {
  const k = pick(weights, next());
  return kernels.map((kernel) => drawKernel(kernel, k, next()));
}

function drawKernel(kernels: Kernels, k: number, u: number): number {
  if (kernels.kind === "choice") return pick(kernels.shares[k], u);
  const { low, high, log, whole, centres, widths } = kernels;
  const from = normalShare((low - centres[k]) / widths[k]), to = normalShare((high - centres[k]) / widths[k]);
  const x = centres[k] + widths[k] * normalAt(from + u * (to - from));
  const value = log ? Math.exp(clip(x, low, high)) : clip(x, low, high);
  if (!whole) return value;
  const ends = [low, high].map((end) => log ? Math.exp(end) : end);
  return clip(Math.round(value), Math.round(ends[0] + 0.5), Math.round(ends[1] - 0.5));
}

function pick(weights: readonly number[], u: number): number {
  let sum = 0;
  for (let i = 0; i < weights.length - 1; i++) if (u < (sum += weights[i])) return i;
  return weights.length - 1;
}

const clip = (x: number, low: number, high: number): number => Math.min(Math.max(x, low), high);

// The normal distribution.

/** The logarithm of the share between `a` and `b`, by the tail that keeps its digits. */
function logMass(a: number, b: number): number {
  if (a > 0) return logMass(-b, -a);
  if (b > 0) return Math.log1p(-normalShare(a) - normalShare(-b));
  const upper = logShare(b), lower = logShare(a);
  return upper + Math.log1p(-Math.exp(lower - upper));
}

/** The share below `x`. */
function normalShare(x: number): number {
  if (x < FAR) return Math.exp(logShare(x));
  return x > -FAR
    ? 1 - Math.exp(logShare(-x))
    : 0.5 + Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI) * series(x);
}

const logShare = (x: number): number => x < FAR ? logTail(-x) : Math.log(normalShare(x));

/** The series is exact within, the continued fraction without. */
const FAR = -3;

/** Marsaglia's sum x + x^3/3 + x^5/15 + ..., whose terms have one sign. */
function series(x: number): number {
  let term = x, sum = x;
  for (let n = 3; Math.abs(term) > 1e-17 * Math.abs(sum); n += 2) sum += term *= x * x / n;
  return sum;
}

/** The logarithm of the share above a large `x`: Laplace's continued fraction, from its end. */
function logTail(x: number): number {
  let fraction = x;
  for (let n = Math.ceil(20 + 900 / (x * x)); n >= 1; n--) fraction = x + n / fraction;
  return -x * x / 2 - Math.log(Math.sqrt(2 * Math.PI) * fraction);
}

/** Below which the share `share` lies: bisection, as a draw has time. */
function normalAt(share: number): number {
  let low = -9, high = 9;
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (normalShare(middle) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

export const method: SearchMethod = {
  how: "chosen by TPE",
  beware: "TPE tries some values more than others, so take these as a hint.",
  suggest({ space, seed }, number, earlier) {
    const tried = earlier.map(({ words, ...rest }): TriedPoint => ({
      ...rest,
      point: space.map((dimension, d) => valueOf(dimension, words[d])),
    }));
    return suggestPoint(space, tried, key(seed, "sweep", "tpe", number));
  },
};
