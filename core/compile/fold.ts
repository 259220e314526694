// Pointwise ops of numbers, in f32 as libtorch computes them.
import type { Pointwise } from "./graph.ts";

const f32 = Math.fround;

const bits = new Uint32Array(1), float = new Float32Array(bits.buffer);

/** The nearest number of bf16, the even one of two. */
export function roundedNumber(x: number): number {
  if (Number.isNaN(x)) return x;
  float[0] = x;
  bits[0] = bits[0] + 0x7fff + (bits[0] >>> 16 & 1) & 0xffff0000;
  return float[0];
}

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
