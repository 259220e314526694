import { assert, assertEquals, assertThrows } from "@std/assert";
import { LibraryError, NativeError } from "../../ffi/errors.ts";
import * as cuda from "../../ffi/cuda.ts";
import { ones, readBytes, toDevice, toNumbers } from "../../ffi/make.ts";
import { isPinned, pinMemory } from "../../ffi/ops.ts";
import { scope } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();
const gpu = cuda.cudaDevices() > 0;

Deno.test(
  "without a GPU each verb says why, and those that have nothing to do do nothing",
  { ignore: gpu },
  () => {
    assert(cuda.whyNoCuda().length > 0);
    const error = assertThrows(() => cuda.setCudaDevice(0), LibraryError, "No GPU can be used here: ");
    assert(error.message.includes(cuda.whyNoCuda()) && error.message.includes("--device cpu"));
    for (const verb of [cuda.cudaMemory, cuda.currentStream, cuda.poolStream, cuda.newEvent]) {
      assertThrows(() => void verb(), LibraryError, "No GPU can be used here");
    }
    cuda.synchroniseCuda();
    cuda.seedCuda(1n);
    scope(() => assertThrows(() => toDevice(ones([1]), "cuda:0"), NativeError, "_to_copy(self f32[1], "));
  },
);

Deno.test("the switches of numerics are taken, with and without a GPU", () => {
  cuda.setNumerics({ tf32: true, deterministic: true });
  cuda.setNumerics({ tf32: false, deterministic: false });
});

Deno.test("GPU: a tensor goes there and comes back, and its device is named", { ignore: !gpu }, () => {
  scope(() => {
    const there = toDevice(ones([3]), "cuda:0");
    assertEquals([there.device, String(there)], ["cuda:0", "f32[3]@cuda:0"]);
    assertEquals([...toNumbers(there)], [1, 1, 1]);
    assertEquals(readBytes(there).length, 12);
    const { used, total } = cuda.cudaMemory();
    assert(0 < used && used <= total);
  });
});

Deno.test("GPU: isPinned is true of memory that was pinned, and of tensors made so", { ignore: !gpu }, () => {
  scope(() => {
    assertEquals(isPinned(pinMemory(ones([1]))), true);
    assertEquals(isPinned(ones([1], { pinned: true })), true);
  });
});

Deno.test("GPU: events order streams and time them", { ignore: !gpu }, () => {
  const stream = cuda.poolStream();
  const [from, to] = [cuda.newEvent(true), cuda.newEvent(true)];
  cuda.recordEvent(from, stream);
  cuda.onStream(stream, () => assertEquals(cuda.currentStream(), stream));
  cuda.recordEvent(to, stream);
  cuda.waitForEvent(cuda.currentStream(), to);
  cuda.synchroniseEvent(to);
  assert(cuda.elapsedMs(from, to) >= 0);
  [from, to].forEach(cuda.destroyEvent);
});
