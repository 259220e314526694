// exp, log, tanh and their like as polynomials, and by Sleef, which libtorch has inside. Worst errors against the true value, in
// units of the last place: log and Sleef's sin, cos and pow 1.0, exp 1.1, erf 1.2, expm1 2.0, log1p 2.5, tanh and sigmoid 2.6.
// tests/core/compile/x86/pointwise_test.ts holds them. In an exact group expm1, log1p, sigmoid and pow have libtorch's bits.
import type { VectorSteps, VectorValue } from "./steps.ts";

const LOG2_E = 1.44269504088896341;
/** The logarithm of 2 as a short number and the rest of it. */
const LN2_HIGH = 0.693359375, LN2_LOW = -2.12194440e-4;
const SIGN = 0x80000000;
const LEAST_NORMAL = 1.1754943508222875e-38;

/** p(x) with the highest power's coefficient first. */
function polynomial(s: VectorSteps, x: VectorValue, coefficients: readonly number[]): VectorValue {
  return coefficients.slice(1).reduce(
    (sum, c) => s.fma(sum, x, s.number(c)),
    s.number(coefficients[0]),
  );
}

/** x = n log(2) + r; and exp(r) - 1. */
function reduced(s: VectorSteps, x: VectorValue): { n: VectorValue; power: VectorValue } {
  const n = s.nearest(s.times(x, s.number(LOG2_E)));
  const r = s.fnma(n, s.number(LN2_LOW), s.fnma(n, s.number(LN2_HIGH), x));
  const q = polynomial(s, r, [
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
  ]);
  return { n, power: s.fma(q, s.times(r, r), r) };
}

/** 2^n as a float, for n from -126 to 127. */
function power2(s: VectorSteps, n: VectorValue): VectorValue {
  const whole = s.pure("toInt", [n]);
  return s.pure("shiftLeft", [s.pure("addInt", [whole, s.bits(127)])], 23);
}

/** a * 2^n for any n that exp meets, also where the result is denormal. */
function scaled(s: VectorSteps, a: VectorValue, n: VectorValue): VectorValue {
  if (s.isa === "avx512") return s.pure("scale", [a, n]);
  const half = s.pure("shiftRightSigned", [s.pure("toInt", [n])], 1);
  const first = s.pure("shiftLeft", [s.pure("addInt", [half, s.bits(127)])], 23);
  const rest = s.minus(n, s.pure("toFloat", [half]));
  return s.times(s.times(a, first), power2(s, rest));
}

/** NaN stays NaN: the second operand of min and max is the one that is kept. */
const between = (s: VectorSteps, least: number, x: VectorValue, most: number): VectorValue =>
  s.greater(s.number(least), s.lesser(s.number(most), x));

export function exp(s: VectorSteps, x: VectorValue): VectorValue {
  const { n, power } = reduced(s, between(s, -104, x, 89));
  // Intel's processors take 150 cycles for a result that is too small for a float, as of all that a mask leaves out.
  const none = s.compare("lt", x, s.number(-104));
  return scaled(s, s.select(none, s.number(0), s.plus(power, s.number(1))), n);
}

export function expm1(s: VectorSteps, x: VectorValue): VectorValue {
  const { n, power } = reduced(s, between(s, -30, x, 89));
  // With 2^(n - 1), so that 2^128 does not overflow too early.
  const half = scaled(s, s.number(1), s.minus(n, s.number(1)));
  const result = s.fma(power, half, s.minus(half, s.number(0.5)));
  // Near 0 the power itself, and x itself where even its square is nothing: -0 and denormal numbers stay.
  const tiny = s.compare("lt", magnitude(s, x), s.number(1e-30));
  const near = s.select(s.compare("eq", n, s.number(0)), power, s.plus(result, result));
  return s.select(tiny, x, near);
}

const magnitude = (s: VectorSteps, x: VectorValue): VectorValue => s.butNot(x, s.bits(SIGN));
const withSignOf = (s: VectorSteps, a: VectorValue, x: VectorValue): VectorValue =>
  s.or(a, s.and(x, s.bits(SIGN)));

export function tanh(s: VectorSteps, x: VectorValue): VectorValue {
  const ax = magnitude(s, x);
  const twice = s.plus(ax, ax);
  const { n, power } = reduced(s, s.lesser(s.number(20), twice));
  const scale = power2(s, n);
  const t = s.fma(power, scale, s.minus(scale, s.number(1)));
  const ratio = s.over(t, s.plus(t, s.number(2)));
  return withSignOf(s, s.select(s.compare("lt", ax, s.number(1e-4)), ax, ratio), x);
}

export function sigmoid(s: VectorSteps, x: VectorValue): VectorValue {
  const minus = s.xor(x, s.bits(SIGN));
  return s.over(s.number(1), s.plus(s.number(1), exp(s, minus)));
}

export function log(s: VectorSteps, x: VectorValue): VectorValue {
  const small = s.compare("lt", x, s.number(LEAST_NORMAL));
  const a = s.select(small, s.times(x, s.number(8388608)), x);
  // a = 2^e (1 + m), with 1 + m from 2/3 to 4/3.
  const twoThirds = s.bits(0x3f2aaaab);
  const e = s.pure("shiftRightSigned", [s.pure("subInt", [a, twoThirds])], 23);
  const m = s.minus(s.pure("subInt", [a, s.pure("shiftLeft", [e], 23)]), s.number(1));
  const exponent = s.minus(s.pure("toFloat", [e]), s.and(small, s.number(23)));
  const square = s.times(m, m);
  const even = polynomial(s, square, [-0.130310059, -0.121483512, -0.166846126, -0.249996200]);
  const odd = polynomial(s, square, [0.140869141, 0.139814854, 0.200120345]);
  let r = s.fma(odd, m, even);
  r = s.fma(r, m, s.number(0.333331972));
  r = s.fma(r, m, s.number(-0.5));
  r = s.fma(r, square, m);
  r = s.fma(exponent, s.number(0.693147182), r);
  // x + x: infinity and NaN; 0 and below by themselves.
  const ordinary = s.and(s.compare("gt", x, s.number(0)), s.compare("lt", x, s.number(Infinity)));
  const below = s.select(s.compare("eq", x, s.number(0)), s.number(-Infinity), s.number(NaN));
  const other = s.select(s.compare("le", x, s.number(0)), below, s.plus(x, x));
  return s.select(ordinary, r, other);
}

export function log1p(s: VectorSteps, x: VectorValue): VectorValue {
  const u = s.plus(x, s.number(1));
  const whole = log(s, u);
  // The sum 1 + x has lost this.
  const lost = s.over(s.minus(x, s.minus(u, s.number(1))), u);
  const ordinary = s.and(s.compare("gt", u, s.number(0)), s.compare("lt", u, s.number(Infinity)));
  const tiny = s.compare("lt", magnitude(s, x), s.number(1e-30));
  return s.select(tiny, x, s.select(ordinary, s.plus(whole, lost), whole));
}

export function erf(s: VectorSteps, x: VectorValue): VectorValue {
  const t = s.lesser(s.number(4), magnitude(s, x));
  const square = s.times(t, t);
  const top = polynomial(s, t, [-1.72853470e-5, 3.83197126e-4]);
  const next = polynomial(s, t, [-3.88396438e-3, 2.42546219e-2]);
  let far = s.fma(top, square, next);
  for (const c of [-1.06777877e-1, -6.34846687e-1, -1.28717512e-1]) far = s.fma(far, t, s.number(c));
  far = s.fma(far, t, s.xor(t, s.bits(SIGN)));
  far = s.minus(s.number(1), exp(s, far));
  const close = polynomial(s, square, [
    -5.96761703e-4,
    4.99119423e-3,
    -2.67681349e-2,
    1.12819925e-1,
    -3.76125336e-1,
    1.28379166e-1,
  ]);
  const near = s.fma(close, t, t);
  return withSignOf(s, s.select(s.compare("gt", t, s.number(0.927734375)), far, near), x);
}

/** Sleef's function of a whole vector: u10 is within 1 ulp. */
export function sleef(s: VectorSteps, name: string, ...args: VectorValue[]): VectorValue {
  return s.call(`Sleef_${name}f${s.isa === "avx512" ? 16 : 8}_u10`, ...args);
}
