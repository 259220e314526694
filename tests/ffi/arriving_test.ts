import { assertEquals, assertThrows } from "@std/assert";
import { cudaDevices } from "../../ffi/cuda.ts";
import { startReadback } from "../../ffi/readback.ts";
import { fill_, scalar, toNumbers } from "../../ffi/make.ts";
import { keep, liveTensors, scope } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();
const gpu = cudaDevices() > 0;

Deno.test("what arrives is read once and then freed, also when reading fails", () => {
  const before = liveTensors();
  const value = startReadback(keep(scalar(3)));
  assertEquals(value.take((host) => host.item()), 3);
  const other = startReadback(keep(scalar(4)));
  assertThrows(() => other.take(() => JSON.parse("")), SyntaxError);
  assertEquals(liveTensors(), before);
});

Deno.test(
  "GPU: a value arrives as it was when it was sent, and leaves nothing behind",
  { ignore: !gpu },
  () => {
    const before = liveTensors();
    scope(() => {
      const there = keep(scalar(3, "f32", "cuda:0"));
      const value = startReadback(there);
      const next = fill_(scalar(0, "f32", "cuda:0"), 4); // may take the memory that was just given up
      assertEquals([[...value.take(toNumbers)], next.item()], [[3], 4]);
    });
    assertEquals(liveTensors(), before);
  },
);
