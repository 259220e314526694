// Pointwise ops of numbers, in f32 as libtorch computes them.
import type { HalfType, Pointwise } from "./graph.ts";

const f32 = Math.fround;

const bits = new Uint32Array(1), float = new Float32Array(bits.buffer);

/** The nearest number of bf16, the even one of two. */
function roundedNumber(x: number): number {
  if (Number.isNaN(x)) return x;
  float[0] = x;
  bits[0] = bits[0] + 0x7fff + (bits[0] >>> 16 & 1) & 0xffff0000;
  return float[0];
}

const LEAST_F16 = 2 ** -24, NORMAL_F16 = 2 ** -14, BEYOND_F16 = 65520;

/** The nearest number of f16, the even one of two. */
function roundedToF16(x: number): number {
  const size = Math.abs(x);
  if (!(size < BEYOND_F16)) return Number.isNaN(x) ? x : Math.sign(x) * Infinity;
  const step = size < NORMAL_F16 ? LEAST_F16 : 2 ** (Math.floor(Math.log2(size)) - 10);
  const below = Math.floor(size / step), rest = size / step - below;
  const up = rest > 0.5 || rest === 0.5 && below % 2 === 1;
  const rounded = (below + Number(up)) * step;
  return x < 0 || Object.is(x, -0) ? -rounded : rounded;
}

export const roundedTo = (half: HalfType, x: number): number =>
  half === "bf16" ? roundedNumber(x) : roundedToF16(x);

const FUNCTIONS: Partial<Record<Pointwise, (...args: number[]) => number>> = {
  neg: (a) => -a,
  abs: Math.abs,
  sign: Math.sign,
  sqrt: Math.sqrt,
  rsqrt: (a) => 1 / Math.sqrt(a),
  reciprocal: (a) => 1 / a,
  exp: Math.exp,
  expm1: Math.expm1,
  log: Math.log,
  log1p: Math.log1p,
  tanh: Math.tanh,
  sin: Math.sin,
  cos: Math.cos,
  floor: Math.floor,
  bf16: roundedNumber,
  f16: roundedToF16,
  float: (a) => a,
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  pow: Math.pow,
  tanhBackward: (g, y) => g * f32(1 - y * y),
  max: Math.max,
  min: Math.min,
  lt: (a, b) => Number(a < b),
  le: (a, b) => Number(a <= b),
  gt: (a, b) => Number(a > b),
  ge: (a, b) => Number(a >= b),
  eq: (a, b) => Number(a === b),
  ne: (a, b) => Number(a !== b),
  and: (a, b) => Number(a !== 0 && b !== 0),
  or: (a, b) => Number(a !== 0 || b !== 0),
  not: (a) => Number(a === 0),
  where: (c, a, b) => c !== 0 ? a : b,
};

/** Null where only libtorch knows. */
export function fold(op: Pointwise, args: readonly number[]): number | null {
  const result = FUNCTIONS[op]?.(...args);
  return result === undefined ? null : f32(result);
}
