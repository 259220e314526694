// Further ops with Scalar arguments, by their tensor forms. May import make, ops, tensor, scalar_numbers.
import { add, constant, fill_, scale, sub, uninitialised } from "./make.ts";
import * as ops from "./ops.ts";
import { beside, type Call, type Num, type Operand, other, pair, raw } from "./scalar_numbers.ts";
import { scope, type Tensor } from "./tensor.ts";

/** Of the tensor's own type, for ops that take no other. */
const same = (n: Num, x: Tensor) => constant(n.value, x.dtype, x.device);

/** A form that takes two tensors, for one and a number. */
const paired = (text: string) => (a: Operand, b: Operand, ...rest: unknown[]) =>
  other(text)(...pair(a, b), ...rest);

const filled = (n: Num, index: Tensor, x: Tensor) =>
  fill_(uninitialised(index.shape, { dtype: x.dtype, device: x.device }), n.value);

const LERP = "(Tensor self, Tensor end, Tensor weight) -> Tensor";

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
