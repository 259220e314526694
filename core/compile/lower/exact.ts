// Ops that exact plans leave to libtorch, because their numbers depend on how it rounds: each is the op that autograd
// itself knows, so that its gradient is libtorch's too (call_rules.ts).
import type { Ref } from "../graph.ts";
import { type Lowering, type LoweringRule, num, type Rules, type Term } from "./lowering.ts";
import { layerNorm } from "./norms.ts";
import { classDim, EACH, LOSS_RULES, MEAN, perClass, total } from "./losses.ts";
import { exactAttention } from "./exact_attention.ts";
import { CALL_RULES } from "./calls.ts";
import { KERNELS } from "./kernels.ts";
import { SHAPE_RULES } from "./shapes.ts";

const ref = (r: Ref | null) => r === null ? null : { ref: r };

function groupNorm(
  g: Lowering,
  x: Ref,
  groups: number,
  weight: Ref | null,
  bias: Ref | null,
  eps: number,
): Ref {
  const [count, channels, ...places] = g.shape(x);
  return g.b.call(
    "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, " +
      "float eps) -> (Tensor, Tensor, Tensor)",
    [ref(x), ref(weight), ref(bias), count, channels, places.reduce((n, size) => n * size, 1), groups, eps],
    g.shape(x),
  );
}

const softmaxOf = (name: "_softmax" | "_log_softmax"): LoweringRule => (g, x: Ref, dim: number) =>
  g.b.call(
    `${name}(Tensor self, int dim, bool half_to_float) -> Tensor`,
    [ref(g.float(x)), g.dim(dim, g.shape(x).length), false],
    g.shape(x),
  );

const logSoftmax = softmaxOf("_log_softmax") as (g: Lowering, x: Ref, dim: number) => Ref;

/** Maps have four dimensions for it, and rows two. */
function nll(
  g: Lowering,
  log: Ref,
  target: Ref,
  weight: Ref | null,
  reduction: number,
  ignored: number,
): Ref {
  if (g.kind(target) !== "i64") g.refuse("type");
  const [count, classes, ...places] = g.shape(log), labels = g.shape(target);
  const rows = g.shape(log).length <= 2, numel = places.reduce((n, size) => n * size, 1);
  const maps = rows || places.length === 2 ? log : g.b.reshape(log, [count, classes, 1, numel]);
  const own = rows || places.length === 2 ? target : g.b.reshape(target, [count, 1, numel]);
  const whole = reduction !== EACH;
  const made = g.b.call(
    `nll_loss${rows ? "" : "2d"}_forward(Tensor self, Tensor target, Tensor? weight, int reduction, ` +
      "SymInt ignore_index) -> (Tensor output, Tensor total_weight)",
    [ref(maps), ref(own), ref(weight), reduction, ignored],
    whole ? [] : g.shape(own),
  );
  return whole ? made : g.b.reshape(made, labels);
}

/** As libtorch composes it. */
function crossEntropy(
  g: Lowering,
  x: Ref,
  target: Ref,
  weight: Ref | null,
  reduction: number,
  ignored: number,
  smoothing: number,
): Ref {
  const dim = classDim(g, x), log = logSoftmax(g, x, dim);
  if (g.kind(target) !== "i64") return ofShares(g, log, target, weight, reduction, smoothing);
  const own = nll(g, log, target, weight, reduction, ignored);
  if (smoothing === 0) return own;
  const valid = g.compare("ne", target, num(ignored)), shape = g.shape(target);
  const weighed = weight === null ? log : g.mul(log, perClass(g, weight, log));
  const each = g.where(valid, g.neg(g.b.reshape(g.sum(weighed, [dim]), shape)), num(0));
  const even = reduction === EACH ? each : total(g, each);
  const mean = reduction === MEAN ? g.div(even, countOf(g, valid, target, weight)) : even;
  const share: Term = num(smoothing / g.shape(x)[dim]);
  return g.add(g.mul(own, num(1 - smoothing)), g.mul(mean, share));
}

/** The weights of all labels that count. */
function countOf(g: Lowering, valid: Ref, target: Ref, weight: Ref | null): Ref {
  if (weight === null) return total(g, g.float(valid));
  const known = g.b.pointwise("where", valid, target, g.b.number(0, "i64"));
  const flat = g.b.reshape(known, [g.count(known, g.all(known))]);
  const own = g.b.call(
    "index_select(Tensor self, int dim, Tensor index) -> Tensor",
    [ref(weight), 0, ref(flat)],
    g.shape(flat),
  );
  return total(g, g.where(g.b.reshape(valid, g.shape(flat)), own, num(0)));
}

/** Targets are shares of classes. */
function ofShares(
  g: Lowering,
  log: Ref,
  target: Ref,
  weight: Ref | null,
  reduction: number,
  smoothing: number,
): Ref {
  const dim = classDim(g, log), classes = g.shape(log)[dim];
  const shares = smoothing === 0
    ? target
    : g.add(g.mul(target, num(1 - smoothing)), num(smoothing / classes));
  const each = g.mul(log, shares);
  const weighed = weight === null ? each : g.mul(each, perClass(g, weight, log));
  if (reduction === EACH) return g.shaped(g.neg(g.sum(weighed, [dim])));
  const sum = g.neg(total(g, weighed));
  return reduction === MEAN ? g.div(sum, num(g.count(weighed, g.all(weighed)) / classes)) : sum;
}

/** Gradients of what is reflected or repeated are added up as libtorch's kernels do. */
const pad: LoweringRule = (g, x: Ref, sizes: readonly number[], mode: string, value: number | null) => {
  const name = mode === "reflect" ? "reflection" : mode === "replicate" ? "replication" : null;
  const rule = name === null ? SHAPE_RULES.pad : CALL_RULES[`${name}_pad${sizes.length / 2}d`];
  return rule(g, x, sizes, mode, value);
};

/** libtorch's own op, with its gradient by autograd (recorded_calls.ts). */
const asRecorded: LoweringRule = (g) => g.refuse("arguments");

const activation = (schema: string): LoweringRule => (g, x: Ref, ...rest) =>
  g.b.call(schema, [ref(x), ...rest], g.shape(x));

export const EXACT_RULES: Rules = {
  ...KERNELS,
  scaled_dot_product_attention: exactAttention,
  layer_norm: layerNorm,
  "lstm.input": asRecorded,
  "gru.input": asRecorded,
  pad,
  group_norm: groupNorm,
  "softmax.int": softmaxOf("_softmax"),
  _softmax: softmaxOf("_softmax"),
  "log_softmax.int": softmaxOf("_log_softmax"),
  _log_softmax: softmaxOf("_log_softmax"),
  nll_loss: nll,
  nll_loss_nd: nll,
  cross_entropy_loss: crossEntropy,
  mse_loss: (g, ...args) => (g.makesLoss ? LOSS_RULES : KERNELS).mse_loss(g, ...args),
  gelu: activation("gelu(Tensor self, *, str approximate='none') -> Tensor"),
  silu: activation("silu(Tensor self) -> Tensor"),
  mish: activation("mish(Tensor self) -> Tensor"),
};
