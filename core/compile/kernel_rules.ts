// Gradients of ops that exact plans leave to libtorch, as autograd computes them: by a backward op, or by the formula of
// libtorch's derivatives.yaml in the order in which it is written there.
import type { Builder } from "./builder.ts";
import type { Kind, Pointwise, Ref } from "./graph.ts";

export interface Backward {
  readonly b: Builder;
  /** The call's own results: the first one, and others of these shapes. */
  readonly y: Ref;
  readonly result: (index: number, shape: readonly number[], kind?: Kind) => Ref;
  /** The gradients of the results. */
  readonly back: readonly (Ref | null)[];
  /** The schema's arguments, tensors as { ref }. */
  readonly given: readonly unknown[];
  /** True of a tensor argument whose gradient leads to a parameter. */
  readonly wanted: (argument: number) => boolean;
  readonly shapeOf: (argument: number) => readonly number[];
}

/** A gradient for each argument of the schema, as far as there are any. */
export type CallRule = (of: Backward) => readonly (Ref | null)[];

export const of = (r: Ref) => ({ ref: r });

const refOf = (value: unknown): Ref => (value as { ref: Ref }).ref;

/** The backward op of an op of one tensor takes the gradient, and then what the op itself was given. */
const byOp = (schema: string): CallRule => ({ b, back, given, shapeOf }) => [
  b.call(schema, [of(back[0]!), ...given], shapeOf(0)),
];

/** A value, or a number beside values. */
type Term = Ref | { readonly n: number };

/** A formula on the gradient of the result. */
const formula = (
  write: (p: (op: Pointwise, ...args: readonly Term[]) => Ref, g: Ref, at: Backward) => (Ref | null)[],
): CallRule =>
(at) => {
  const { b, back } = at;
  const p = (op: Pointwise, ...args: readonly Term[]) =>
    b.pointwise(op, ...args.map((one) => typeof one === "number" ? one : b.number(one.n)));
  return write(p, back[0]!, at);
};

const n = (value: number): Term => ({ n: value });

/** maybe_multiply: a factor of 1 is none. */
const times = (p: (op: Pointwise, ...args: readonly Term[]) => Ref, x: Ref, by: number): Ref =>
  by === 1 ? x : p("mul", x, n(by));

const POW = "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor";

/** x to the power of a number that is not 0: a product where that has libtorch's bits. */
export function power(b: Builder, x: Ref, exponent: number): Ref {
  if (exponent === 1) return x;
  if (exponent === 2) return b.pointwise("mul", x, x);
  return b.call(POW, [of(x), exponent], b.shape(x));
}

/** The dimensions that a reduction went over stand with size 1 in its gradient. */
function kept(b: Builder, g: Ref, shape: readonly number[], dims: readonly number[] | null): Ref {
  const over = reduced(shape, dims);
  return b.reshape(g, shape.map((size, d) => over.includes(d) ? 1 : size));
}

const reduced = (shape: readonly number[], dims: readonly number[] | null): number[] =>
  dims === null || dims.length === 0 ? shape.map((_, d) => d) : dims.map((d) => d < 0 ? d + shape.length : d);

const sizeOf = (shape: readonly number[], dims: readonly number[]): number =>
  dims.reduce((all, d) => all * shape[d], 1);

/** var_backward: 2 / (n - correction), times the gradient, times what is left without the mean. */
function ofVariance({ b, given, shapeOf }: Backward, g: Ref): Ref {
  const [x, dims, correction] = given as [{ ref: Ref }, readonly number[] | null, number];
  const shape = shapeOf(0), over = reduced(shape, dims), count = sizeOf(shape, over);
  const mean = b.pointwise("div", b.sum(x.ref, over), b.number(count));
  const scaled = b.pointwise("mul", b.number(2 / (count - correction)), kept(b, g, shape, dims));
  return b.pointwise("mul", scaled, b.pointwise("sub", x.ref, mean));
}

/** A mean's gradient goes to all that it was taken of. */
function ofMean({ b, given, shapeOf }: Backward, g: Ref): Ref {
  const dims = given[1] as readonly number[] | null, shape = shapeOf(0);
  const each = b.expand(kept(b, g, shape, dims), shape);
  return b.pointwise("div", each, b.number(sizeOf(shape, reduced(shape, dims))));
}

function ofVarianceAndMean(at: Backward): (Ref | null)[] {
  const [variance, mean] = at.back,
    parts = [
      ...variance ? [ofVariance(at, variance)] : [],
      ...mean ? [ofMean(at, mean)] : [],
    ];
  return [parts.reduce((one, other) => at.b.pointwise("add", one, other))];
}

/** The 2-norm's, as any other's, is 0 where the norm is. */
function ofNorm({ b, y, back, given, shapeOf }: Backward): (Ref | null)[] {
  const [x, ord, dims] = given as [{ ref: Ref }, number, readonly number[] | null];
  const shape = shapeOf(0), g = kept(b, back[0]!, shape, dims), norm = kept(b, y, shape, dims);
  if (ord === 1) return [b.pointwise("mul", b.pointwise("sign", x.ref), g)];
  const share = b.pointwise("div", x.ref, norm), zero = b.number(0);
  return [b.pointwise("mul", g, b.pointwise("where", b.pointwise("eq", norm, zero), zero, share))];
}

const CUMSUM = "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor";

/** Fast plans do without turning it round. */
function ofCumsum({ b, y, back, given, shapeOf }: Backward): (Ref | null)[] {
  if (b.way === "free") {
    const g = back[0]!, before = b.call(CUMSUM, [of(g), given[1]], b.shape(y));
    return [b.pointwise("add", b.pointwise("sub", b.sum(g, [given[1] as number]), before), g)];
  }
  const dim = given[1] as number, shape = shapeOf(0);
  if (sizeOf(shape, reduced(shape, null)) <= 1 || shape[dim] === 1) return [back[0]!];
  const flip = (x: Ref) => b.call("flip(Tensor self, int[] dims) -> Tensor", [of(x), [dim]], shape);
  return [flip(b.call(CUMSUM, [of(flip(back[0]!)), dim], shape))];
}

/** Losses of two tensors, whose backward op takes the gradient first. */
const ofLoss = (schema: string): CallRule => ({ b, back, given, wanted, shapeOf }) => {
  const call = b.call(schema, [of(back[0]!), ...given], shapeOf(0));
  return [call, wanted(1) ? b.pointwise("neg", call) : null];
};

/** binary_cross_entropy_with_logits_backward, which is no op. */
function ofLogits({ b, back, given, shapeOf }: Backward): (Ref | null)[] {
  const [x, target, weight, ofOnes, reduction] = given;
  const sigmoid = b.pointwise("sigmoid", refOf(x)), t = refOf(target);
  let grad = b.pointwise("sub", sigmoid, t);
  if (ofOnes !== null) {
    const ones = b.pointwise("mul", refOf(ofOnes), t);
    const factor = b.pointwise("sub", b.pointwise("add", ones, b.number(1)), t);
    grad = b.pointwise("sub", b.pointwise("mul", factor, sigmoid), ones);
  }
  grad = b.pointwise("mul", grad, back[0]!);
  if (weight !== null) grad = b.pointwise("mul", grad, refOf(weight));
  const mean = reduction === 1, count = sizeOf(shapeOf(0), reduced(shapeOf(0), null));
  return [mean ? b.pointwise("div", grad, b.number(count)) : grad];
}

/** By the op's name without its overload, but where overloads have gradients of their own. */
export const KERNEL_RULES: Readonly<Record<string, CallRule>> = {
  hardswish: byOp("hardswish_backward(Tensor grad_output, Tensor self) -> Tensor"),
  hardsigmoid: byOp("hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor"),
  softplus: byOp(
    "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
  ),
  glu: byOp("glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor"),
  log_sigmoid_forward: ({ b, result, back, given, shapeOf }) => [
    b.call(
      "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
      [of(back[0]!), ...given, of(result(1, shapeOf(0)))],
      shapeOf(0),
    ),
  ],
  pow: formula((p, g, { b, given: [x, exponent] }) => {
    const e = exponent as number;
    return [p("mul", g, p("mul", n(e), power(b, refOf(x), e - 1)))];
  }),
  add: formula((p, g, { given }) => [g, times(p, g, given[2] as number)]),
  sub: formula((p, g, { given }) => [g, times(p, p("neg", g), given[2] as number)]),
  addcmul: formula((p, g, { given: [, a, b, value] }) => [
    g,
    p("mul", g, p("mul", refOf(b), n(value as number))),
    p("mul", g, p("mul", refOf(a), n(value as number))),
  ]),
  addcdiv: formula((p, g, { given: [, a, b, value] }) => {
    const square = p("mul", refOf(b), refOf(b));
    return [
      g,
      p("mul", g, p("div", n(value as number), refOf(b))),
      p("mul", p("neg", g), p("div", p("mul", refOf(a), n(value as number)), square)),
    ];
  }),
  baddbmm: ({ b, back, given: [, one, two, beta, alpha] }) => {
    const g = back[0]!,
      scaled = (x: Ref, by: unknown) => by === 1 ? x : b.pointwise("mul", x, b.number(by as number));
    const turned = (r: Ref) => b.permute(r, [0, 2, 1]), [x, y] = [one, two].map(refOf);
    return [scaled(g, beta), scaled(b.gemm(g, turned(y)), alpha), scaled(b.gemm(turned(x), g), alpha)];
  },
  lerp: formula((p, g, { given: [x, end, weight] }) => {
    const by = typeof weight === "number" ? n(weight) : refOf(weight);
    const rest = typeof weight === "number" ? n(1 - weight) : p("sub", n(1), by);
    return [p("mul", g, rest), p("mul", g, by), p("mul", g, p("sub", refOf(end), refOf(x)))];
  }),
  var: (at) => [ofVariance(at, at.back[0]!)],
  std: (at) => {
    const { b, y, back } = at;
    const none = b.pointwise("eq", y, b.number(0)), twice = b.pointwise("mul", y, b.number(2));
    return [
      ofVariance(at, b.pointwise("where", none, b.number(0), b.pointwise("div", back[0]!, twice))),
    ];
  },
  var_mean: ofVarianceAndMean,
  logsumexp: formula((p, g, { b, y, given: [x, dims], shapeOf }) => {
    const [grad, result] = [g, y].map((r) => kept(b, r, shapeOf(0), dims as readonly number[]));
    return [p("mul", grad, p("exp", p("sub", refOf(x), result)))];
  }),
  linalg_vector_norm: ofNorm,
  cumsum: ofCumsum,
  dot: formula((p, g, { given: [x, y] }) => [p("mul", g, refOf(y)), p("mul", g, refOf(x))]),
  mse_loss: ofLoss(
    "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
  ),
  huber_loss: ofLoss(
    "huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> Tensor",
  ),
  smooth_l1_loss: ofLoss(
    "smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor",
  ),
  binary_cross_entropy: byOp(
    "binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, " +
      "int reduction=Mean) -> Tensor",
  ),
  binary_cross_entropy_with_logits: ofLogits,
  exp2: formula((p, g, { y }) => [p("mul", p("mul", g, y), n(Math.LN2))]),
  log2: formula((p, g, { given: [x] }) => [p("div", g, p("mul", refOf(x), n(Math.LN2)))]),
  log10: formula((p, g, { given: [x] }) => [p("div", g, p("mul", refOf(x), n(Math.LN10)))]),
  tan: formula((p, g, { y }) => [p("mul", g, p("add", n(1), p("mul", y, y)))]),
  logaddexp: formula((p, g, { y, given: [a, b] }) =>
    [a, b].map((one) => p("mul", g, p("exp", p("sub", refOf(one), y))))
  ),
  _safe_softmax: ({ b, y, back, given, shapeOf }) => [
    b.call(
      "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
      [of(back[0]!), of(y), given[1], "f32"],
      shapeOf(0),
    ),
  ],
};
