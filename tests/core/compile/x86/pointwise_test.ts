import { assertEquals } from "@std/assert";
import { POINTWISE, type Pointwise } from "../../../../core/compile/graph.ts";
import type { GroupKernel, Instruction } from "../../../../core/compile/kernel.ts";
import { isaOf } from "../../../../core/compile/x86/isa.ts";
import { aten } from "../../../../ffi/aten.ts";
import { add, readBytes, sub, tensor, toNumbers } from "../../../../ffi/make.ts";
import { toCopy } from "../../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { ISAS, runKernels, walk } from "./harness.ts";

useLibtorch();

type Op = (...args: Tensor[]) => Tensor;

/** libtorch's op of each of ours; those with a number have an argument more. */
const TORCH: Record<Exclude<Pointwise, "float">, Op> = {
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
  add: (a, b) => add(a, b),
  sub: (a, b) => sub(a, b),
  mul: aten("mul.Tensor(Tensor self, Tensor other) -> Tensor"),
  div: aten("div.Tensor(Tensor self, Tensor other) -> Tensor"),
  pow: aten("pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"),
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
const ULPS: Partial<Record<Pointwise, number>> = {
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
const SPECIAL = [
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
function draws(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13, state ^= state >>> 17, state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** Columns of arguments: all pairs of special numbers, and numbers of many sizes. */
function argumentsOf(count: number): Float32Array[] {
  const random = draws(count), rows: number[][] = [];
  for (const a of SPECIAL) {
    if (count === 1) rows.push([a]);
    else for (const b of SPECIAL) rows.push(count === 2 ? [a, b] : [Math.sign(a) || 0, b, a]);
  }
  for (let i = 0; i < 4001; i++) {
    rows.push(Array.from({ length: count }, () => (random() - 0.5) * 10 ** (random() * 8 - 5)));
  }
  return Array.from({ length: count }, (_, k) => Float32Array.from(rows, (row) => row[k]));
}

function groupOf(op: string, count: number, elements: number, exact = false): GroupKernel {
  const loads = Array.from({ length: count }, (_, k): Instruction => ({ op: "load", from: walk(k, [1]) }));
  const made: Instruction = { op, args: loads.map((_, k) => k) };
  const stores = [{ value: count, to: walk(count, [1]) }];
  const stage = { instructions: [...loads, made], stores, reductions: [] };
  return { kernel: "group", name: op, sizes: [elements], stages: [stage], exact };
}

const word = new Int32Array(1), asFloat = new Float32Array(word.buffer);
function ulpOf(value: number): number {
  asFloat[0] = Math.abs(value);
  if (!Number.isFinite(asFloat[0])) return 2 ** 104;
  const here = asFloat[0];
  word[0]++;
  return Number.isFinite(asFloat[0]) ? asFloat[0] - here : 2 ** 104;
}

for (const isa of ISAS) {
  Deno.test(`each op of ${isa} is libtorch's, or nearer to the true value than its bound, with NaN and infinities`, () => {
    const found: string[] = [];
    for (const [op, count] of Object.entries(POINTWISE) as [Pointwise, number][]) {
      if (op === "float") continue;
      scope(() => {
        const columns = argumentsOf(count), elements = columns[0].length;
        const mine = runKernels([groupOf(op, count, elements)], isa, [...columns, new Float32Array(elements)])
          .at(-1) as Float32Array;
        const theirs = toNumbers(TORCH[op](...columns.map((column) => tensor(column))));
        const truths = toNumbers(TORCH[op](...columns.map((column) => toCopy(tensor(column), "f64"))));
        const bound = ULPS[op];
        for (let i = 0; i < elements; i++) {
          const at = () =>
            `${op}(${columns.map((column) => column[i])}) = ${mine[i]}, not ${theirs[i]}, ${truths[i]}`;
          if (mine[i] === theirs[i] || Number.isNaN(mine[i]) && Number.isNaN(theirs[i])) continue;
          const error = Math.abs(mine[i] - truths[i]) / ulpOf(truths[i]);
          if (bound === undefined || !(error <= bound)) found.push(`${at()}: ${error.toFixed(2)} ulp`);
        }
      });
    }
    assertEquals(found.slice(0, 20), []);
  });

  Deno.test(`whole numbers and truth values are read by ${isa}, side by side and apart`, () => {
    const n = 53;
    const labels = BigInt64Array.from({ length: 3 * n }, (_, i) => BigInt(i % 5 - 2) * 100_003n);
    const truths = Uint8Array.from({ length: 3 * n }, (_, i) => i % 3 === 0 ? 1 : 0);
    for (const stride of [0, 1, 3]) {
      const stage = {
        instructions: [
          { op: "load" as const, from: walk(0, [stride], 0, "i64") },
          { op: "load" as const, from: walk(1, [stride], 0, "bool") },
          { op: "number" as const, value: -200_006 },
          { op: "eq", args: [0, 2] },
          { op: "or", args: [1, 3] },
          { op: "where", args: [4, 0, 1] },
          { op: "float", args: [5] },
        ],
        stores: [{ value: 6, to: walk(2, [1]) }],
        reductions: [],
      };
      const group: GroupKernel = { kernel: "group", name: "labels", sizes: [n], stages: [stage] };
      const used = stride * (n - 1) + 1;
      const [, , out] = runKernels([group], isa, [
        labels.slice(0, used),
        truths.slice(0, used),
        new Float32Array(n),
      ]);
      const wanted = Float32Array.from({ length: n }, (_, i) => {
        const label = Number(labels[i * stride]), truth = truths[i * stride];
        return truth || label === -200_006 ? label : truth;
      });
      assertEquals(out, wanted);
    }
  });

  Deno.test(`exact functions of ${isa} have libtorch's bits`, () => {
    const random = draws(7),
      x = Float32Array.from({ length: 4099 }, () => (random() - 0.5) * 10 ** (random() * 4 - 2));
    const differing = (["expm1", "log1p", "sigmoid", "rsqrt"] as const).filter((op) =>
      scope(() => {
        const mine = runKernels([groupOf(op, 1, x.length, true)], isa, [x, new Float32Array(x.length)])[1];
        const theirs = new Float32Array(readBytes(TORCH[op](tensor(x))).buffer);
        return mine.some((value, i) => value !== theirs[i] && !Number.isNaN(theirs[i]));
      })
    );
    assertEquals(differing, []);
  });
}

Deno.test("the instruction set is the widest whose flags are all there, and ATEN_CPU_CAPABILITY narrows it", () => {
  const all = new Set(["avx2", "fma", "avx512f", "avx512dq", "avx512vl"]);
  const without = (flag: string) => new Set([...all].filter((one) => one !== flag));
  assertEquals(isaOf(all, undefined), "avx512");
  assertEquals(isaOf(all, "avx2"), "avx2");
  assertEquals(isaOf(all, "default"), null);
  assertEquals(isaOf(without("avx512dq"), undefined), "avx2");
  assertEquals(isaOf(without("fma"), undefined), null);
  assertEquals(isaOf(new Set(), undefined), null);
});
