// Functions that return an object, called both ways: with the place of the result as their first argument, as on x86-64,
// and with a declared struct, as on aarch64. x86-64 can do both; elsewhere both are the second.
import { assert, assertEquals } from "@std/assert";
import { native } from "../../ffi/abi.ts";
import { add, readBytes, tensor } from "../../ffi/make.ts";
import { callsByStruct } from "../../ffi/object_results.ts";
import { mangledTorch } from "../../ffi/library.ts";
import { clone, mul } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { hasVmap, VmapLevel } from "../../ffi/vmap.ts";
import { useLibtorch } from "../libtorch.ts";

const lib = useLibtorch();
const usual = { ...native }, byStruct = callsByStruct(`${lib.dir}/libtorch_cpu.so`, mangledTorch);

/** What `fn` gives with the functions as they are bound here, and by structs. */
function bothWays<T>(fn: () => T): [T, T] {
  const first = scope(fn);
  Object.assign(native, byStruct);
  try {
    return [first, scope(fn)];
  } finally {
    for (const key of Object.keys(byStruct)) {
      Object.assign(native, { [key]: usual[key as keyof typeof usual] });
    }
  }
}

const bytes = (t: Tensor) => readBytes(t).toHex();

Deno.test("sums have the same bits whichever way the function returns its object", () => {
  let called = 0;
  const { addUnboxed } = byStruct;
  byStruct.addUnboxed = (...args) => (called++, addUnboxed!(...args));
  const numbers = [0.1, -2.5, 1e30, 7], others = [0.2, 3, -1e30, 0.7];
  for (
    const [a, b] of [
      [Float32Array.from(numbers), Float32Array.from(others)],
      [Float64Array.from(numbers), Float64Array.from(others)],
      [BigInt64Array.of(1n, -2n, 1n << 60n), BigInt64Array.of(10n, 20n, 1n << 60n)],
      [Int32Array.of(1, -2, 3), Int32Array.of(2 ** 30, 2, 3)],
      [Uint8Array.of(250, 1), Uint8Array.of(250, 2)],
    ] as const
  ) {
    const [usually, struct] = bothWays(() => bytes(add(tensor(a), tensor(b))));
    assertEquals(struct, usually, a.constructor.name);
  }
  assertEquals(called, 5);
  const [sum] = bothWays(() => bytes(add(tensor(BigInt64Array.of(1n << 60n)), tensor(BigInt64Array.of(1n)))));
  assertEquals(sum, "0100000000000010"); // beyond what a floating factor can hold
});

Deno.test("levels of torch.vmap are entered, left and entered again whichever way their objects are returned", () => {
  assert(hasVmap());
  const [usually, struct] = bothWays(() => {
    const level = new VmapLevel(1, "error"), x = tensor([1, 2, 3, 4, 5, 6], [2, 3]);
    return [0, 1].map(() => {
      level.enter(3);
      try {
        const row = level.hide(x, 1);
        assertEquals(row.shape, [2]);
        return bytes(clone(level.show(mul(row, row), 0)));
      } finally {
        level.leave();
      }
    });
  });
  assertEquals(usually, [0, 1].map(() => scope(() => bytes(tensor([1, 16, 4, 25, 9, 36])))));
  assertEquals(struct, usually);
});
