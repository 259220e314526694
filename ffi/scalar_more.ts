// Further ops with Scalar arguments, by their tensor forms. May import make, ops, tensor, scalar_numbers.
import { add, constant, fill_, scale, sub, uninitialised } from "./make.ts";
import * as ops from "./ops.ts";
import { NativeError } from "./errors.ts";
import { beside, type Call, Num, numberLike, type Operand, other, pair, raw } from "./scalar_numbers.ts";
import { scope, type Tensor } from "./tensor.ts";

/** Of the tensor's own type, for ops that take no other. */
const same = (n: Num, x: Tensor) => constant(n.value, x.dtype, x.device);

/** A form that takes two tensors, for one and a number. */
const paired = (text: string) => (a: Operand, b: Operand, ...rest: unknown[]) =>
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

/** By libtorch's names, as in scalar_ops. */
export const moreScalars: Readonly<Record<string, Call>> = {
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
