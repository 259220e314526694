import { assertEquals, assertThrows } from "@std/assert";
import { NativeError } from "../../ffi/errors.ts";
import { uninitialised } from "../../ffi/make.ts";
import { scope } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();

Deno.test("a refused call's message has operands in brackets only when there are some", () => {
  assertEquals(new NativeError("mm", "a f32[2]", "no").message, "mm(a f32[2]): no");
  assertEquals(new NativeError("mm", "", "no").message, "mm: no");
});

Deno.test("memory that the host does not have is told apart from other refusals", () => {
  const tooMuch = () => scope(() => uninitialised([2 ** 46], { dtype: "f64" }).numel);
  const error = assertThrows(tooMuch, NativeError, "empty(size [70368744177664]");
  assertEquals(error.outOfMemory, true, error.message);
  assertEquals(
    new NativeError("mm", "", "CUDA out of memory. Tried to allocate 2.00 GiB.").outOfMemory,
    true,
  );
  assertEquals(new NativeError("mm", "", "shapes cannot be multiplied").outOfMemory, false);
});
