// CUDA C has these by itself and PTX has not. They are CUDA C here: functions that are one instruction; exp, log, tanh and their like,
// whose polynomials are those of a CPU's machine code (x86/functions.ts); sin, cos and pow in double precision.
import { literal } from "../cuda/prelude.ts";
import * as functions from "../x86/functions.ts";
import { COMPARE, type Step, type StepOp, Steps, type Value } from "../x86/steps.ts";

const LETTERS = { float: "f", double: "d", unsigned: "r", int: "r", "long long": "l" } as const;
type Word = keyof typeof LETTERS;

/** A function of values of one type that is one instruction. */
function instruction(result: Word, name: string, text: string, type: Word, count = 1): string {
  const names = ["a", "b", "c"].slice(0, count);
  const given = names.map((one) => `"${LETTERS[type]}"(${one})`).join(", ");
  return `static __device__ ${result} ${name}(${names.map((one) => `${type} ${one}`).join(", ")}) {
  ${result} y;
  asm("${text} ${["%0", ...names.map((_, i) => `%${i + 1}`)].join(", ")};" : "=${
    LETTERS[result]
  }"(y) : ${given});
  return y;
}
`;
}

const INSTRUCTIONS = [
  instruction("float", "fmaf", "fma.rn.f32", "float", 3),
  instruction("float", "__fdividef", "div.rn.f32", "float", 2),
  instruction("float", "sqrtf", "sqrt.rn.f32", "float"),
  instruction("float", "fabsf", "abs.f32", "float"),
  instruction("float", "floorf", "cvt.rmi.f32.f32", "float"),
  instruction("float", "rintf", "cvt.rni.f32.f32", "float"),
  instruction("double", "fma", "fma.rn.f64", "double", 3),
  instruction("double", "rint", "cvt.rni.f64.f64", "double"),
  instruction("unsigned", "__float_as_uint", "mov.b32", "float"),
  instruction("float", "__uint_as_float", "mov.b32", "unsigned"),
  instruction("float", "__int_as_float", "mov.b32", "int"),
  instruction("int", "__float2int_rn", "cvt.rni.s32.f32", "float"),
  instruction("long long", "__double_as_longlong", "mov.b64", "double"),
  instruction("double", "__longlong_as_double", "mov.b64", "long long"),
];

const four = (name: string, type: string): string =>
  `\
struct ${name} {
  ${type} x, y, z, w;
};
static __device__ ${name} make_${name}(${type} x, ${type} y, ${type} z, ${type} w) { return {x, y, z, w}; }
`;

const OF_WARP = `\
static __device__ void __syncthreads() { asm volatile("bar.sync 0;"); }
static __device__ float __shfl_xor_sync(unsigned lanes, float x, int apart) {
  float y;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, %3;" : "=f"(y) : "f"(x), "r"(apart), "r"(lanes));
  return y;
}
`;

// Polynomials.

type Typed = "float" | "unsigned" | "bool";

const word = new Uint32Array(1), number = new Float32Array(word.buffer);

/** A step of vectors is this for one lane, of numbers or of bits. */
const OF_FLOATS: Partial<Record<StepOp, (...args: string[]) => string>> = {
  add: (a, b) => `${a} + ${b}`,
  sub: (a, b) => `${a} - ${b}`,
  mul: (a, b) => `${a} * ${b}`,
  div: (a, b) => `${a} / ${b}`,
  min: (a, b) => `${a} < ${b} ? ${a} : ${b}`,
  max: (a, b) => `${a} > ${b} ? ${a} : ${b}`,
  round: (a) => `rintf(${a})`,
  fma: (a, b, c) => `fmaf(${a}, ${b}, ${c})`,
  fnma: (a, b, c) => `fmaf(-${a}, ${b}, ${c})`,
};
const OF_BITS: Partial<Record<StepOp, (a: string, b: string, imm?: number) => string>> = {
  and: (a, b) => `${a} & ${b}`,
  andn: (a, b) => `~${a} & ${b}`,
  or: (a, b) => `${a} | ${b}`,
  xor: (a, b) => `${a} ^ ${b}`,
  addInt: (a, b) => `${a} + ${b}`,
  subInt: (a, b) => `${a} - ${b}`,
  shiftLeft: (a, _, imm) => `${a} << ${imm}`,
  shiftRightSigned: (a, _, imm) => `(int)${a} >> ${imm}`,
};
const COMPARED = new Map<number, string>([
  ...[[COMPARE.lt, "<"], [COMPARE.le, "<="], [COMPARE.gt, ">"], [COMPARE.eq, "=="]] as const,
]);

/** The type of a step's value, and the C of it. */
function lineOf(
  { op, args, imm, home }: Step,
  steps: readonly Step[],
  types: readonly Typed[],
): [Typed, string] {
  const as = (type: "float" | "unsigned") => (arg: Value) => {
    const { home } = steps[arg];
    if (home && type === "float") return word[0] = home.disp!, literal(number[0]);
    return types[arg] === type
      ? `v${arg}`
      : `__${type === "float" ? "uint_as_float" : "float_as_uint"}(v${arg})`;
  };
  const floats = args.map(as("float")), bits = args.map(as("unsigned"));
  const truths = args.filter((arg) => types[arg] === "bool");
  if (op === "held") return ["float", "x"];
  if (op === "home") return ["unsigned", `0x${home!.disp!.toString(16)}u`];
  if (op === "compare" && COMPARED.has(imm!)) return ["bool", floats.join(` ${COMPARED.get(imm!)} `)];
  if (op === "select") return ["float", `v${args[0]} ? ${floats[1]} : ${floats[2]}`];
  if (op === "toInt") return ["unsigned", `__float2int_rn(${floats[0]})`];
  if (op === "toFloat") return ["float", `(float)(int)${bits[0]}`];
  if (op === "and" && truths.length === 2) return ["bool", truths.map((arg) => `v${arg}`).join(" && ")];
  if (op === "and" && truths.length === 1) {
    return ["unsigned", `v${truths[0]} ? ${bits[args[0] === truths[0] ? 1 : 0]} : 0u`];
  }
  if (op in OF_FLOATS) return ["float", OF_FLOATS[op]!(...floats)];
  if (op in OF_BITS && truths.length === 0) return ["unsigned", OF_BITS[op]!(bits[0], bits[1], imm)];
  throw new Error(`internal: CUDA C has no ${op} of a vector.`);
}

function asC(name: string, rule: (s: Steps, x: Value) => Value): string {
  const steps = new Steps({ isa: "avx2", repeated: (bits) => ({ base: 0, disp: bits >>> 0 }) });
  const result = rule(steps, steps.add({ op: "held", args: [] })), types: Typed[] = [];
  const lines = steps.list.map((step, i) => {
    const [type, text] = lineOf(step, steps.list, types);
    types.push(type);
    return `  const ${type} v${i} = ${text};\n`;
  });
  const y = types[result] === "float" ? `v${result}` : `__uint_as_float(v${result})`;
  return `static __device__ float ${name}(float x) {\n${lines.join("")}  return ${y};\n}\n`;
}

const POLYNOMIALS = (["exp", "expm1", "log", "log1p", "tanh", "erf"] as const)
  .map((name) => asC(`${name}f`, functions[name]));

/** The series of these coefficients, the last power's first, as nested products. */
const series = (x: string, coefficients: readonly number[]): string =>
  coefficients.map((c) => /[.e]/.test(String(c)) ? String(c) : `${c}.0`)
    .reduce((sum, c) => `fma(${sum}, ${x}, ${c})`);
const factorial = (n: number): number => n < 2 ? 1 : n * factorial(n - 1);
const odd = (count: number): number[] => Array.from({ length: count }, (_, i) => 2 * (count - 1 - i) + 1);

// Seven words of 2 / pi: the angle of a large number needs those that its exponent points to.
const WAVES = `\
static __device__ unsigned two_over_pi(int i) {
  return i == 0 ? 0xa2f9836eu : i == 1 ? 0x4e441529u : i == 2 ? 0xfc2757d1u : i == 3 ? 0xf534ddc0u : i == 4 ? 0xdb629599u :
         i == 5 ? 0x3c439041u : 0xfe5163abu;
}
static __device__ unsigned long long two_over_pi_from(int word, int shift) {
  return ((unsigned long long)two_over_pi(word) << 32 | two_over_pi(word + 1)) << shift >> 32;
}
// x is so many quarters of a turn and the rest.
struct Angle {
  double rest;
  int quarters;
};
static __device__ Angle angle_of(float x) {
  const double quarters = rint((double)x * ${2 / Math.PI});
  Angle a = {fma(-quarters, 6.123233995736766e-17, fma(-quarters, ${Math.PI / 2}, (double)x)), (int)quarters};
  if (fabsf(x) >= 33554432.0f) {
    // x is m 2^(power + 2); whole turns are left out of the product.
    const unsigned bits = __float_as_uint(x);
    const int power = (int)(bits >> 23 & 255u) - 152, word = power >> 5, shift = power & 31;
    const unsigned long long m = bits & 0x7fffffu | 0x800000u;
    const unsigned long long turn = (m * two_over_pi_from(word, shift) << 32) + m * two_over_pi_from(word + 1, shift) +
                                    (m * two_over_pi_from(word + 2, shift) >> 32);
    const unsigned long long quarter = (turn + (1ull << 61)) >> 62;
    const double rest = (double)(long long)(turn - (quarter << 62)) * ${2 * Math.PI / 2 ** 64};
    a = {x < 0.0f ? -rest : rest, x < 0.0f ? -(int)quarter : (int)quarter};
  }
  return a;
}
static __device__ float wave(double x, int quarters) {
  const double s = x * x;
  const double sine = x * ${series("s", odd(6).map((n) => (-1) ** ((n - 1) / 2) / factorial(n)))};
  const double cosine = ${series("s", odd(7).map((n) => (-1) ** ((n - 1) / 2) / factorial(n - 1)))};
  const float size = (float)((quarters & 1) != 0 ? cosine : sine);
  return (quarters & 2) != 0 ? -size : size;
}
// x - x is NaN where x is not finite.
static __device__ float sinf(float x) {
  const Angle a = angle_of(x);
  return fabsf(x) < 1e-4f ? x : wave(a.rest, a.quarters) + (x - x);
}
static __device__ float cosf(float x) {
  const Angle a = angle_of(x);
  return wave(a.rest, a.quarters + 1) + (x - x);
}
`;

const POWER = `\
static __device__ float powf(float a, float b) {
  const double x = (double)fabsf(a);
  // x = m 2^e, m from 2/3 to 4/3.
  const long long e = (__double_as_longlong(x) - 0x3fe5555555555555ll) >> 52;
  const double m = __longlong_as_double(__double_as_longlong(x) - (e << 52));
  const double f = (m - 1.0) / (m + 1.0), s = f * f;
  const double finite = fma(f * ${series("s", odd(9).map((n) => 1 / n))}, ${2 / Math.LN2}, (double)e);
  const float infinity = __int_as_float(0x7f800000);
  const double log = fabsf(a) == infinity ? (double)infinity : a == 0.0f ? -(double)infinity : finite;
  const double t = log == 0.0 ? 0.0 : (double)b * log;
  const double within = t < -200.0 ? -200.0 : t > 200.0 ? 200.0 : t, n = rint(within), g = (within - n) * ${Math.LN2};
  const double power = ${series("g", Array.from({ length: 11 }, (_, i) => 1 / factorial(10 - i)))};
  const float size = (float)(power * __longlong_as_double(((long long)n + 1023ll) << 52));
  const bool whole = floorf(b) == b, odd = whole && fabsf(b) < 16777216.0f && floorf(b * 0.5f) * 2.0f != b;
  const float y = (__float_as_uint(a) >> 31) != 0u && odd ? -size : size;
  const bool none = a != a || b != b || a < 0.0f && a > -infinity && !whole;
  return a == 1.0f || b == 0.0f ? 1.0f : none ? __int_as_float(0x7fffffff) : y;
}
`;

/** It stands before prelude.ts's. */
export const FUNCTIONS = [
  ...INSTRUCTIONS,
  ...[four("float4", "float"), four("ushort4", "unsigned short"), four("uint4", "unsigned"), OF_WARP],
  ...[...POLYNOMIALS, WAVES, POWER],
].join("");
