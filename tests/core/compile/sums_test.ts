// Exact plans sum in libtorch's order: the same bits, whatever the number of rows and columns.
import { assertEquals } from "@std/assert";
import { columnSums, type SumPlan, wholeSum } from "../../../core/compile/sums.ts";
import type { GroupKernel } from "../../../core/compile/kernel.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { readBytes, uninitialised } from "../../../ffi/make.ts";
import { randn, reshape, sum, sumDim } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";

useLibtorch();

const SLOTS = 200;
const isa = machineIsa();
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

/** The bits of libtorch's sum over rows, or of everything, and the plan's. */
function both(rows: number, columns: number): [Uint8Array, Uint8Array] {
  return scope(() => {
    const x = randn([rows, columns]), result = uninitialised([columns]);
    const kernels: GroupKernel[] = [], rooms: number[] = [];
    const plan: SumPlan = { kernels, scratch: (elements) => rooms.push(elements) + 1 };
    const from = { slot: 0, offset: 0, rows, columns, stride: columns };
    if (rows === 1) wholeSum(plan, from, { slot: 1, offset: 0 });
    else columnSums(plan, from, { slot: 1, offset: 0 });
    const code = loadCode(printCode(kernels, isa!, SLOTS));
    if ("refused" in code) throw new Error(code.name);
    code.setSlot(0, x);
    code.setSlot(1, result);
    rooms.forEach((elements, i) => code.setSlot(i + 2, uninitialised([elements])));
    code.run();
    code.free();
    const theirs = rows === 1 ? reshape(sum(x), [1]) : sumDim(x, [0]);
    return [readBytes(result).slice(0, theirs.byteLength), readBytes(theirs)];
  });
}

Deno.test({
  name: "sums over rows and sums of everything have libtorch's bits",
  ignore: isa === null,
  fn() {
    setThreads(1);
    manualSeed(1n);
    for (const columns of [1, 2, 3, 5, 7, 8, 9, 31, 32, 33, 40, 64, 77, 128]) {
      for (const rows of [2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 256, 300]) {
        const [own, theirs] = both(rows, columns);
        assertEquals(own, theirs, `${rows} x ${columns}`);
      }
    }
    for (let count = 2; count < 140; count++) {
      const [own, theirs] = both(1, count);
      assertEquals(own, theirs, `${count}`);
    }
    for (const count of [511, 512, 513, 1000, 4096, 8193, 30_000]) {
      const [own, theirs] = both(1, count);
      assertEquals(own, theirs, `${count}`);
    }
  },
});
