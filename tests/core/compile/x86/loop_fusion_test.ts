// Products of heads and groups over them as one loop: it computes what they compute one after the other.
import { assert, assertEquals } from "@std/assert";
import type { GemmKernel, GroupKernel, Kernel, StridedAccess } from "../../../../core/compile/kernel.ts";
import { inBatches } from "../../../../core/compile/batches.ts";
import { type LoopNest, withFusedLoops } from "../../../../core/compile/x86/loop_fusion.ts";
import { splitKernel } from "../../../../core/compile/x86/split.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { ISAS, runKernels, strided } from "./harness.ts";

useLibtorch();

const numbers = (count: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(i * 0.37) / 4 + (i % 101) / 500);

interface Sizes {
  readonly samples: number;
  readonly heads: number;
  readonly tokens: number;
  readonly width: number;
}

type Steps = readonly [sample: number, head: number];

/** A product for each head of each sample. */
function products(
  { samples, heads }: Sizes,
  [m, n, k]: readonly [number, number, number],
  operands: Record<"a" | "b" | "c", readonly [StridedAccess, Steps]>,
): GemmKernel[] {
  return Array.from({ length: samples * heads }, (_, i) => {
    const at = ([first, [sample, head]]: readonly [StridedAccess, Steps]): StridedAccess => ({
      ...first,
      offset: first.offset + Math.floor(i / heads) * sample + i % heads * head,
    });
    const { a, b, c } = operands;
    return {
      ...{ kernel: "gemm", name: "heads", m, n, k, a: at(a), b: at(b), c: at(c), add: false, epilogue: null },
    };
  });
}

/** Rows of scores: exp(x), their sum, and x / sum. */
function softmax({ samples, heads, tokens }: Sizes, x: number, sums: number): GroupKernel {
  const scores = strided(1, [tokens * tokens, tokens, 1], x);
  return {
    ...{ kernel: "group", name: "softmax", sizes: [samples * heads, tokens, tokens] },
    stages: [
      {
        instructions: [{ op: "load", from: scores }, { op: "exp", args: [0] }],
        stores: [{ value: 1, to: scores }],
        reductions: [{ op: "sum", over: "row", value: 1, to: strided(1, [tokens, 1, 0], sums) }],
      },
      {
        instructions: [{ op: "load", from: scores }, { op: "reduced", reduction: 0 }, {
          op: "div",
          args: [0, 1],
        }],
        stores: [{ value: 2, to: scores }],
        reductions: [],
      },
    ],
  };
}

/** q k', softmax, and its product with v, whose heads lie among each other's; and the two's products turned. */
function attention(sizes: Sizes): { kernels: Kernel[]; elements: number } {
  const { samples, heads, tokens, width } = sizes, row = heads * width;
  const inner: Steps = [tokens * row, width], square: Steps = [heads * tokens * tokens, tokens * tokens];
  const times = samples * heads, sums = times * tokens * tokens, to = sums + times * tokens;
  const scores: readonly [StridedAccess, Steps] = [strided(1, [tokens, 1]), square];
  const wide: Steps = [tokens * 3 * row, width];
  const kernels: Kernel[] = [
    ...products(sizes, [tokens, tokens, width], {
      a: [strided(0, [row, 1]), inner],
      b: [strided(0, [1, row]), inner],
      c: scores,
    }),
    softmax(sizes, 0, sums),
    ...products(sizes, [tokens, width, tokens], {
      a: scores,
      b: [strided(0, [row, 1]), inner],
      c: [strided(1, [3 * row, 1], to), wide],
    }),
    ...products(sizes, [width, tokens, tokens], {
      a: [strided(0, [1, row]), inner],
      b: scores,
      c: [strided(1, [1, 3 * row], to + row), wide],
    }),
  ];
  return { kernels, elements: to + samples * tokens * 3 * row };
}

const nestsOf = (kernels: readonly Kernel[]): LoopNest[] =>
  withFusedLoops(inBatches(kernels)).filter((one) => one.kernel === "nest");

/** Each kernel by itself, one after the other. */
function apart(
  kernels: readonly Kernel[],
  slots: readonly Float32Array[],
  isa: typeof ISAS[number],
): Float32Array[] {
  let now = [...slots];
  for (const kernel of kernels) now = runKernels([kernel], isa, now) as Float32Array[];
  return now;
}

Deno.test("an attention is one loop over heads, which threads share, with the bits of each kernel alone", () => {
  const sizes = { samples: 5, heads: 3, tokens: 33, width: 20 }, { kernels, elements } = attention(sizes);
  const nests = nestsOf(kernels);
  assertEquals(nests.map(({ bodies, counts }) => [bodies.length, ...counts]), [[4, 5, 3]]);
  const large = attention({ samples: 6, heads: 4, tokens: 64, width: 32 });
  assertEquals(splitKernel(nestsOf(large.kernels)[0], 4).length, 3);
  const slots = [numbers(5 * 33 * 60), numbers(elements)];
  for (const isa of ISAS) {
    const alone = apart(kernels, slots, isa);
    for (const threads of [1, 2, 5]) assertEquals(runKernels(kernels, isa, slots, true, threads), alone);
  }
});

Deno.test("what reads another head's numbers is no part of the loop", () => {
  const sizes = { samples: 2, heads: 3, tokens: 20, width: 16 }, { kernels } = attention(sizes);
  const shifted = (kernel: Kernel, by: number): Kernel =>
    kernel.kernel === "group"
      ? {
        ...kernel,
        stages: kernel.stages.map((stage) => ({
          ...stage,
          instructions: stage.instructions.map((one) =>
            "from" in one ? { ...one, from: { ...one.from, offset: one.from.offset + by } } : one
          ),
        })),
      }
      : kernel;
  const kindsOf = (all: Kernel[]) =>
    nestsOf(all).map(({ bodies }) => bodies.map(({ kernel }) => kernel.kernel));
  assertEquals(kindsOf(kernels), [["gemm", "group", "gemm", "gemm"]]);
  assertEquals(kindsOf(kernels.map((kernel) => shifted(kernel, 400))), [["gemm", "gemm"]]);
});

Deno.test("a batch that goes backwards through what was written before it is no part of the loop", () => {
  const copy: GroupKernel = {
    ...{ kernel: "group", name: "copy", sizes: [2, 7] },
    stages: [{
      instructions: [{ op: "load", from: strided(1, [7, 1]) }],
      stores: [{ value: 0, to: strided(0, [7, 1], 16) }],
      reductions: [],
    }],
  };
  const product = (a: number, c: number): GemmKernel => ({
    ...{ kernel: "gemm", name: "gemm", m: 2, n: 2, k: 7, a: strided(0, [7, 1], a), b: strided(1, [1, 7]) },
    ...{ c: strided(0, [2, 1], c), add: false, epilogue: null },
  });
  const kernels = [copy, product(16, 32), product(0, 48)], slots = [new Float32Array(64), numbers(14)];
  assertEquals(inBatches(kernels).map(({ kernel }) => kernel), ["group", "batch"]);
  assertEquals(nestsOf(kernels), []);
  for (const isa of ISAS) assertEquals(runKernels(kernels, isa, slots), apart(kernels, slots, isa));
});

Deno.test("random products and groups in one memory compute the same in loops as one after the other", () => {
  let state = 7, nested = 0;
  const below = (count: number): number => {
    state = Math.imul(state, 1664525) + 1013904223 | 0;
    return Math.floor((state >>> 8) / 2 ** 24 * count);
  };
  for (let round = 0; round < 150; round++) {
    const sizes = { samples: 2 + below(2), heads: 2 + below(2), tokens: 3 + below(9), width: 2 + below(8) };
    const { heads, tokens, width } = sizes, size = tokens * Math.max(tokens, width);
    const dense: Steps = [heads * size, size], among: Steps = [tokens * heads * width, width];
    const begin = () => below(4) * [1, size, heads * size, 12 * size][below(4)];
    const operand = (turned: boolean): readonly [StridedAccess, Steps] => {
      const row = [width, heads * width][below(2)], steps = row === width ? dense : among;
      return [strided(0, turned ? [1, row] : [row, 1], begin()), steps];
    };
    /** From the last one to the first. */
    const backwards = (
      [access, [sample, head]]: readonly [StridedAccess, Steps],
    ): readonly [StridedAccess, Steps] => {
      const last = (sizes.samples - 1) * sample + (heads - 1) * head;
      return [{ ...access, offset: access.offset + last }, [-sample, -head]];
    };
    const kernels: Kernel[] = [];
    for (let i = 2 + below(3); i > 0; i--) {
      if (below(3) === 0) {
        const x = strided(0, [size, width, 1], begin());
        kernels.push({
          ...{ kernel: "group", name: "half", sizes: [sizes.samples * heads, tokens, width] },
          stages: [{
            instructions: [{ op: "load", from: x }, { op: "number", value: 0.5 }, {
              op: "mul",
              args: [0, 1],
            }],
            stores: [{ value: 2, to: below(2) === 0 ? x : { ...x, offset: begin() } }],
            reductions: [],
          }],
        });
      } else {
        const [a, b, c] = [operand(false), operand(true), operand(false)].map((one) =>
          below(5) === 0 ? backwards(one) : one
        );
        // A product's own matrices lie apart from its result, as in a plan.
        kernels.push(...products(sizes, [tokens, width, width], { a, b: [{ ...b[0], slot: 1 }, b[1]], c }));
      }
    }
    const plain = kernels.every((kernel) => kernel.kernel !== "gemm" || kernel.a.offset !== kernel.c.offset);
    if (!plain || selfish(kernels)) continue;
    nested += nestsOf(kernels).length;
    const slots = [numbers(60 * 12 * 12 + 4000), numbers(60 * 12 * 12 + 4000)];
    for (const isa of ISAS) {
      assertEquals(runKernels(kernels, isa, slots), apart(kernels, slots, isa), `round ${round}, ${isa}`);
    }
  }
  assert(nested > 20, `${nested} loops`);
});

/** A group whose result overlaps what it reads elsewhere has no meaning of its own. */
function selfish(kernels: readonly Kernel[]): boolean {
  return kernels.some((kernel) => {
    if (kernel.kernel !== "group") return false;
    const [{ instructions: [load], stores: [{ to }] }] = kernel.stages;
    const from = (load as { from: StridedAccess }).from, reach = kernel.sizes[0] * from.strides[0];
    return from.offset !== to.offset && Math.abs(from.offset - to.offset) < reach;
  });
}
