// Memory that stays: that it is what it says, and on large pages where this machine gives them.
import { assert, assertEquals } from "@std/assert";
import { fill_, longLivedUninitialised, longLivedZeros, memoryBlockOf, toNumbers } from "../../ffi/make.ts";
import { sum } from "../../ffi/ops.ts";
import { scope } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();

/** KiB of large pages in the mapping that an address lies in. */
function largePagesAt(address: bigint): number {
  let inside = false;
  for (const line of Deno.readTextFileSync("/proc/self/smaps").split("\n")) {
    const range = /^([0-9a-f]+)-([0-9a-f]+) /.exec(line);
    if (range) inside = BigInt(`0x${range[1]}`) <= address && address < BigInt(`0x${range[2]}`);
    const large = /^AnonHugePages:\s+(\d+)/.exec(line);
    if (inside && large) return Number(large[1]);
  }
  return -1;
}

Deno.test("zeros that stay are zeros of the shape and type that were asked for, large and small", () => {
  scope(() => {
    const large = longLivedZeros([3 << 20]);
    assertEquals([large.shape, large.dtype, sum(large).item()], [[3 << 20], "f32", 0]);
    assertEquals([...toNumbers(longLivedZeros([2, 2], { dtype: "i64" }))], [0, 0, 0, 0]);
    assertEquals(longLivedUninitialised([5]).shape, [5]);
    assertEquals(longLivedZeros([0]).numel, 0);
  });
});

Deno.test("they lie on large pages where the machine gives them to who asks", () => {
  const enabled = Deno.readTextFileSync("/sys/kernel/mm/transparent_hugepage/enabled");
  scope(() => {
    const made = longLivedZeros([16 << 20]);
    fill_(made, 1); // zeros take no memory before
    const { address, bytes } = memoryBlockOf(made);
    const found = largePagesAt(address + BigInt(bytes / 2)); // the edges lie in small ones
    if (enabled.includes("[never]")) assertEquals(found, 0);
    else assert(found > 32 << 10, `${found} KiB of 65536 are in large pages`); // the rest may be short of them
  });
});
