// Ops of one kernel of libtorch's that exact plans call, since no order of simple ops has its bits: it multiplies and adds in
// one instruction, or takes another way for whole vectors. Gradients stand in ../kernel_rules.ts.
import type { Ref } from "../graph.ts";
import { power } from "../kernel_rules.ts";
import { type Lowering, type LoweringRule, num, type Rules } from "./lowering.ts";
import { WITHOUT_STATISTICS } from "./norms.ts";
import { POINTWISE_RULES } from "./pointwise.ts";
import { PRODUCT_RULES } from "./products.ts";

const refs = (values: readonly unknown[], schema: string): unknown[] =>
  values.map((value, i) => typeof value === "number" && isTensor(schema, i) ? { ref: value } : value);

/** Values and numbers are both numbers here: the schema tells which is which. */
const isTensor = (schema: string, i: number): boolean =>
  schema.slice(schema.indexOf("(") + 1).replace("*, ", "").split(", ")[i].startsWith("Tensor");

/** The op as it was recorded. */
const called = (schema: string): LoweringRule => (g, ...args) =>
  g.b.call(
    schema,
    refs(args.map((one, i) => typeof one === "number" && isTensor(schema, i) ? g.float(one) : one), schema),
    g.results[0].shape,
  );

const ADD = called("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
const SUB = called("sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");

/** A factor of 1 or -1 rounds nothing. */
const unlessPlain =
  (name: "add.Tensor" | "sub.Tensor", call: LoweringRule): LoweringRule =>
  (g, x: Ref, y: Ref, alpha: number) =>
    Math.abs(alpha) === 1 ? POINTWISE_RULES[name](g, x, y, alpha) : call(g, x, y, alpha);

function powerOf(g: Lowering, x: Ref, exponent: number): Ref {
  const base = g.float(x);
  if (exponent === 0 || exponent === 1) return g.p("pow", base, num(exponent));
  return exponent === 2 ? g.b.square(base) : power(g.b, base, exponent);
}

const VARIANCE = "Tensor self, int[1]? dim, *, Scalar? correction=None, bool keepdim=False";

/** With dimensions and a correction, whichever overload it was. */
const spread =
  (name: "var" | "std"): LoweringRule =>
  (g, x: Ref, dims: readonly number[] | null, correction: number | null) =>
    g.b.call(
      `${name}.correction(${VARIANCE}) -> Tensor`,
      [{ ref: x }, dims === null || dims.length === 0 ? null : dims, correction ?? 1, keeps(g, x)],
      g.results[0].shape,
    );

const keeps = (g: Lowering, x: Ref): boolean =>
  g.shape(x).length > 0 && g.results[0].shape.length === g.shape(x).length;

const spreadAndMean: LoweringRule = (
  g,
  x: Ref,
  dims: readonly number[] | null,
  correction: number | null,
) => {
  const y = g.b.call(
    `var_mean.correction(${VARIANCE}) -> (Tensor, Tensor)`,
    [{ ref: x }, dims === null || dims.length === 0 ? null : dims, correction ?? 1, keeps(g, x)],
    g.results[0].shape,
  );
  return [y, g.b.result(y, 1, g.results[1].shape)];
};

/** `unbiased` in place of a correction. */
const biased =
  (rule: LoweringRule): LoweringRule => (g, x: Ref, dims: readonly number[] | null, unbiased: boolean) =>
    rule(g, x, dims, Number(unbiased));
const biasedAll = (rule: LoweringRule): LoweringRule => (g, x: Ref, unbiased: boolean) =>
  rule(g, x, null, Number(unbiased));

const NORM =
  "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor";

const norm: LoweringRule = (g, x: Ref, ord: number | null, dims: readonly number[] | null) => {
  if (![null, 1, 2].includes(ord)) g.refuse("arguments");
  return g.b.call(NORM, [{ ref: x }, ord ?? 2, dims, keeps(g, x), null], g.results[0].shape);
};

/** x^2 has one gradient, and x x has two. */
const square: LoweringRule = (g, x: Ref) => g.b.square(g.float(x));

function rmsNorm(g: Lowering, x: Ref, shape: readonly number[], weight: Ref | null, eps: number | null): Ref {
  const squares = g.mean(g.b.square(x), g.all(x).slice(-shape.length));
  const scaled = g.mul(x, g.p("rsqrt", g.add(squares, num(eps ?? 2 ** -23))));
  return weight === null ? scaled : g.mul(scaled, weight);
}

/** Each channel of each sample is a channel of one sample. */
function instanceNorm(
  g: Lowering,
  x: Ref,
  weight: Ref | null,
  bias: Ref | null,
  mean: Ref | null,
  _variance: Ref | null,
  ownStatistics: boolean,
  momentum: number,
  eps: number,
): Ref {
  if (!ownStatistics || mean !== null) g.refuse("arguments");
  const [count, channels, ...places] = g.shape(x), all = count * channels;
  const repeated = (t: Ref | null) =>
    t === null
      ? null
      : { ref: g.b.reshape(g.b.expand(g.b.reshape(t, [1, channels]), [count, channels]), [all]) };
  const whole = g.b.reshape(x, [1, all, ...places]);
  const y = g.b.call(
    WITHOUT_STATISTICS,
    [{ ref: whole }, repeated(weight), repeated(bias), null, null, true, momentum, eps],
    g.shape(whole),
  );
  return g.b.reshape(y, g.shape(x));
}

const BADDBMM =
  "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor";

/** A factor goes into the product. */
const baddbmm: LoweringRule = (g, x: Ref, a: Ref, b: Ref, beta: number, alpha: number) =>
  alpha === 1 && (beta === 1 || beta === 0)
    ? PRODUCT_RULES.baddbmm(g, x, a, b, beta, alpha)
    : g.b.call(BADDBMM, [{ ref: x }, { ref: a }, { ref: b }, beta, alpha], g.results[0].shape);

export const KERNELS: Rules = {
  "add.Tensor": unlessPlain("add.Tensor", ADD),
  "sub.Tensor": unlessPlain("sub.Tensor", SUB),
  "pow.Tensor_Scalar": powerOf,
  square,
  hardswish: called("hardswish(Tensor self) -> Tensor"),
  hardsigmoid: called("hardsigmoid(Tensor self) -> Tensor"),
  softplus: called("softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor"),
  glu: called("glu(Tensor self, int dim=-1) -> Tensor"),
  log_sigmoid: called("log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)"),
  addcmul: called("addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"),
  addcdiv: called("addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"),
  "lerp.Tensor": called("lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor"),
  "lerp.Scalar": called("lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor"),
  ...Object.fromEntries((["var", "std"] as const).flatMap((name) => [
    [name, biasedAll(spread(name))],
    [`${name}.dim`, biased(spread(name))],
    [`${name}.correction`, spread(name)],
  ])),
  "var_mean.dim": biased(spreadAndMean),
  "var_mean.correction": spreadAndMean,
  logsumexp: (g, x: Ref, dims: readonly number[]) =>
    g.b.call(
      "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
      [{ ref: x }, dims, keeps(g, x)],
      g.results[0].shape,
    ),
  linalg_norm: norm,
  linalg_vector_norm: norm,
  dot: called("dot(Tensor self, Tensor tensor) -> Tensor"),
  rms_norm: rmsNorm,
  instance_norm: instanceNorm,
  baddbmm,
  /** A factor of its gradient is multiplied last. */
  mse_loss: called("mse_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor"),
  huber_loss: called("huber_loss(Tensor self, Tensor target, int reduction=Mean, float delta=1.0) -> Tensor"),
  smooth_l1_loss: called(
    "smooth_l1_loss(Tensor self, Tensor target, int reduction=Mean, float beta=1.0) -> Tensor",
  ),
  binary_cross_entropy: called(
    "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor",
  ),
  binary_cross_entropy_with_logits: called(
    "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, " +
      "int reduction=Mean) -> Tensor",
  ),
  exp2: called("exp2(Tensor self) -> Tensor"),
  log2: called("log2(Tensor self) -> Tensor"),
  log10: called("log10(Tensor self) -> Tensor"),
  tan: called("tan(Tensor self) -> Tensor"),
  logaddexp: called("logaddexp(Tensor self, Tensor other) -> Tensor"),
};
