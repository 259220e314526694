// Normalisation: over a row, over groups of channels, over the batch.
import { numelOf } from "../builder.ts";
import type { Ref } from "../graph.ts";
import { type Lowering, num, type Rules } from "./lowering.ts";

const ref = (r: Ref | null) => r === null ? null : { ref: r };

function affine(g: Lowering, x: Ref, weight: Ref | null, bias: Ref | null): Ref {
  const y = weight === null ? x : g.mul(x, weight);
  return bias === null ? y : g.add(y, bias);
}

function normalised(g: Lowering, x: Ref, dims: readonly number[], eps: number): Ref {
  const centred = g.sub(x, g.mean(x, dims));
  const variance = g.mean(g.mul(centred, centred), dims);
  return g.mul(centred, g.p("rsqrt", g.add(variance, num(eps))));
}

const last = (g: Lowering, x: Ref, count: number): number[] => g.all(x).slice(-count);

/**
 * libtorch's op. Fast plans write it as simple ops again (expand.ts), whose gradient is one pass less than that of those
 * that are written here; they are for steps where gradients have gradients, which that of libtorch's op has none of.
 */
export function layerNorm(
  g: Lowering,
  x: Ref,
  shape: readonly number[],
  weight: Ref | null,
  bias: Ref | null,
  eps: number,
): Ref {
  if (g.derivesTwice && !g.exact) {
    return affine(g, normalised(g, x, last(g, x, shape.length), eps), weight, bias);
  }
  return g.b.call(
    "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> " +
      "(Tensor, Tensor, Tensor)",
    [ref(x), shape, ref(weight), ref(bias), eps],
    g.shape(x),
  );
}

const SMALLEST_STEP = 2 ** -23;

function rmsNorm(g: Lowering, x: Ref, shape: readonly number[], weight: Ref | null, eps: number | null): Ref {
  const squares = g.mean(g.mul(x, x), last(g, x, shape.length));
  return affine(g, g.mul(x, g.p("rsqrt", g.add(squares, num(eps ?? SMALLEST_STEP)))), weight, null);
}

/** One value a channel beside [n, channels, ...]. */
const perChannel = (g: Lowering, t: Ref | null, x: Ref): Ref | null =>
  t === null ? null : g.b.reshape(t, [1, g.shape(x)[1], ...g.shape(x).slice(2).map(() => 1)]);

function groupNorm(g: Lowering, x: Ref, groups: number, w: Ref | null, bias: Ref | null, eps: number): Ref {
  const shape = g.shape(x);
  const grouped = g.b.reshape(x, [shape[0], groups, numelOf(shape) / (shape[0] * groups)]);
  const y = g.b.reshape(normalised(g, grouped, [2], eps), shape);
  return affine(g, y, perChannel(g, w, x), perChannel(g, bias, x));
}

/** Each channel of each sample by itself. */
function instanceNorm(
  g: Lowering,
  x: Ref,
  weight: Ref | null,
  bias: Ref | null,
  mean: Ref | null,
  _variance: Ref | null,
  ownStatistics: boolean,
  _momentum: number,
  eps: number,
): Ref {
  if (!ownStatistics || mean !== null) g.refuse("arguments");
  const y = normalised(g, x, g.all(x).slice(2), eps);
  return affine(g, y, perChannel(g, weight, x), perChannel(g, bias, x));
}

function batchNorm(
  g: Lowering,
  x: Ref,
  weight: Ref | null,
  bias: Ref | null,
  mean: Ref | null,
  variance: Ref | null,
  training: boolean,
  momentum: number,
  eps: number,
): Ref | readonly Ref[] {
  if (!training) {
    if (mean === null || variance === null) g.refuse("arguments");
    if (g.exact) {
      const given = [x, weight, bias, mean, variance].map(ref);
      return g.b.call(WITHOUT_STATISTICS, [...given, false, momentum, eps], g.shape(x));
    }
    const scale = g.p("rsqrt", g.add(perChannel(g, variance, x)!, num(eps)));
    const y = g.mul(g.sub(x, perChannel(g, mean, x)!), scale);
    return affine(g, y, perChannel(g, weight, x), perChannel(g, bias, x));
  }
  const values = [{ ref: x }, ref(weight), ref(bias), ref(mean), ref(variance), true, momentum, eps];
  if (mean === null || variance === null) {
    if (mean !== variance) g.refuse("arguments");
    return g.b.call(WITHOUT_STATISTICS, values, g.shape(x));
  }
  const y = g.b.call(WITH_STATISTICS, values, g.shape(x));
  return [y, g.b.result(y, 3, g.shape(mean)), g.b.result(y, 4, g.shape(variance))];
}

export const WITHOUT_STATISTICS =
  "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, " +
  "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)";
/** It writes to nothing: the last results are what the running ones become. */
const WITH_STATISTICS =
  "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, " +
  "Tensor running_var, bool training, float momentum, float eps) -> " +
  "(Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)";

export const NORM_RULES: Rules = {
  layer_norm: layerNorm,
  rms_norm: rmsNorm,
  group_norm: groupNorm,
  batch_norm: batchNorm,
  instance_norm: instanceNorm,
};
