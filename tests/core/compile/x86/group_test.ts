import { assertEquals, assertThrows } from "@std/assert";
import type { GroupKernel } from "../../../../core/compile/kernel.ts";
import { Assembler, RAX } from "../../../../core/compile/x86/assembler.ts";
import { rowInvariants } from "../../../../core/compile/x86/group.ts";
import { printCode } from "../../../../core/compile/x86/print.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { fuzzGroup } from "./fuzz.ts";
import { ISAS, strided } from "./harness.ts";

useLibtorch();

for (const isa of ISAS) {
  Deno.test(`100 random groups of ${isa} compute what libtorch computes and touch nothing else`, () => {
    const wrong = Array.from({ length: 100 }, (_, seed) => fuzzGroup(seed, isa)).filter((one) =>
      one !== null
    );
    assertEquals(wrong, []);
  });
}

Deno.test("places and steps of more than 2 GiB are reached, and no number of an instruction loses its sign", () => {
  for (const isa of ["avx512", "avx2"] as const) {
    const asm = new Assembler(isa);
    asm.add(RAX, 5 * 2 ** 31);
    // Seven bytes or six each: add rax, 2^31 - 1 five times, and what is left of it.
    assertEquals(asm.length > 5 * 6, true);
    assertThrows(() => asm.load(RAX, { base: RAX, disp: 2 ** 31 }), Error, "no 32-bit number");
    const far = strided(0, [2 ** 30, 1], 3 * 2 ** 30);
    const stage = {
      instructions: [{ op: "load" as const, from: far }, { op: "neg", args: [0] }],
      stores: [{ value: 1, to: strided(1, [20, 1]) }],
      reductions: [],
    };
    const group: GroupKernel = { kernel: "group", name: "far", sizes: [9, 20], stages: [stage] };
    assertEquals(printCode([group], isa, 2).bytes.length > 0, true);
  }
});

Deno.test("what is slow and the same for a whole row is computed before the row", () => {
  const stage = {
    instructions: [
      { op: "load" as const, from: strided(0, [20, 1]) },
      { op: "load" as const, from: strided(1, [1, 0]) },
      { op: "rsqrt", args: [1] },
      { op: "mul", args: [2, 1] },
      { op: "mul", args: [0, 3] },
      { op: "gt", args: [2, 1] },
      { op: "where", args: [5, 4, 0] },
      { op: "add", args: [6, 1] },
    ],
    stores: [{ value: 7, to: strided(2, [20, 1]) }],
    reductions: [],
  };
  // The whole chain, not its parts; no truth value; nothing that is only read.
  assertEquals(rowInvariants(stage), [3]);
});
