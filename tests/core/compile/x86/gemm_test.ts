import { assertEquals } from "@std/assert";
import type { Isa } from "../../../../ffi/machine.ts";
import type { BlasKernel, GemmKernel, StridedAccess } from "../../../../core/compile/kernel.ts";
import { byBlas, prefersOwnGemm } from "../../../../core/compile/x86/gemm.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { fuzzProduct } from "./fuzz.ts";
import { ISAS, runKernels, strided } from "./harness.ts";

useLibtorch();

const numbers = (count: number, seed: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(seed + i * i % 1009 * 0.37));

interface Layout {
  readonly a: "rows" | "columns" | "apart";
  readonly b: "rows" | "columns" | "apart";
  readonly c: "rows" | "columns";
}

/** Strides of a matrix; `apart`: neither its rows nor its columns lie side by side. */
function strides(how: string, rows: number, columns: number): [number, number] {
  if (how === "rows") return [columns, 1];
  if (how === "columns") return [1, rows];
  return [2 * columns + 1, 2];
}
const sizeOf = ([row, column]: readonly number[], rows: number, columns: number): number =>
  (rows - 1) * row + (columns - 1) * column + 1;

function worst(
  isa: Isa,
  m: number,
  n: number,
  k: number,
  layout: Layout,
  add: boolean,
  atEnd: boolean,
): number {
  const sa = strides(layout.a, m, k), sb = strides(layout.b, k, n), sc = strides(layout.c, m, n);
  const a = numbers(sizeOf(sa, m, k), 1), b = numbers(sizeOf(sb, k, n), 2), before = numbers(m * n, 3);
  const out = new Float32Array(m * n);
  const kernel: GemmKernel = {
    kernel: "gemm",
    name: "product",
    m,
    n,
    k,
    a: strided(0, sa),
    b: strided(1, sb),
    c: strided(2, sc),
    add,
    epilogue: {
      instructions: [
        { op: "load", from: strided(-1, [0, 0]) },
        { op: "load", from: strided(3, [0, 1]) },
        { op: "add", args: [0, 1] },
      ],
      stores: [{ value: 2, to: strided(4, [n, 1]) }],
      reductions: [],
    },
  };
  const bias = numbers(n, 4);
  const result = runKernels([kernel], isa, [a, b, before, bias, out], atEnd)[4] as Float32Array;
  let error = 0;
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      let sum = bias[j] + (add ? before[i * sc[0] + j * sc[1]] : 0);
      for (let p = 0; p < k; p++) sum += a[i * sa[0] + p * sa[1]] * b[p * sb[0] + j * sb[1]];
      error = Math.max(error, Math.abs(sum - result[i * n + j]));
    }
  }
  return error;
}

const SHAPES = [
  ...[[1, 1, 1], [1, 40, 9], [40, 1, 9], [6, 64, 4], [7, 65, 5], [13, 17, 33], [48, 96, 20], [50, 130, 70]],
  ...[[14, 70, 256], [14, 70, 257], [5, 33, 650]], // sums in parts
];

for (const isa of ISAS) {
  Deno.test(`products of ${isa} are right for odd shapes and any strides, and read nothing beside their matrices`, () => {
    const wrong: string[] = [];
    let atEnd = false;
    for (const [m, n, k] of SHAPES) {
      for (const a of ["rows", "columns", "apart"] as const) {
        for (const b of ["rows", "columns", "apart"] as const) {
          for (const c of ["rows", "columns"] as const) {
            const error = worst(isa, m, n, k, { a, b, c }, a === "columns", atEnd = !atEnd);
            if (!(error < Math.max(2e-5, k * 5e-7))) {
              wrong.push(`${m} x ${n} x ${k} of ${a}, ${b} to ${c}: ${error}`);
            }
          }
        }
      }
    }
    assertEquals(wrong, []);
  });

  Deno.test(`deep and wide products of ${isa} go in panels`, () => {
    const rows = { a: "rows", b: "rows", c: "rows" } as const;
    assertEquals(worst(isa, 30, 150, 9000, rows, false, true) < 3e-3, true);
    assertEquals(worst(isa, 26, 600, 130, { ...rows, b: "columns" }, true, true) < 1e-4, true);
    assertEquals(worst(isa, 26, 600, 130, rows, false, true) < 1e-4, true);
  });
}

for (const isa of ISAS) {
  Deno.test(`60 random products of ${isa} with an epilogue are those without one, and right`, () => {
    const wrong = Array.from({ length: 60 }, (_, seed) => fuzzProduct(seed, isa)).filter((one) =>
      one !== null
    );
    assertEquals(wrong, []);
  });
}

Deno.test("a product by libtorch is ours, with its epilogue, whichever way its matrices are turned", () => {
  const [m, n, k] = [9, 20, 31];
  const bias: StridedAccess = strided(3, [0, 1]);
  for (const a of [[k, 1], [1, m]]) {
    for (const b of [[n, 1], [1, k]]) {
      const own: GemmKernel = {
        ...{ kernel: "gemm", name: "product", m, n, k, add: true },
        ...{ a: strided(0, a), b: strided(1, b), c: strided(2, [n, 1]) },
        epilogue: {
          instructions: [{ op: "load", from: strided(-1, [n, 1]) }, { op: "load", from: bias }, {
            op: "mul",
            args: [0, 1],
          }],
          stores: [{ value: 2, to: strided(4, [n, 1]) }],
          reductions: [],
        },
      };
      const slots = [
        numbers(m * k, 1),
        numbers(k * n, 2),
        numbers(m * n, 3),
        numbers(n, 4),
        new Float32Array(m * n),
      ];
      const [one, other] = [[own], byBlas(own)!].map((kernels) => runKernels(kernels, ISAS[0], slots)[4]);
      (one as Float32Array).forEach((value, i) =>
        assertEquals(Math.abs(value - Number(other[i])) < 1e-5, true)
      );
    }
  }
  assertEquals(prefersOwnGemm("avx2", 2048, 2048, 512), false);
  assertEquals(prefersOwnGemm("avx2", 64, 256, 256), true);
});

Deno.test("libtorch's own product is called with its arguments in its order", () => {
  const a = numbers(12, 1), b = numbers(20, 2), before = numbers(15, 3);
  const kernel: BlasKernel = {
    kernel: "blas",
    name: "product",
    transA: false,
    transB: true,
    m: 5,
    n: 3,
    k: 4,
    a: { slot: 1, offset: 0 },
    lda: 5,
    b: { slot: 0, offset: 0 },
    ldb: 3,
    c: { slot: 2, offset: 0 },
    ldc: 5,
    beta: 1,
  };
  for (const isa of ISAS) {
    const out = runKernels([kernel], isa, [a, b, before])[2] as Float32Array;
    for (let j = 0; j < 3; j++) {
      for (let i = 0; i < 5; i++) {
        let sum = before[j * 5 + i];
        for (let p = 0; p < 4; p++) sum += b[p * 5 + i] * a[p * 3 + j];
        assertEquals(Math.abs(sum - out[j * 5 + i]) < 1e-5, true);
      }
    }
  }
});
