// Ops with numbers, composed of ops with tensors: for a libtorch or a processor where their C++ functions can't be called
// (guarded.ts). Their values and gradients are those of the ops themselves, but for the last bits.
import { add, constant, scale, sub } from "./make.ts";
import * as ops from "./ops.ts";
import { beside, type Call, type Num, other, raw } from "./scalar_numbers.ts";
import { scope, type Tensor } from "./tensor.ts";

/** A number of x's own type, on its device. */
const number = (value: number, x: Tensor) => constant(value, x.dtype, x.device);

/** exp(x) - 1 where x is below 0, and 0 elsewhere: what is not chosen later must not be infinite, or its gradient is NaN. */
const expm1Below = (x: Tensor) => ops.expm1(ops.clamp(x, null, number(0, x)));

const elu = (x: Tensor, alpha?: Num, factor?: Num, inner?: Num): Tensor =>
  scope(() => {
    const below = scale(expm1Below(scale(x, raw(inner, 1))), raw(alpha, 1) * raw(factor, 1));
    return ops.where(ops.gt(x, number(0, x)), scale(x, raw(factor, 1)), below);
  });

const plus = (x: Tensor, n: Num | undefined, y: Tensor) => add(x, scale(y, raw(n, 1)));

const product =
  (multiply: (a: Tensor, b: Tensor) => Tensor): Call =>
  (x: Tensor, a: Tensor, b: Tensor, beta?: Num, alpha?: Num) =>
    scope(() => plus(scale(x, raw(beta, 1)), alpha, multiply(a, b)));

/** By libtorch's names, as in scalar_ops. */
export const composed: Readonly<Record<string, Call>> = {
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
