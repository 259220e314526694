import { assertEquals } from "@std/assert";
import type { GemmKernel, GroupKernel, Kernel, StridedAccess } from "../../../../core/compile/kernel.ts";
import { inBatches } from "../../../../core/compile/batches.ts";
import { splitKernel } from "../../../../core/compile/x86/split.ts";
import { printCode } from "../../../../core/compile/x86/print.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { type Data, ISAS, runKernels, strided } from "./harness.ts";

useLibtorch();

const numbers = (count: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(i * 0.37) + (i % 101) / 50);

function product(m: number, n: number, k: number, a: number[], b: number[], c: number[]): GemmKernel {
  const bias: StridedAccess = strided(3, [0, 1]);
  return {
    ...{ kernel: "gemm", name: "product", m, n, k, add: false },
    ...{ a: strided(0, a), b: strided(1, b), c: strided(2, c) },
    epilogue: {
      instructions: [
        { op: "load", from: strided(-1, c) },
        { op: "load", from: bias },
        { op: "add", args: [0, 1] },
        { op: "tanh", args: [2] },
      ],
      stores: [{ value: 3, to: strided(4, [n, 1]) }],
      reductions: [],
    },
  };
}

function softmax(rows: number, columns: number): GroupKernel {
  const x = { op: "load" as const, from: strided(0, [columns, 1]) };
  const greatest = { op: "amax" as const, over: "row" as const, value: 0, to: null };
  return {
    ...{ kernel: "group", name: "softmax", sizes: [rows, columns] },
    stages: [
      { instructions: [x], stores: [], reductions: [greatest] },
      {
        instructions: [
          x,
          { op: "reduced", reduction: 0 },
          { op: "sub", args: [0, 1] },
          { op: "exp", args: [2] },
        ],
        stores: [{ value: 3, to: strided(1, [columns, 1]) }],
        reductions: [{ op: "sum", over: "row", value: 3, to: strided(2, [1, 0]) }],
      },
    ],
  };
}

/** Sums over columns, or a loop without a reduction. */
function pointwise(sizes: readonly number[], sums: boolean): GroupKernel {
  const strides = sizes.length === 1 ? [1] : [sizes[1], 1];
  return {
    ...{ kernel: "group", name: "pointwise", sizes },
    stages: [{
      instructions: [
        { op: "load", from: strided(0, strides) },
        { op: "exp", args: [0] },
        { op: "mul", args: [0, 1] },
      ],
      stores: [{ value: 2, to: strided(1, strides) }],
      reductions: sums ? [{ op: "sum", over: "column", value: 2, to: strided(2, [0, 1]) }] : [],
    }],
  };
}

const CASES: readonly (readonly [string, Kernel, readonly number[]])[] = [
  ["rows of a product", product(930, 70, 65, [65, 1], [1, 65], [70, 1]), [930 * 65, 65 * 70, 930 * 70, 70]],
  ["its columns", product(60, 1100, 65, [1, 60], [1100, 1], [1100, 1]), [
    60 * 65,
    65 * 1100,
    60 * 1100,
    1100,
  ]],
  ["a product that is stored turned", product(90, 750, 65, [65, 1], [1, 65], [1, 90]), [
    ...[90 * 65, 65 * 750, 90 * 750, 750],
  ]],
  ["rows that are reduced", softmax(831, 510), [831 * 510, 831 * 510, 831]],
  ["columns that are summed", pointwise([2200, 333], true), [732_600, 732_600, 333]],
  ["one long row", pointwise([710_011], false), [710_011, 710_011]],
];

Deno.test("kernels that are divided among threads store the bits of one thread, for any number of threads", () => {
  for (const isa of ISAS) {
    for (const [name, kernel, sizes] of CASES) {
      const stored = kernel.kernel === "gemm" ? [kernel.m * kernel.n] : [];
      const slots: Data[] = [...sizes, ...stored].map(numbers);
      assertEquals(splitKernel(kernel, 2).length, 2, name);
      const alone = runKernels([kernel], isa, slots);
      for (const threads of [2, 5]) {
        const together = runKernels([kernel, kernel], isa, slots, threads === 5, threads);
        // A product with an epilogue may leave in C what it likes.
        const wrong = alone.findIndex((data, i) =>
          !(stored.length > 0 && i === 2) && !data.every((value, at) => value === together[i][at])
        );
        assertEquals(wrong, -1, `${name}: slot ${wrong} with ${threads} threads, ${isa}`);
      }
    }
  }
});

/** Heads of each sample, in rows that are shared: softmax(q k') of an attention. */
function heads(samples: number, count: number, tokens: number, size: number): GemmKernel[] {
  const row = count * size;
  return Array.from({ length: samples * count }, (_, i) => {
    const begin = Math.floor(i / count) * tokens * row + i % count * size;
    return {
      ...{ kernel: "gemm", name: "heads", m: tokens, n: tokens, k: size, add: false, epilogue: null },
      ...{
        a: strided(0, [row, 1], begin),
        b: strided(1, [1, row], begin),
        c: strided(2, [tokens, 1], i * tokens * tokens),
      },
    };
  });
}

Deno.test("products of heads and samples are one loop, which threads share, with the bits of each alone", () => {
  const [samples, count, tokens, size] = [5, 4, 80, 33];
  const products = heads(samples, count, tokens, size), inputs = samples * tokens * count * size;
  const slots = [
    numbers(inputs),
    numbers(inputs).reverse(),
    new Float32Array(products.length * tokens * tokens),
  ];
  const joined = inBatches(products);
  assertEquals(joined.map((one) => one.kernel === "batch" && one.repeats.map((repeat) => repeat.count)), [[
    5,
    4,
  ]]);
  // What interrupts the steps ends the loop.
  const uneven = [...products.slice(0, 3), products[9], products[10], ...products.slice(3, 4)];
  assertEquals(
    inBatches(uneven).map((one) => one.kernel === "batch" ? one.repeats.map((repeat) => repeat.count) : 1),
    [[3], [2], 1],
  );
  // Backwards there is a loop only where strides may be negative, which libtorch's may not.
  const back = products.toReversed();
  assertEquals(inBatches(back).length, 1);
  assertEquals(inBatches(back, { backwards: false }), back);
  for (const isa of ISAS) {
    let apart: Data[] = slots;
    for (const product of products) apart = runKernels([product], isa, apart);
    for (const threads of [1, 2]) {
      const together = runKernels(products, isa, slots, threads === 1, threads);
      assertEquals(apart[2].every((value, i) => value === together[2][i]), true);
    }
  }
  const [, ...others] = splitKernel(joined[0], 2);
  assertEquals(others.length, 1);
});

Deno.test("no part of a product is a single column, whose sums have another order", () => {
  const parts = splitKernel(product(611, 257, 74, [74, 1], [1, 74], [257, 1]), 3);
  assertEquals(parts.map((part) => part.kernel === "gemm" && part.n), [128, 129]);
});

Deno.test("small kernels, and sums of everything, stay on one thread", () => {
  assertEquals(splitKernel(pointwise([4, 100], true), 2).length, 1);
  assertEquals(splitKernel(softmax(2, 100), 8).length, 1);
  const whole = pointwise([900_000], false), [stage] = whole.stages;
  const total = { op: "sum" as const, over: "all" as const, value: 2, to: strided(2, [0]) };
  assertEquals(splitKernel({ ...whole, stages: [{ ...stage, reductions: [total] }] }, 2).length, 1);
  assertEquals(printCode([pointwise([4, 100], true)], "avx2", 3, 8).symbols.length, 0);
});
