import { assertEquals } from "@std/assert";
import { POINTWISE, type Pointwise } from "../../../../core/compile/graph.ts";
import {
  type GroupKernel,
  type Instruction,
  VECTOR_FUNCTIONS,
  type VectorKernel,
} from "../../../../core/compile/kernel.ts";
import { isaOf } from "../../../../core/compile/x86/isa.ts";
import { readBytes, tensor, toNumbers } from "../../../../ffi/make.ts";
import { toCopy } from "../../../../ffi/ops.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { ISAS, runKernels, walk } from "./harness.ts";
import { draws, SPECIAL, TORCH, ulpOf, ULPS } from "./torch_ops.ts";

useLibtorch();

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
    const y = x.map(() => (random() - 0.5) * 8);
    const differing = (["expm1", "log1p", "sigmoid", "rsqrt", "pow"] as const).filter((op) =>
      scope(() => {
        const columns = [x, y].slice(0, POINTWISE[op]);
        const group = groupOf(op, columns.length, x.length, true);
        const mine = runKernels([group], isa, [...columns, new Float32Array(x.length)]).at(
          -1,
        ) as Float32Array;
        const theirs = new Float32Array(
          readBytes(TORCH[op](...columns.map((column) => tensor(column)))).buffer,
        );
        return mine.some((value, i) => value !== theirs[i] && !Number.isNaN(theirs[i]));
      })
    );
    assertEquals(differing, []);
  });
}

Deno.test("functions of many numbers have libtorch's bits, at any count and with special numbers", () => {
  const random = draws(11), differing: string[] = [];
  for (const elements of [1, 3, 8, 17, 100, 4099]) {
    const x = Float32Array.from({ length: elements }, () => (random() - 0.4) * 10 ** (random() * 6 - 3));
    SPECIAL.slice(0, elements - 1).forEach((value, i) => x[i] = value);
    for (const name of VECTOR_FUNCTIONS) {
      const kernel: VectorKernel = {
        ...{ kernel: "vector", name, function: name, elements },
        ...{ from: { slot: 0, offset: 2 }, to: { slot: 1, offset: 0 } },
      };
      const before = new Float32Array(elements + 2);
      before.set(x, 2);
      const [, mine] = runKernels([kernel], ISAS[0], [before, new Float32Array(elements)]) as Float32Array[];
      const theirs = scope(() => new Float32Array(readBytes(TORCH[name](tensor(x))).buffer));
      if (mine.some((value, i) => value !== theirs[i] && !(Number.isNaN(value) && Number.isNaN(theirs[i])))) {
        differing.push(`${name} of ${elements}`);
      }
    }
  }
  assertEquals(differing, []);
});

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
