// Kernels that differ only in their places: what counts as alike, and that a copy is what would be written for it.
import { assertEquals, assertNotEquals } from "@std/assert";
import type { GroupKernel, Kernel } from "../../../../core/compile/kernel.ts";
import {
  deduplicationKey,
  type KernelItem,
  printKernel,
  withSpots,
} from "../../../../core/compile/x86/print.ts";
import { RAX } from "../../../../core/compile/x86/assembler.ts";
import { Printer } from "../../../../core/compile/x86/printer.ts";
import { groupRuns } from "./fuzz.ts";
import { elsewhere, strided } from "./harness.ts";

const SLOTS = 1000;

/** Two rows of slot `from` and their sum, of which each second number counts, in slot `to`. */
const rows = (from: number, first: number, second: number, to: number, factor = 2, at = 0): GroupKernel => ({
  ...{ kernel: "group", name: "rows", sizes: [5, 40] },
  stages: [{
    instructions: [
      { op: "load", from: strided(from, [80, 2], first) },
      { op: "load", from: strided(from, [80, 2], second) },
      { op: "number", value: factor },
      { op: "fma", args: [0, 2, 1] },
    ],
    stores: [{ value: 3, to: strided(to, [40, 1], at) }],
    reductions: [],
  }],
});

const textOf = (kernel: Kernel) => deduplicationKey(kernel)?.text;

Deno.test("kernels are alike where only slots and offsets differ, and the same places are the same", () => {
  const one = rows(0, 0, 500, 1);
  assertEquals(textOf(one), textOf(rows(7, 31, 400_000, 3)));
  assertEquals(textOf(one), textOf({ ...one, name: "another" }));
  for (
    const other of [
      rows(0, 0, 500, 0, 2, 900), // one slot in place of two
      rows(0, 500, 500, 1), // one place in place of two
      rows(0, 0, 500, 1, 3),
      { ...one, sizes: [5, 39] },
      { ...one, exact: true },
    ]
  ) assertNotEquals(textOf(one), textOf(other));
  assertNotEquals(textOf(rows(0, 0, 500, 1, 0)), textOf(rows(0, 0, 500, 1, -0)));
  assertEquals(deduplicationKey(rows(0, 0, 2 ** 28, 1)), null); // too far for the number of an instruction
});

Deno.test("a copy is byte for byte what would be written for its places", () => {
  const product = { kernel: "gemm", name: "product", add: true } as const;
  const products: Kernel[] = [
    {
      ...product,
      m: 40,
      n: 100,
      k: 70,
      a: strided(0, [70, 1]),
      b: strided(1, [1, 70]),
      c: strided(2, [100, 1]),
    },
    {
      ...product,
      m: 1,
      n: 30,
      k: 9,
      a: strided(0, [9, 1]),
      b: strided(0, [30, 1], 9),
      c: strided(2, [30, 1]),
    },
  ].map((one) => ({ ...one, epilogue: null }));
  const groups = Array.from({ length: 150 }, (_, seed) => groupRuns(seed).lean.kernel);
  for (const isa of ["avx512", "avx2"] as const) { // nothing is run
    for (const kernel of [rows(0, 0, 500, 1), ...products, ...groups]) {
      const other = elsewhere(kernel, SLOTS / 2, Array.from({ length: SLOTS / 2 }, (_, i) => 1000 * i + 7));
      const written = (copies: boolean) => {
        const printer = new Printer(isa, SLOTS),
          likeness = deduplicationKey(kernel)!,
          { places } = deduplicationKey(other)!;
        const body = (one: KernelItem, at: typeof places) => () => printKernel(printer, withSpots(one, at));
        return printer.print([() => {
          const first = printer.write(likeness.places, body(kernel, likeness.places));
          const own = [first.passage.moving.length, first.scratch.length];
          printer.scratch(RAX, 64, 64); // of another kernel
          assertEquals([first.passage.moving.length, first.scratch.length], own);
          if (copies) printer.asPart(1, () => printer.copy(first, places));
          else printer.asPart(1, () => printer.write(places, body(other, places)));
        }]);
      };
      assertEquals(written(true), written(false));
    }
  }
});
