import { assertEquals, assertThrows } from "@std/assert";
import { firstLine, intList, native, newString, out, outAt } from "../../ffi/abi.ts";
import { gelu } from "../../ffi/ops.ts";
import { scope } from "../../ffi/tensor.ts";
import { zeros } from "../../ffi/make.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();

Deno.test("the first line of a native text is the reason without its label", () => {
  const text =
    "\n  RuntimeError: shapes differ\nException raised from mm at LinearAlgebra.cpp:12\nframe #0: c10::Error";
  assertEquals(firstLine(text), "shapes differ");
  assertEquals(firstLine("Error: no memory"), "no memory");
  assertEquals(firstLine("Errors: two"), "Errors: two");
  assertEquals(firstLine(" \n\n"), "libtorch gave no reason");
});

Deno.test("a list holds each integer, small, large and negative", () => {
  const values = [0, -1, 2 ** 31 - 1, 2 ** 31, -(2 ** 31), 2 ** 53 - 1, -(2 ** 40)];
  const list = intList(values);
  native.listSize(list, outAt);
  assertEquals(out[0], BigInt(values.length));
  const found = values.map((_, i) => {
    native.listItem(list, BigInt(i), outAt);
    return Number(BigInt.asIntN(64, out[0]));
  });
  native.deleteList(list);
  assertEquals(found, values);
});

Deno.test("each call has a string of its own, though the text is encoded once", () => {
  scope(() => {
    const x = zeros([1]);
    for (let i = 0; i < 3; i++) gelu(x, "tanh");
    assertThrows(() => gelu(x, "no such approximation"), Error, "approximate");
    gelu(x, "none");
  });
  const first = newString("none"), second = newString("none");
  assertEquals(first === second, false);
});
