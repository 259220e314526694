// Ops that work number by number, and activations.
import { isOther, type Pointwise, type Ref } from "../graph.ts";
import { elementKind, type Lowering, num, type Rules, type Term } from "./lowering.ts";

/** Scalars come as numbers. */
type Given = Ref;

const plain = (op: Pointwise) => (g: Lowering, x: Ref) => g.p(op, x);
const compared = (op: "lt" | "le" | "gt" | "ge" | "eq" | "ne"): Rules => ({
  [`${op}.Tensor`]: (g, x: Ref, y: Ref) => g.compare(op, x, y),
  [`${op}.Scalar`]: (g, x: Ref, n: number) => g.compare(op, x, num(n)),
});

const SQRT_HALF = Math.SQRT1_2;
const GELU = Math.sqrt(2 / Math.PI), GELU_CUBE = 0.044715;

const scaled = (g: Lowering, y: Term, alpha: number): Ref => alpha === 1 ? g.float(y) : g.mul(y, num(alpha));

function gelu(g: Lowering, x: Ref, approximate: string): Ref {
  if (approximate === "tanh") {
    // (1 + tanh(u)) / 2 is sigmoid(2 u), which takes half as many instructions, and keeps its digits where it is small.
    const twice = g.add(num(2 * GELU), g.mul(num(2 * GELU * GELU_CUBE), g.mul(x, x)));
    return g.mul(x, g.p("sigmoid", g.mul(x, twice)));
  }
  const share = g.mul(num(0.5), g.add(num(1), g.p("erf", g.mul(x, num(SQRT_HALF)))));
  return g.mul(x, share);
}

/** A value that is not chosen must not be infinite, or its gradient is NaN: x is 0 there. */
const expm1Below = (g: Lowering, x: Ref, factor: number): Ref =>
  g.p("expm1", g.mul(g.where(g.compare("gt", x, num(0)), num(0), x), num(factor)));

const elu = (g: Lowering, x: Ref, alpha: number, scale: number, inner: number): Ref =>
  g.where(
    g.compare("le", x, num(0)),
    g.mul(expm1Below(g, x, inner), num(alpha * scale)),
    g.mul(x, num(scale)),
  );

function softplus(g: Lowering, x: Ref, beta = 1, threshold = 20): Ref {
  const steep = g.mul(x, num(beta)), far = g.compare("gt", steep, num(threshold));
  const near = g.where(far, num(threshold), steep);
  return g.where(far, x, g.div(g.p("log1p", g.p("exp", near)), num(beta)));
}

/** log(sigmoid(x)) without an overflow. */
export const logSigmoid = (g: Lowering, x: Ref): Ref =>
  g.sub(g.p("min", x, num(0)), g.p("log1p", g.p("exp", g.neg(g.p("abs", x)))));

/** At the limits themselves a gradient passes. */
function clamp(g: Lowering, x: Ref, least: Term | null, most: Term | null): Ref {
  const raised = least === null ? x : g.where(g.compare("lt", x, least), least, x);
  return most === null ? raised : g.where(g.compare("gt", raised, most), most, raised);
}

/** At the limits themselves none does. */
const between = (g: Lowering, x: Ref, least: number, most: number, inside: Ref, above: Term): Ref =>
  g.where(
    g.compare("le", x, num(least)),
    num(inside === x ? least : 0),
    g.where(g.compare("ge", x, num(most)), above, inside),
  );

const hardtanh = (g: Lowering, x: Ref, least: number, most: number): Ref =>
  between(g, x, least, most, x, num(most));

const maybe = (n: number | null): Term | null => n === null ? null : num(n);

const filled = (g: Lowering, n: Term): Ref => {
  const { shape, dtype } = g.results[0], kind = elementKind(dtype) ?? "f32";
  const value = typeof n === "number" ? g.b.numberOf(n) : n.n;
  if (value === null || typeof n !== "number" && kind === "f32") return g.b.expand(g.float(n), shape);
  if (isOther(kind) && value !== 0) g.refuse("type");
  return g.b.expand(g.b.number(value, kind), shape);
};

function logAddExp(g: Lowering, x: Ref, y: Ref): Ref {
  const difference = g.where(g.compare("eq", x, y), num(0), g.sub(x, y)); // of two infinities, too
  return g.add(g.p("max", x, y), g.p("log1p", g.p("exp", g.neg(g.p("abs", difference)))));
}

/** exp(x) - 1 is exact near 0. */
function sinh(g: Lowering, x: Ref): Ref {
  const less = g.p("expm1", x);
  return g.mul(g.add(less, g.div(less, g.add(less, num(1)))), num(0.5));
}

/** These overwrite all that their first argument held. */
export const OVERWRITING: ReadonlySet<string> = new Set([
  "fill_",
  "zero_",
  "copy_",
  "bernoulli_",
  "written_through",
]);

export const POINTWISE_RULES: Rules = {
  ...Object.fromEntries(
    ([
      ...["neg", "abs", "sign", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "log1p"],
      ...["tanh", "sigmoid", "erf", "sin", "cos", "floor"],
    ] as Pointwise[]).map((op) => [op, plain(op)]),
  ),
  sgn: plain("sign"),
  "add.Tensor": (g, x: Ref, y: Ref, alpha: number) => g.add(x, scaled(g, y, alpha)),
  "add.Scalar": (g, x: Ref, y: number, alpha: number) => g.add(x, num(y * alpha)),
  "sub.Tensor": (g, x: Ref, y: Ref, alpha: number) => g.sub(x, scaled(g, y, alpha)),
  "sub.Scalar": (g, x: Ref, y: number, alpha: number) => g.sub(x, num(y * alpha)),
  "rsub.Tensor": (g, x: Ref, y: Ref, alpha: number) => g.sub(y, scaled(g, x, alpha)),
  "rsub.Scalar": (g, x: Ref, y: number, alpha: number) => g.sub(num(y), scaled(g, x, alpha)),
  "mul.Tensor": (g, x: Ref, y: Ref) => g.mul(x, y),
  "mul.Scalar": (g, x: Ref, y: number) => g.mul(x, num(y)),
  "div.Tensor": (g, x: Ref, y: Ref) => g.div(x, y),
  "div.Scalar": (g, x: Ref, y: number) => g.div(x, num(y)),
  "div.Tensor_mode": (g, x: Ref, y: Ref, mode: string | null) =>
    mode === null ? g.div(x, y) : mode === "floor" ? g.p("floor", g.div(x, y)) : g.refuse("arguments"),
  "pow.Tensor_Tensor": (g, x: Ref, y: Ref) => g.p("pow", x, y),
  "pow.Tensor_Scalar": (g, x: Ref, y: number) => g.p("pow", x, num(y)),
  "pow.Scalar": (g, x: number, y: Ref) => g.p("pow", num(x), y),
  square: (g, x: Ref) => g.mul(x, x),
  tan: (g, x: Ref) => g.div(g.p("sin", x), g.p("cos", x)),
  sinh,
  cosh: (g, x: Ref) => g.mul(g.add(g.p("exp", x), g.p("exp", g.neg(x))), num(0.5)),
  exp2: (g, x: Ref) => g.p("exp", g.mul(x, num(Math.LN2))),
  log2: (g, x: Ref) => g.mul(g.p("log", x), num(Math.LOG2E)),
  log10: (g, x: Ref) => g.mul(g.p("log", x), num(Math.LOG10E)),
  ceil: (g, x: Ref) => g.neg(g.p("floor", g.neg(x))),
  logaddexp: logAddExp,
  hardshrink: (g, x: Ref, limit: number) => g.where(g.compare("le", g.p("abs", x), num(limit)), num(0), x),
  softshrink: (g, x: Ref, limit: number) => {
    const below = g.where(g.compare("lt", x, num(-limit)), g.add(x, num(limit)), g.mul(x, num(0)));
    return g.where(g.compare("gt", x, num(limit)), g.sub(x, num(limit)), below);
  },
  maximum: (g, x: Ref, y: Ref) => g.p("max", x, y),
  minimum: (g, x: Ref, y: Ref) => g.p("min", x, y),
  "max.other": (g, x: Ref, y: Ref) => g.p("max", x, y),
  "min.other": (g, x: Ref, y: Ref) => g.p("min", x, y),
  addcmul: (g, x: Ref, a: Ref, b: Ref, n: number) => g.add(x, scaled(g, g.mul(a, b), n)),
  addcdiv: (g, x: Ref, a: Ref, b: Ref, n: number) => g.add(x, scaled(g, g.div(a, b), n)),
  "lerp.Tensor": (g, x: Ref, end: Ref, weight: Ref) => g.add(x, g.mul(weight, g.sub(end, x))),
  "lerp.Scalar": (g, x: Ref, end: Ref, weight: number) => g.add(x, g.mul(num(weight), g.sub(end, x))),
  clamp: (g, x: Ref, least: number | null, most: number | null) => clamp(g, x, maybe(least), maybe(most)),
  "clamp.Tensor": (g, x: Ref, least: Ref | null, most: Ref | null) => clamp(g, x, least, most),
  clamp_min: (g, x: Ref, least: number) => clamp(g, x, num(least), null),
  clamp_max: (g, x: Ref, most: number) => clamp(g, x, null, num(most)),
  relu: (g, x: Ref) => g.where(g.compare("le", x, num(0)), num(0), x),
  relu6: (g, x: Ref) => hardtanh(g, x, 0, 6),
  leaky_relu: (g, x: Ref, slope: number) => g.where(g.compare("gt", x, num(0)), x, g.mul(x, num(slope))),
  prelu: (g, x: Ref, w: Ref) => {
    const rank = g.shape(x).length, count = g.count(w, g.all(w));
    const slope = g.b.reshape(w, count === 1 ? [] : [1, count, ...new Array(rank - 2).fill(1)]);
    return g.where(g.compare("gt", x, num(0)), x, g.mul(x, slope));
  },
  elu: (g, x: Ref, alpha: number, scale: number, inner: number) => elu(g, x, alpha, scale, inner),
  selu: (g, x: Ref) => elu(g, x, 1.6732632423543772, 1.0507009873554805, 1),
  celu: (g, x: Ref, alpha: number) => elu(g, x, alpha, 1, 1 / alpha),
  silu: (g, x: Ref) => g.mul(x, g.p("sigmoid", x)),
  gelu,
  softplus: (g, x: Ref, beta: number, threshold: number) => softplus(g, x, beta, threshold),
  mish: (g, x: Ref) => g.mul(x, g.p("tanh", softplus(g, x))),
  log_sigmoid: logSigmoid,
  hardtanh,
  hardswish: (g, x: Ref) => between(g, x, -3, 3, g.mul(x, g.div(g.add(x, num(3)), num(6))), x),
  hardsigmoid: (g, x: Ref) => between(g, x, -3, 3, g.div(g.add(x, num(3)), num(6)), num(1)),
  threshold: (g, x: Ref, limit: number, value: number) =>
    g.where(g.compare("le", x, num(limit)), num(value), x),
  ...compared("lt"),
  ...compared("le"),
  ...compared("gt"),
  ...compared("ge"),
  ...compared("eq"),
  ...compared("ne"),
  isnan: (g, x: Ref) => g.compare("ne", x, x),
  isfinite: (g, x: Ref) => g.compare("lt", g.p("abs", x), num(Infinity)),
  logical_and: (g, x: Ref, y: Ref) => g.b.pointwise("and", g.truth(x), g.truth(y)),
  logical_or: (g, x: Ref, y: Ref) => g.b.pointwise("or", g.truth(x), g.truth(y)),
  logical_not: (g, x: Ref) => g.b.pointwise("not", g.truth(x)),
  "bitwise_and.Tensor": (g, x: Ref, y: Ref) => g.b.pointwise("and", g.truth(x), g.truth(y)),
  "bitwise_or.Tensor": (g, x: Ref, y: Ref) => g.b.pointwise("or", g.truth(x), g.truth(y)),
  "__and__.Tensor": (g, x: Ref, y: Ref) => g.b.pointwise("and", g.truth(x), g.truth(y)),
  "__or__.Tensor": (g, x: Ref, y: Ref) => g.b.pointwise("or", g.truth(x), g.truth(y)),
  bitwise_not: (g, x: Ref) => g.b.pointwise("not", g.truth(x)),
  "where.self": (g, c: Ref, x: Ref, y: Ref) => g.where(c, x, y),
  "where.ScalarSelf": (g, c: Ref, x: number, y: Ref) => g.where(c, num(x), y),
  "where.ScalarOther": (g, c: Ref, x: Ref, y: number) => g.where(c, x, num(y)),
  "where.Scalar": (g, c: Ref, x: number, y: number) => g.where(c, num(x), num(y)),
  "masked_fill.Tensor": (g, x: Ref, mask: Ref, n: Ref) => g.where(mask, n, x),
  "masked_fill.Scalar": (g, x: Ref, mask: Ref, n: number) => g.where(mask, num(n), x),
  "fill.Tensor": (g, _x: Given, n: Ref) => filled(g, n),
  "fill.Scalar": (g, _x: Given, n: number) => filled(g, num(n)),
  zero: (g) => filled(g, num(0)),
  /** Whole samples that are left out: stochastic depth. */
  "bernoulli.float": (g, _x: Given, p: number) => g.drawn(g.results[0].shape, p),
  zeros: (g) => filled(g, num(0)),
  ones: (g) => filled(g, num(1)),
  zeros_like: (g) => filled(g, num(0)),
  ones_like: (g) => filled(g, num(1)),
  new_zeros: (g) => filled(g, num(0)),
  new_ones: (g) => filled(g, num(1)),
  full: (g, _size: readonly number[], n: number) => filled(g, num(n)),
  full_like: (g, _x: Ref, n: number) => filled(g, num(n)),
  new_full: (g, _x: Ref, _size: readonly number[], n: number) => filled(g, num(n)),
  copy: (g, _x: Given, from: Ref) => {
    const { shape, dtype } = g.results[0];
    return g.b.expand(g.kind(from) === dtype ? from : g.float(from), shape);
  },
};
