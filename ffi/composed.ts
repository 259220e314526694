// Ops with Scalar arguments, composed of ops with tensors.
import * as ops from "./ops.ts";
import type { DType } from "./dtype.ts";
import { NativeError } from "./errors.ts";
import { add, constant, fill_, scale, sub, uninitialised } from "./make.ts";
import { beside, Num, numberLike, other, pair, raw, type ScalarOp, type TensorOrNumber } from "./scalar.ts";
import { scope, type Tensor } from "./tensor.ts";

// These are for a libtorch or a processor where the ops' C++ functions can't be called (scalar_calls.ts).
// Their values and gradients are those of the ops themselves, but for the last bits.

const number = (value: number, x: Tensor) => constant(value, x.dtype, x.device);

/**
 * exp(x) - 1 where x is below 0, and 0 elsewhere: values that are not chosen later must not be infinite, or
 * their gradient is NaN.
 */
const expm1Below = (x: Tensor) => ops.expm1(ops.clamp(x, null, number(0, x)));

const elu = (x: Tensor, alpha?: Num, factor?: Num, inner?: Num): Tensor =>
  scope(() => {
    const below = scale(expm1Below(scale(x, raw(inner, 1))), raw(alpha, 1) * raw(factor, 1));
    return ops.where(ops.gt(x, number(0, x)), scale(x, raw(factor, 1)), below);
  });

const plus = (x: Tensor, n: Num | undefined, y: Tensor) => add(x, scale(y, raw(n, 1)));

const product =
  (multiply: (a: Tensor, b: Tensor) => Tensor): ScalarOp =>
  (x: Tensor, a: Tensor, b: Tensor, beta?: Num, alpha?: Num) =>
    scope(() => plus(scale(x, raw(beta, 1)), alpha, multiply(a, b)));

export const composed: Readonly<Record<string, ScalarOp>> = {
  "pow.Tensor_Scalar": (x: Tensor, n: Num) => ops.pow(x, beside(n, x)),
  leaky_relu: (x: Tensor, slope?: Num) =>
    scope(() => ops.where(ops.gt(x, number(0, x)), x, scale(x, raw(slope, 0.01)))),
  elu,
  celu: (x: Tensor, alpha?: Num) =>
    scope(() => {
      const a = raw(alpha, 1);
      return ops.where(ops.gt(x, number(0, x)), x, scale(expm1Below(scale(x, 1 / a)), a));
    }),
  softplus: (x: Tensor, beta?: Num, threshold?: Num) =>
    scope(() => {
      const steep = scale(x, raw(beta, 1)), limit = number(raw(threshold, 20), x);
      const soft = scale(ops.log1p(ops.exp(ops.clamp(steep, null, limit))), 1 / raw(beta, 1));
      return ops.where(ops.gt(steep, limit), x, soft);
    }),
  hardtanh: (x: Tensor, min?: Num, max?: Num) =>
    scope(() => {
      const [low, high] = [number(raw(min, -1), x), number(raw(max, 1), x)];
      const inside = ops.logicalAnd(ops.gt(x, low), ops.lt(x, high)); // at the limits themselves no gradient passes
      return ops.where(inside, x, ops.clamp(ops.detach(x), low, high));
    }),
  threshold: (x: Tensor, limit: Num, value: Num) =>
    scope(() => ops.where(ops.le(x, number(limit.value, x)), number(value.value, x), x)),
  hardshrink: (x: Tensor, lambda?: Num) =>
    scope(() => ops.where(ops.le(ops.abs(x), number(raw(lambda, 0.5), x)), number(0, x), x)),
  softshrink: (x: Tensor, lambda?: Num) =>
    scope(() => {
      const n = raw(lambda, 0.5), zero = scale(x, 0);
      const below = ops.where(ops.lt(x, number(-n, x)), add(x, number(n, x)), zero);
      return ops.where(ops.gt(x, number(n, x)), sub(x, number(n, x)), below);
    }),
  addcmul: (x: Tensor, a: Tensor, b: Tensor, n?: Num) => scope(() => plus(x, n, ops.mul(a, b))),
  addcdiv: (x: Tensor, a: Tensor, b: Tensor, n?: Num) => scope(() => plus(x, n, ops.div(a, b))),
  addmm: product(ops.mm),
  baddbmm: product(ops.bmm),
  addmv: product((a, b) => other("mv(Tensor self, Tensor vec) -> Tensor")(a, b) as Tensor),
};

type Dims = readonly number[] | null | undefined;

const countIn = ({ shape }: Tensor, dims: Dims): number =>
  dims && dims.length > 0
    ? dims.reduce((product, dim) => product * shape.at(dim)!, 1)
    : shape.reduce((product, side) => product * side, 1);

/**
 * Corrections of 0 and 1 are libtorch's own; for another the variance over n is stretched: the same but for
 * rounding.
 */
const spread = (name: "var" | "std" | "var_mean" | "std_mean"): ScalarOp => {
  const result = name.includes("_mean") ? "(Tensor, Tensor)" : "Tensor";
  const text = `${name}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> ${result}`;
  return (x: Tensor, dim?: Dims, n?: Num | null, keep = false) => {
    const correction = raw(n, 1);
    const own = other(text)(x, dim ?? null, correction === 1, keep);
    if (correction === 0 || correction === 1) return own;
    const count = countIn(x, dim), factor = count / Math.max(count - correction, 0);
    const stretch = (t: Tensor) => scale(t, name.startsWith("std") ? Math.sqrt(factor) : factor);
    return Array.isArray(own) ? [stretch(own[0]), own[1]] : stretch(own as Tensor);
  };
};

/** The order goes in as None, which stands for 2. */
const NORM =
  "linalg_norm(Tensor self, int? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor";
/**
 * A distance takes its order as a plain float, and the distance from zero is the norm. It goes along the last
 * dimension.
 */
const DISTANCE =
  "pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> Tensor";

function vectorNorm(
  x: Tensor,
  ord?: Num | null,
  dim?: Dims,
  keep = false,
  dtype: DType | null = null,
): unknown {
  const of = raw(ord, 2);
  if (of === 2 && (!dim || dim.length === 1 || dim.length === 2)) {
    return other(NORM)(x, null, dim ?? null, keep, dtype);
  }
  return scope(() => {
    const typed = dtype ? ops.toDtype(x, dtype) : x;
    const size = x.shape, rank = size.length;
    const over = dim && dim.length > 0 ? dim.map((at) => at < 0 ? at + rank : at) : size.map((_, i) => i);
    const rest = size.map((_, i) => i).filter((i) => !over.includes(i));
    const last = ops.reshape(ops.permute(typed, [...rest, ...over]), [...rest.map((i) => size[i]), -1]);
    const norm = other(DISTANCE)(last, constant(0, last.dtype, last.device), of, 0, false) as Tensor;
    return keep ? ops.reshape(norm, size.map((side, i) => over.includes(i) ? 1 : side)) : norm;
  });
}

/** libtorch's norm of a matrix is that of its singular values, or of the norms of its columns or rows. */
function matrixNorm(
  x: Tensor,
  ord: Num,
  dim: readonly number[] = [-2, -1],
  keep = false,
  dtype: DType | null = null,
): unknown {
  return scope(() => {
    const typed = dtype ? ops.toDtype(x, dtype) : x, rank = x.shape.length;
    const [rows, columns] = dim.map((at) => at < 0 ? at + rank : at);
    const most = ord.value > 0 ? ops.amax : ops.amin;
    if (Math.abs(ord.value) === 2) {
      const rest = typed.shape.map((_, i) => i).filter((i) => i !== rows && i !== columns);
      const values = other("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor")(
        ops.permute(typed, [...rest, rows, columns]),
        null,
      ) as Tensor;
      const norm = most(values, [-1], false);
      return keep ? ops.reshape(norm, typed.shape.map((n, i) => i === rows || i === columns ? 1 : n)) : norm;
    }
    const [first, second] = Math.abs(ord.value) === Infinity ? [columns, rows] : [rows, columns];
    const sums = vectorNorm(typed, { ...ord, value: 1 } as Num, [first], keep) as Tensor;
    return most(sums, [!keep && second > first ? second - 1 : second], keep);
  });
}

function linalgNorm(
  x: Tensor,
  ord?: Num | null,
  dim?: Dims,
  keep = false,
  dtype: DType | null = null,
): unknown {
  if (!ord) return other(NORM)(x, null, dim ?? null, keep, dtype);
  const over = dim ?? x.shape.map((_, i) => i);
  return over.length === 1 ? vectorNorm(x, ord, over, keep, dtype) : matrixNorm(x, ord, over, keep, dtype);
}

const normsAndSpreads: Readonly<Record<string, ScalarOp>> = {
  "var.correction": spread("var"),
  "std.correction": spread("std"),
  "var_mean.correction": spread("var_mean"),
  "std_mean.correction": spread("std_mean"),
  linalg_vector_norm: vectorNorm,
  linalg_matrix_norm: matrixNorm,
  linalg_norm: linalgNorm,
  "norm.Scalar": (x: Tensor, p?: Num) => vectorNorm(x, p),
  "norm.ScalarOpt_dtype": (x: Tensor, p: Num | null, dtype: DType) => vectorNorm(x, p, null, false, dtype),
  "norm.ScalarOpt_dim": (x: Tensor, p: Num | null, dim: Dims, keep?: boolean) => vectorNorm(x, p, dim, keep),
  "norm.ScalarOpt_dim_dtype": (x: Tensor, p: Num | null, dim: Dims, keep: boolean, dtype: DType) =>
    vectorNorm(x, p, dim, keep, dtype),
  dist: (a: Tensor, b: Tensor, p?: Num) => scope(() => vectorNorm(sub(a, b), p)),
};

const same = (n: Num, x: Tensor) => constant(n.value, x.dtype, x.device);

const paired = (text: string) => (a: TensorOrNumber, b: TensorOrNumber, ...rest: unknown[]) =>
  other(text)(...pair(a, b), ...rest);

const filled = (n: Num, index: Tensor, x: Tensor) =>
  fill_(uninitialised(index.shape, { dtype: x.dtype, device: x.device }), n.value);

const SEARCH =
  "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor";
const LERP = "(Tensor self, Tensor end, Tensor weight) -> Tensor";

/** Differences of neighbours along some dimensions, each with the distance of its points. */
function gradient(x: Tensor, spacing: readonly number[], dims: readonly number[], order: number): Tensor[] {
  return dims.map((dim, i) => {
    const size = x.shape.at(dim)!;
    const at = (start: number, end: number) =>
      ops.slice(x, dim, start < 0 ? start + size : start, end > 0 ? end : end + size, 1);
    const over = (t: Tensor) => ops.div(t, numberLike(new Num(spacing[i], "float"), t));
    const times = (t: Tensor, n: number) => ops.mul(t, numberLike(new Num(n, "float"), t));
    const inner = times(over(sub(at(2, size), at(0, -2))), 0.5);
    const [first, last] = order === 1 ? [sub(at(1, 2), at(0, 1)), sub(at(-1, size), at(-2, -1))] : [
      sub(add(times(at(0, 1), -1.5), times(at(1, 2), 2)), times(at(2, 3), 0.5)),
      add(sub(times(at(-3, -2), 0.5), times(at(-2, -1), 2)), times(at(-1, size), 1.5)),
    ];
    return ops.cat([over(first), inner, over(last)], dim);
  });
}

const every = (x: Tensor, dim: number | null | undefined): number[] =>
  dim === null || dim === undefined ? x.shape.map((_, i) => i) : [dim];

const EACH = 0, MEAN = 1; // at::Reduction

/** torch adds up each sample's classes in a loop. */
function multiMargin(
  x: Tensor,
  target: Tensor,
  p?: Num,
  margin?: Num,
  weight: Tensor | null = null,
  reduction = MEAN,
): Tensor {
  return scope(() => {
    const rows = ops.reshape(x, [-1, x.shape.at(-1)!]), labels = ops.reshape(target, [-1, 1]);
    const above = ops.relu(add(sub(number(raw(margin, 1), x), ops.gather(rows, 1, labels)), rows));
    const power = raw(p, 1) === 2 ? ops.mul(above, above) : above;
    const others = filled(new Num(0, "float"), labels, x);
    const each = scale(
      ops.sumDim(
        other("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor")(
          power,
          1,
          labels,
          others,
        ) as Tensor,
        [1],
      ),
      1 / rows.shape[1],
    );
    const own = weight ? ops.mul(each, ops.indexSelect(weight, 0, ops.reshape(target, [-1]))) : each;
    return reduction === EACH
      ? ops.reshape(own, target.shape)
      : reduction === MEAN
      ? ops.mean(own)
      : ops.sum(own);
  });
}

const moreScalars: Readonly<Record<string, ScalarOp>> = {
  "lerp.Scalar": (x: Tensor, end: Tensor, n: Num) => other(`lerp.Tensor${LERP}`)(x, end, same(n, x)),
  "lerp_.Scalar": (x: Tensor, end: Tensor, n: Num) =>
    other("lerp_.Tensor(Tensor(a!) self, Tensor end, Tensor weight) -> Tensor(a!)")(x, end, same(n, x)),
  clamp_min_: (x: Tensor, n: Num) => ops.clamp_(x, beside(n, x), null),
  clamp_max_: (x: Tensor, n: Num) => ops.clamp_(x, null, beside(n, x)),
  "div_.Tensor_mode": paired(
    "div_.Tensor_mode(Tensor(a!) self, Tensor other, *, str? rounding_mode) -> Tensor(a!)",
  ),
  "div_.Scalar_mode": paired(
    "div_.Tensor_mode(Tensor(a!) self, Tensor other, *, str? rounding_mode) -> Tensor(a!)",
  ),
  "xlogy.Scalar_Other": paired("xlogy.Tensor(Tensor self, Tensor other) -> Tensor"),
  "xlogy.Scalar_Self": paired("xlogy.Tensor(Tensor self, Tensor other) -> Tensor"),
  "copysign.Scalar": paired("copysign.Tensor(Tensor self, Tensor other) -> Tensor"),
  "float_power.Tensor_Scalar": paired("float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"),
  "float_power.Scalar": paired("float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"),
  "gradient.scalarint": (x: Tensor, spacing?: Num | null, dim?: number | null, order = 1) =>
    scope(() => gradient(x, every(x, dim).map(() => raw(spacing, 1)), every(x, dim), order)),
  "gradient.scalararray": (x: Tensor, spacing: Num, dims: readonly number[], order = 1) =>
    scope(() => gradient(x, dims.map(() => spacing.value), dims, order)),
  "gradient.scalarrayint": (x: Tensor, spacing: readonly number[], dim?: number | null, order = 1) =>
    scope(() => gradient(x, spacing, every(x, dim), order)),
  "gradient.scalarrayarray": (x: Tensor, spacing: readonly number[], dims: readonly number[], order = 1) =>
    scope(() => gradient(x, spacing, dims, order)),
  "searchsorted.Scalar": (sequence: Tensor, n: Num, ...rest: unknown[]) => {
    const [int32 = false, right = false, side = null, sorter = null] = rest;
    return other(SEARCH)(sequence, same(n, sequence), int32, right, side, sorter);
  },
  multi_margin_loss: multiMargin,
  fill_diagonal_: (x: Tensor, n: Num, wrap = false) => {
    const rows = Math.min(...x.shape), step = x.strides.reduce((sum, stride) => sum + stride, 0);
    const tall = wrap && x.shape.length === 2 && x.shape[0] > x.shape[1] + 1;
    if (tall) throw new NativeError("fill_diagonal_", String(x), "a diagonal that wraps is not supported");
    scope(() => fill_(ops.asStrided(x, [rows], [step], x.offset), n.value));
    return x;
  },
  "trapezoid.dx": (y: Tensor, dx?: Num, dim = -1) =>
    scope(() => {
      const last = y.shape.at(dim)! - 1;
      const ends = add(ops.select(y, dim, 0), ops.select(y, dim, last));
      return scale(sub(ops.sumDim(y, [dim]), scale(ends, 0.5)), raw(dx, 1));
    }),
  "scatter_.value": (x: Tensor, dim: number, index: Tensor, n: Num) =>
    other("scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)")(
      x,
      dim,
      index,
      filled(n, index, x),
    ),
  "scatter.value_reduce": (x: Tensor, dim: number, index: Tensor, n: Num, reduce: string) =>
    other("scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor")(
      x,
      dim,
      index,
      filled(n, index, x),
      reduce,
    ),
  "scatter_.value_reduce": (x: Tensor, dim: number, index: Tensor, n: Num, reduce: string) =>
    other("scatter_.reduce(Tensor(a!) self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor(a!)")(
      x,
      dim,
      index,
      filled(n, index, x),
      reduce,
    ),
  "index_fill_.int_Scalar": (x: Tensor, dim: number, index: Tensor, n: Num) =>
    other("index_fill_.int_Tensor(Tensor(a!) self, int dim, Tensor index, Tensor value) -> Tensor(a!)")(
      x,
      dim,
      index,
      same(n, x),
    ),
};

/** By libtorch's names. */
export const COMPOSED: Readonly<Record<string, ScalarOp>> = {
  ...normsAndSpreads,
  ...composed,
  ...moreScalars,
};
