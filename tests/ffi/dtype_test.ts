import { assertEquals, assertThrows } from "@std/assert";
import { type DType, dtypeBytes, dtypeCode, dtypeName, isFloating } from "../../ffi/dtype.ts";
import { uninitialised } from "../../ffi/make.ts";
import { scope } from "../../ffi/tensor.ts";
import { python } from "../core/checkpoint/python.ts";
import { useLibtorch } from "../libtorch.ts";
import { assertSentence } from "../sentences.ts";

useLibtorch();

const names: Record<DType, string> = {
  u8: "uint8",
  i8: "int8",
  i16: "int16",
  i32: "int32",
  i64: "int64",
  f16: "float16",
  f32: "float32",
  f64: "float64",
  c64: "complex64",
  c128: "complex128",
  bool: "bool",
  bf16: "bfloat16",
  u16: "uint16",
  u32: "uint32",
  u64: "uint64",
};
const all = Object.keys(names) as DType[];

Deno.test("sizes and kinds are PyTorch's", () => {
  const program = `
import sys, torch
for name in sys.argv[1:]:
    t = getattr(torch, name)
    print(t.itemsize, t.is_floating_point)
`;
  const ours = all.map((d) => `${dtypeBytes(d)} ${isFloating(d) ? "True" : "False"}`);
  assertEquals(ours, python(program, ...all.map((d) => names[d])).trimEnd().split("\n"));
});

Deno.test("a tensor of each type says its type", () => {
  assertEquals(scope(() => all.map((dtype) => uninitialised([1], { dtype }).dtype)), all);
});

Deno.test("codes and names go both ways, and an unknown code is named", () => {
  assertEquals(all.map((d) => dtypeName(dtypeCode(d))), all);
  assertSentence("ffi/dtype: tensors type supported", assertThrows(() => dtypeName(99), Error));
});
