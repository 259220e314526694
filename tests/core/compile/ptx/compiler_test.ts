import { assertEquals, assertThrows } from "@std/assert";
import { ptxOf } from "../../../../core/compile/ptx/compiler.ts";
import { NoPtx, orNoKernels } from "../../../../core/compile/ptx/no_ptx.ts";
import { PRELUDE } from "../../../../core/compile/cuda/prelude.ts";
import { guarded } from "../x86/harness.ts";
import { draws } from "../x86/torch_ops.ts";
import { compiled, type Language, launched, whyNoHost } from "../cuda/harness.ts";

/** Each gives a number for a and b of a place, which are whole or not. */
const WHOLE: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    [1, 2, 3, 5, 7, 8, 10, 12, 641, 1000, 12345, 65537, 2 ** 30, 2 ** 30 + 1, 2 ** 31 - 1].flatMap((by) => [
      [`quotient${by}`, `a / ${by}`],
      [`remainder${by}`, `a % ${by}`],
      [`unsigned${by}`, `(int)((unsigned)a / ${by}u * 3u + (unsigned)b % ${by}u)`],
      [`long${by}`, `(int)((long long)a * b / ${by} + (unsigned long long)a % ${by}ull)`],
    ]),
  ),
  powers: "a / 8 + b % 16 - a / 1 + b % 2",
  quotients: "b == 0 || b == -1 ? 7 : a / b + a % b",
  words: "(int)((unsigned)a / 7u + ((unsigned)b >> 3) % 10u)",
  longs: "(int)(((long long)a * b + 12345678901ll) / 1000003ll ^ (long long)b << 20 >> 7)",
  hashes: "(int)((unsigned long long)a * 0x9e3779b97f4a7c15ull >> 33)",
  mixed: "(int)(a + (unsigned)b < 5u) + (int)(a < -3) + (a > b ? 1 : -1)",
  bits: "(a & b | a ^ ~b) - (a << 3) + (b >> 5)",
  precedence: "a + b * 3 - a % 4 << 1 & 0xff | b",
  truths: "(int)(a > 0 && b > 0 || !(a < b)) * 4 + (a > b ? b > 3 : a < 3)",
  guards: "a > 0 && p[a & 63] > 3 ? p[b & 63] : a < -5 || p[3] > 0 ? 4 : p[7]",
  calls: "twice(a) + added<More>(a, b) - added<Less>(b, twice(a))",
  constants: "kept(a) - kept(b)",
  pairs: "swapped(a, b).x - swapped(b, 2 * a).y * 3",
  loops: "powered(a, 5) + powered(b, 40) + first(a & 15)",
  arrays: "spread(a, b)",
  small: "(int)(unsigned short)a + (int)(unsigned char)b",
};
const REAL: Readonly<Record<string, string>> = {
  sums: "x * y + x / y - (x - y) * 2.5f",
  comparisons: "(x < y ? 1.0f : x != x ? -y : 0.0f) + (float)(x >= y) + (float)(x != y)",
  conversions:
    "x != x || y != y ? 0.0f : (float)(int)(x * 100.0f) + (float)(unsigned)(y * y) + (float)(long long)(x * 1e10f) + (float)(x > 0.0f)",
  doubles: "(float)((double)x * y + 0.1) + (float)(1.0 / (double)y)",
  functions: "fmaf(x, y, -x) + sqrtf(fabsf(x)) + floorf(y) + to_bf16(x) + of_f16(as_f16(y)) + greater(x, y)",
};
const TEXT = `${PRELUDE}
struct More { static __device__ int join(int a, int b) { return a + b; } };
struct Less { static __device__ int join(int a, int b) { return a - b; } };
struct Pair { int x, y; };
static __device__ int twice(int x) { x += x; return x; }
template <class Op> static __device__ int added(int a, int b) { return Op::join(a, twice(b)); }
static __device__ int kept(int a) {
  int changes = a;
  changes += twice(a);
  const int before = changes;
  changes *= 3;
  return before - changes % 17;
}
static __device__ Pair swapped(int a, int b) {
  Pair c = {a, b};
  c = {c.y, c.x};
  return c;
}
static __device__ int powered(int a, int times) {
  int y = 1;
  for (int i = 0; i < times; i++) y = y * a + i;
  for (int i = 0; i < 3; i++) y ^= y >> i;
  for (int i = 5; i < 2; i++) y = 0;
  return y;
}
static __device__ int spread(int a, int b) {
  int each[4], sum = 0;
#pragma unroll
  for (int k = 0; k < 4; k++) each[k] = a * k;
  for (int i = b & 7; i > 0; i--) {
#pragma unroll
    for (int k = 0; k < 4; k++) each[k] = each[3 - k] + k * b;
  }
#pragma unroll
  for (int k = 0; k < 4; k++) sum = sum * 5 + each[k];
  return sum;
}
static __device__ int first(int from) {
  int y = 0;
  for (int i = from; i > 2; i >>= 1) {
    if (i == 3) y += 100;
    else if (i > 9) { y -= i; y *= 3; } else y++;
  }
  return y;
}
`;
const COUNT = 512, THREADS = 64;

function textOf(): string {
  const kernel = (name: string, type: string, expression: string, names: string) =>
    `extern "C" __global__ void __launch_bounds__(${THREADS}, 1) ${name}(const ${type} *p, const ${type} *q, ${type} *out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < ${COUNT}; i += gridDim.x * blockDim.x) {
    const ${type} ${names[0]} = p[i], ${names[1]} = q[i];
    out[i] = ${expression};
  }
}
`;
  return [
    TEXT,
    ...Object.entries(WHOLE).map(([name, expression]) => kernel(name, "int", expression, "ab")),
    ...Object.entries(REAL).map(([name, expression]) => kernel(name, "float", expression, "xy")),
  ].join("\n");
}

Deno.test({
  name: `a text means as PTX what it means as CUDA C, to the bit${
    whyNoHost === null ? "" : ` (skipped: ${whyNoHost})`
  }`,
  ignore: whyNoHost !== null,
  sanitizeResources: false, // the libraries stay open
  fn() {
    const random = draws(5), names = [...Object.keys(WHOLE), ...Object.keys(REAL)], text = textOf();
    const edges = [0, 1, -1, 2, -2, 7, -7, 2 ** 31 - 1, -(2 ** 31), 2 ** 30, 641, -641];
    const whole = (k: number) =>
      Int32Array.from(
        { length: COUNT },
        (_, i) =>
          i < 144 ? edges[k === 0 ? i % 12 : Math.floor(i / 12)] : (random() - 0.5) * 2 ** (random() * 32),
      );
    const real = (k: number) =>
      Float32Array.from(
        { length: COUNT },
        (_, i) => i % 50 === k ? NaN : (random() - 0.5) * 2 ** (random() * 8),
      );
    const given = { int: [whole(0), whole(1)], float: [real(3), real(7)] };
    const results = (["CUDA C", "PTX"] as Language[]).map((language) => {
      const functions = compiled(text, names, language);
      return Object.fromEntries(names.map((name) => {
        const columns = given[name in WHOLE ? "int" : "float"];
        const places = [...columns, new Int32Array(COUNT)].map((data, i) =>
          guarded(i, data as Float32Array<ArrayBuffer>, true)
        );
        launched(functions[name], places.map(({ address }) => address), 3, THREADS);
        return [name, new Int32Array(places[2].bytes.slice().buffer)];
      }));
    });
    for (const name of names) {
      const [c, ptx] = results.map((one) => one[name]), [a, b] = given[name in WHOLE ? "int" : "float"];
      // NaN is one number, whatever its bits are.
      const nan = (bits: number) => name in REAL && (bits & 0x7fffffff) > 0x7f800000;
      const wrong = [...c.keys()].filter((i) => c[i] !== ptx[i] && !(nan(c[i]) && nan(ptx[i])));
      assertEquals(wrong.slice(0, 3).map((i) => [a[i], b[i], c[i], ptx[i]]), [], name);
    }
  },
});

Deno.test("what a text has that PTX's compiler does not know is refused with the place", () => {
  const kernel = (body: string) =>
    `extern "C" __global__ void __launch_bounds__(32, 1) k(float *p) {\n  ${body}\n}\n`;
  for (
    const body of [
      "while (p[0] > 0.0f) p[0] = 0.0f;",
      "for (int i = 8; i > 0; i /= 2, p[0]++) p[i] = 0.0f;",
      "p[0] = unheard(1.0f);",
      "float4 *q = p; q[0] += 1;",
      "p[0] = 1.0f",
      "float4 q = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f};",
      "for (int i = 0",
      "#line 3",
    ]
  ) {
    assertThrows(() => ptxOf(kernel(body)), NoPtx, "this program has no PTX for ");
  }
  assertEquals(orNoKernels(() => ptxOf(kernel("p[0] = unheard(1.0f);"))), {
    refused: "compiler",
    why: 'this program has no PTX for "[ 0 ] = unheard ( 1.0f ) ; }"',
  });
});
