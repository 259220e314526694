// Sums, means, spreads, greatest values, and softmax.
import type { Ref } from "../graph.ts";
import { type Lowering, num, type Rules } from "./lowering.ts";

/** Without the reduced dimensions, unless the op keeps them: the shape that was seen tells. */
const over = (
  g: Lowering,
  x: Ref,
  dims: readonly number[] | null,
  reduce: (x: Ref, dims: number[]) => Ref,
): Ref => g.shaped(reduce(x, g.dims(dims, g.shape(x).length)));

const summed = (g: Lowering, x: Ref, dims: readonly number[] | null): Ref =>
  over(g, x, dims, (x, dims) => g.sum(x, dims));
const averaged = (g: Lowering, x: Ref, dims: readonly number[] | null): Ref =>
  over(g, x, dims, (x, dims) => g.mean(x, dims));
const largest = (g: Lowering, x: Ref, dims: readonly number[] | null): Ref =>
  over(g, g.float(x), dims, (x, dims) => g.b.amax(x, dims));
const least = (g: Lowering, x: Ref, dims: readonly number[] | null): Ref =>
  over(g, x, dims, (x, dims) => g.neg(g.b.amax(g.neg(x), dims)));

/** The mean of squares around the mean, over n - correction. */
function varianceOf(g: Lowering, x: Ref, dims: readonly number[], correction: number): Ref {
  const centred = g.sub(x, g.mean(x, dims));
  return g.div(g.sum(g.mul(centred, centred), dims), num(Math.max(0, g.count(x, dims) - correction)));
}

const variance = (g: Lowering, x: Ref, dims: readonly number[] | null, correction: number): Ref =>
  over(g, x, dims, (x, dims) => varianceOf(g, x, dims, correction));

/** exp(x - greatest) and its logarithm's argument; the greatest cancels, so no gradient has to go through it. */
function shifted(g: Lowering, x: Ref, dim: number): { shifted: Ref; powers: Ref; total: Ref } {
  const shifted = g.sub(x, g.b.stop(g.b.amax(x, [dim])));
  const powers = g.p("exp", shifted);
  return { shifted, powers, total: g.sum(powers, [dim]) };
}

export function softmax(g: Lowering, x: Ref, dim: number): Ref {
  const { powers, total } = shifted(g, g.float(x), g.dim(dim, g.shape(x).length));
  return g.div(powers, total);
}

/** A row of nothing but -Infinity has zeros, as in libtorch's attention. */
export function safeSoftmax(g: Lowering, x: Ref): Ref {
  const dim = g.shape(x).length - 1, most = g.b.stop(g.b.amax(x, [dim]));
  const none = g.compare("eq", most, num(-Infinity));
  const powers = g.p("exp", g.sub(x, g.where(none, num(0), most)));
  return g.div(powers, g.where(none, num(1), g.sum(powers, [dim])));
}

export function logSoftmax(g: Lowering, x: Ref, dim: number): Ref {
  const { shifted: y, total } = shifted(g, g.float(x), g.dim(dim, g.shape(x).length));
  return g.sub(y, g.p("log", total));
}

/** The root of the sum of squares; where all are 0, no gradient goes back. */
function norm(g: Lowering, x: Ref, ord: number | null, dims: readonly number[] | null): Ref {
  if (ord !== null && ord !== 2) g.refuse("arguments");
  return over(g, x, dims, (x, dims) => {
    const total = g.sum(g.mul(x, x), dims), none = g.compare("eq", total, num(0));
    return g.where(none, num(0), g.p("sqrt", g.where(none, num(1), total)));
  });
}

export const REDUCTION_RULES: Rules = {
  linalg_norm: norm,
  linalg_vector_norm: norm,
  sum: (g, x: Ref) => summed(g, x, null),
  "sum.dim_IntList": summed,
  mean: (g, x: Ref) => averaged(g, x, null),
  "mean.dim": averaged,
  amax: largest,
  amin: least,
  max: (g, x: Ref) => largest(g, x, null),
  min: (g, x: Ref) => least(g, x, null),
  var: (g, x: Ref, unbiased: boolean) => variance(g, x, null, Number(unbiased)),
  "var.dim": (g, x: Ref, dims: readonly number[] | null, unbiased: boolean) =>
    variance(g, x, dims, Number(unbiased)),
  "var.correction": (g, x: Ref, dims: readonly number[] | null, correction: number | null) =>
    variance(g, x, dims, correction ?? 1),
  std: (g, x: Ref, unbiased: boolean) => g.p("sqrt", variance(g, x, null, Number(unbiased))),
  "std.dim": (g, x: Ref, dims: readonly number[] | null, unbiased: boolean) =>
    g.p("sqrt", variance(g, x, dims, Number(unbiased))),
  "std.correction": (g, x: Ref, dims: readonly number[] | null, correction: number | null) =>
    g.p("sqrt", variance(g, x, dims, correction ?? 1)),
  "var_mean.dim": (g, x: Ref, dims: readonly number[] | null, unbiased: boolean) => [
    variance(g, x, dims, Number(unbiased)),
    g.shaped(g.mean(x, g.dims(dims, g.shape(x).length)), 1),
  ],
  "var_mean.correction": (g, x: Ref, dims: readonly number[] | null, correction: number | null) => [
    variance(g, x, dims, correction ?? 1),
    g.shaped(g.mean(x, g.dims(dims, g.shape(x).length)), 1),
  ],
  logsumexp: (g, x: Ref, dims: readonly number[]) => {
    const [dim, ...more] = g.dims(dims, g.shape(x).length);
    if (more.length > 0) g.refuse("arguments");
    const { total } = shifted(g, x, dim);
    return g.shaped(g.add(g.p("log", total), g.b.stop(g.b.amax(x, [dim]))));
  },
  "softmax.int": softmax,
  _softmax: softmax,
  "log_softmax.int": logSoftmax,
  _log_softmax: logSoftmax,
};
