import { assertEquals } from "@std/assert";
import { attentionKernel } from "../../ffi/attention.ts";
import { liveTensors } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();

Deno.test("libtorch says which kernel attends on the CPU: flash, or math where weights are dropped", () => {
  const live = liveTensors(), shape = { heads: 2, width: 16, causal: true, dropout: 0 };
  assertEquals(attentionKernel(shape, "f32", "cpu"), "flash");
  assertEquals(attentionKernel({ ...shape, masked: true }, "bf16", "cpu"), "flash");
  assertEquals(attentionKernel({ ...shape, dropout: 0.1 }, "f32", "cpu"), "math");
  assertEquals(liveTensors(), live);
});
