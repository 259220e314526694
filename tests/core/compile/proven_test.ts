// Exact plans use products of our own where they have sgemm_'s bits: sums over k in chains, and what is tried at the start.
import { assertEquals } from "@std/assert";
import { blasOf } from "../../../core/compile/products.ts";
import type { GemmKernel, Kernel } from "../../../core/compile/kernel.ts";
import { chainOn } from "../../../core/compile/proven.ts";
import { convolutionSumsOn } from "../../../core/compile/proven_convolutions.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { setThreads } from "../../../ffi/context.ts";
import { useLibtorch } from "../../libtorch.ts";
import { ISAS, runKernels, strided } from "./x86/harness.ts";

useLibtorch();
setThreads(1);

const numbers = (count: number, seed: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(seed + i * i % 1009 * 0.37));

interface Operands {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly turnedA?: boolean;
  readonly turnedB?: boolean;
  readonly add: boolean;
}

function product({ m, n, k, turnedA, turnedB, add }: Operands): GemmKernel {
  return {
    ...{ kernel: "gemm", name: "product", m, n, k, add, epilogue: null },
    a: strided(0, turnedA ? [1, m] : [k, 1]),
    b: strided(1, turnedB ? [1, k] : [n, 1]),
    c: strided(2, [n, 1]),
  };
}

const BIAS = 0.3;

/** As the kernel's words say it: chains from 0 on, one after the other. */
function chained(
  { m, n, k, add }: Operands,
  chain: number,
  a: Float32Array,
  b: Float32Array,
  c: Float32Array,
) {
  return Float32Array.from({ length: m * n }, (_, at) => {
    const i = Math.floor(at / n), j = at % n;
    let total = add ? c[at] : 0;
    for (let from = 0; from < k; from += chain) {
      let sum = 0;
      for (let p = from; p < Math.min(k, from + chain); p++) {
        sum = Math.fround(sum + a[i * k + p] * b[p * n + j]);
      }
      total = add || from > 0 ? Math.fround(total + sum) : sum;
    }
    return Math.fround(total + Math.fround(BIAS));
  });
}

for (const isa of ISAS) {
  Deno.test(`products of ${isa} add up their chains in order, behind what is there`, () => {
    for (const [m, n, k] of [[1, 17, 5], [7, 33, 12], [13, 70, 29], [26, 96, 8]]) {
      for (const chain of [3, 4, 8, k]) {
        for (const add of [false, true]) {
          const of = { m, n, k, add }, a = numbers(m * k, 1), b = numbers(k * n, 2), c = numbers(m * n, 3);
          const kernel: GemmKernel = {
            ...product(of),
            chain,
            epilogue: {
              instructions: [
                { op: "load", from: strided(-1, [0, 0]) },
                { op: "number", value: BIAS },
                { op: "add", args: [0, 1] },
              ],
              stores: [{ value: 2, to: strided(3, [n, 1]) }],
              reductions: [],
            },
          };
          const made = runKernels([kernel], isa, [a, b, c, new Float32Array(m * n)])[3];
          assertEquals(made, chained(of, chain, a, b, c), `${m} x ${n} x ${k}, ${chain}, ${add}`);
        }
      }
    }
  });
}

const isa = machineIsa();

Deno.test({
  name: "a product that was tried once has sgemm_'s bits for other numbers, too",
  ignore: isa === null,
  fn() {
    const chainOf = chainOn(isa!, 1);
    for (const [m, n] of [[32, 128], [33, 65], [1, 40], [40, 1], [128, 7], [12, 24]]) {
      for (const k of [1, 7, 64, 193, 300, 385]) {
        for (const [turnedA, turnedB] of [[false, false], [false, true], [true, false]]) {
          for (const add of [false, true]) {
            const ours = product({ m, n, k, turnedA, turnedB, add });
            const wanted = { m, n, k, a: ours.a, b: ours.b, slot: 2, beta: add ? 1 : 0 } as const;
            const theirs = blasOf(wanted, { a: turnedA, b: turnedB });
            const chain = chainOf(theirs, ours);
            if (chain === null) continue;
            const slots = [numbers(m * k, 11), numbers(k * n, 12), numbers(m * n, 13)];
            const run = (kernel: Kernel) => runKernels([kernel], isa!, slots)[2];
            assertEquals(
              run({ ...ours, chain }),
              run(theirs),
              `${m} x ${n} x ${k}, ${turnedA} ${turnedB} ${add}`,
            );
          }
        }
      }
    }
  },
});

Deno.test({
  name: "oneDNN's order of small convolutions' sums is known where it has AVX-512",
  ignore: machineIsa() !== "avx512",
  sanitizeResources: false, // libraries that code opens stay open
  fn() {
    const sumsOf = convolutionSumsOn("avx512", 1);
    const of = (side: number, kernel: number, stride: number) => {
      const padding = kernel === 1 ? [0, 0] : [1, 1];
      return sumsOf({
        input: [8, 32, side, side],
        kernel: [48, 32, kernel, kernel],
        stride: [stride, stride],
        padding,
      });
    };
    assertEquals(of(1, 3, 1), {
      result: { block: 16, chain: 16 },
      inputGradient: { chain: 16 },
      kernelGradient: { chain: 8 },
    });
    const skipping = of(2, 3, 2); // oneDNN takes the input's gradient by another kernel there
    assertEquals([skipping.result, skipping.kernelGradient], [{ block: 16, chain: 64 }, { chain: 8 }]);
    const large = { input: [8, 512, 7, 7], kernel: [4096, 512, 7, 7], stride: [1, 1], padding: [0, 0] };
    assertEquals(sumsOf(large), { result: null, inputGradient: null, kernelGradient: null }); // and no memory for it
    assertEquals(of(2, 3, 1), { result: null, inputGradient: null, kernelGradient: { chain: 32 } });
  },
});
