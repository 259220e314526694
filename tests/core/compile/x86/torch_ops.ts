// libtorch's op of each of graph.ts's POINTWISE, and how near to the true value ours must be.
import type { Pointwise } from "../../../../core/compile/graph.ts";
import { aten } from "../../../../ffi/aten.ts";
import { add, sub } from "../../../../ffi/make.ts";
import { toCopy } from "../../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../../ffi/tensor.ts";

type Op = (...args: Tensor[]) => Tensor;

/** libtorch's op of each of ours; those with a number have an argument more. */
export const TORCH: Record<Exclude<Pointwise, "float">, Op> = {
  neg: aten("neg(Tensor self) -> Tensor"),
  abs: aten("abs(Tensor self) -> Tensor"),
  sign: aten("sign(Tensor self) -> Tensor"),
  sqrt: aten("sqrt(Tensor self) -> Tensor"),
  rsqrt: aten("rsqrt(Tensor self) -> Tensor"),
  reciprocal: aten("reciprocal(Tensor self) -> Tensor"),
  exp: aten("exp(Tensor self) -> Tensor"),
  expm1: aten("expm1(Tensor self) -> Tensor"),
  log: aten("log(Tensor self) -> Tensor"),
  log1p: aten("log1p(Tensor self) -> Tensor"),
  tanh: aten("tanh(Tensor self) -> Tensor"),
  sigmoid: aten("sigmoid(Tensor self) -> Tensor"),
  erf: aten("erf(Tensor self) -> Tensor"),
  sin: aten("sin(Tensor self) -> Tensor"),
  cos: aten("cos(Tensor self) -> Tensor"),
  floor: aten("floor(Tensor self) -> Tensor"),
  bf16: (a) => scope(() => toCopy(toCopy(a, "bf16"), "f32")),
  f16: (a) => scope(() => toCopy(toCopy(a, "f16"), "f32")),
  add: (a, b) => add(a, b),
  sub: (a, b) => sub(a, b),
  mul: aten("mul.Tensor(Tensor self, Tensor other) -> Tensor"),
  div: aten("div.Tensor(Tensor self, Tensor other) -> Tensor"),
  pow: aten("pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"),
  tanhBackward: aten("tanh_backward(Tensor grad_output, Tensor output) -> Tensor"),
  max: aten("maximum(Tensor self, Tensor other) -> Tensor"),
  min: aten("minimum(Tensor self, Tensor other) -> Tensor"),
  lt: aten("lt.Tensor(Tensor self, Tensor other) -> Tensor"),
  le: aten("le.Tensor(Tensor self, Tensor other) -> Tensor"),
  gt: aten("gt.Tensor(Tensor self, Tensor other) -> Tensor"),
  ge: aten("ge.Tensor(Tensor self, Tensor other) -> Tensor"),
  eq: aten("eq.Tensor(Tensor self, Tensor other) -> Tensor"),
  ne: aten("ne.Tensor(Tensor self, Tensor other) -> Tensor"),
  and: aten("logical_and(Tensor self, Tensor other) -> Tensor"),
  or: aten("logical_or(Tensor self, Tensor other) -> Tensor"),
  not: aten("logical_not(Tensor self) -> Tensor"),
  where: (a: Tensor, b: Tensor, c: Tensor) =>
    scope(() =>
      aten("where.self(Tensor condition, Tensor self, Tensor other) -> Tensor")(toCopy(a, "bool"), b, c)
    ),
};

/** Units in the last place that a function of ours may be away from the true value. Others have libtorch's bits. */
export const ULPS: Partial<Record<Pointwise, number>> = {
  /** libtorch takes one that is not always rounded right. */
  sqrt: 0.5,
  exp: 1.1,
  expm1: 2,
  log: 1,
  log1p: 2.5,
  tanh: 2.6,
  sigmoid: 2.6,
  erf: 1.2,
  sin: 1,
  cos: 1,
  pow: 1,
};

const LEAST = 2 ** -149, MOST = 3.4028234663852886e38;
export const SPECIAL = [
  0,
  1,
  0.5,
  2,
  3,
  1e-3,
  1e-8,
  0.625,
  0.9999999,
  1.0000001,
  20,
  87,
  88.5,
  89,
  103,
  104,
  150,
  1e10,
  1e30,
]
  .concat([1e-40, LEAST, 2 ** -126, 2 ** -127, MOST, Infinity]).flatMap((x) => [x, -x]).concat([NaN])
  .map(Math.fround);

/** A stream of numbers that is the same in each run. */
export function draws(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13, state ^= state >>> 17, state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

const word = new Int32Array(1), asFloat = new Float32Array(word.buffer);
export function ulpOf(value: number): number {
  asFloat[0] = Math.abs(value);
  if (!Number.isFinite(asFloat[0])) return 2 ** 104;
  const here = asFloat[0];
  word[0]++;
  return Number.isFinite(asFloat[0]) ? asFloat[0] - here : 2 ** 104;
}
