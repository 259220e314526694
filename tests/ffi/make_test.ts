import { assert, assertAlmostEquals, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { backward, gradOf, requireGrad } from "../../ffi/autograd.ts";
import { NativeError } from "../../ffi/errors.ts";
import {
  add,
  borrowBytes,
  constant,
  fill_,
  longLivedZeros,
  type Numbers,
  ones,
  readBytes,
  scalar,
  scale,
  sub,
  tensor,
  toBigInts,
  toDevice,
  toNumbers,
  uninitialised,
  writeBytes,
  zero_,
  zeros,
} from "../../ffi/make.ts";
import { clone, expand, mul, narrow, sum, toCopy, transpose } from "../../ffi/ops.ts";
import { liveTensors, scope, type Tensor } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();

const test = (name: string, body: () => void) => Deno.test(name, () => scope(body));
const list = (t: Tensor) => [...toNumbers(t)];

const arrays: [string, Numbers][] = [
  ["f32", Float32Array.of(1.5, -0, Infinity)],
  ["f64", Float64Array.of(1 / 3, -1e300)],
  ["i8", Int8Array.of(-128, 127)],
  ["i16", Int16Array.of(-32768, 32767)],
  ["i32", Int32Array.of(-(2 ** 31), 2 ** 31 - 1)],
  ["u8", Uint8Array.of(0, 255)],
  ["u16", Uint16Array.of(0, 65535)],
  ["u32", Uint32Array.of(0, 2 ** 32 - 1)],
  ["i64", BigInt64Array.of(-(2n ** 63n), 2n ** 63n - 1n)],
  ["u64", BigUint64Array.of(0n, 2n ** 64n - 1n)],
];
for (const [dtype, values] of arrays) {
  test(`a ${values.constructor.name} becomes ${dtype} and comes back byte for byte`, () => {
    const made = tensor(values);
    assertEquals([made.dtype, made.shape], [dtype, [values.length]]);
    assertEquals(readBytes(made), new Uint8Array(values.buffer));
  });
}

test("a plain array becomes f32, in the shape that is asked for", () => {
  const made = tensor([1, 2, 3, 4, 5, 6], [2, 3]);
  assertEquals([made.dtype, made.shape, list(made)], ["f32", [2, 3], [1, 2, 3, 4, 5, 6]]);
});

test("a part of a typed array brings only its part", () => {
  assertEquals(list(tensor(Float32Array.of(1, 2, 3, 4).subarray(1, 3))), [2, 3]);
});

test("values that don't fit the shape are refused", () => {
  assertThrows(() => tensor([1, 2, 3], [2]), Error, "12 bytes at 0 don't fit a contiguous CPU f32[2]");
  const t = zeros([2]);
  assertThrows(() => writeBytes(t, new Uint8Array(4), 5), Error, "4 bytes at 5");
  assertThrows(() => writeBytes(transpose(zeros([2, 3]), 0, 1), new Uint8Array(4)), Error, "contiguous");
});

test("bytes are written where they are aimed", () => {
  const t = tensor([1, 2, 3]);
  writeBytes(t, new Uint8Array(Float32Array.of(9).buffer), 4);
  assertEquals(list(t), [1, 9, 3]);
});

test("readBytes, borrowBytes and list of an empty tensor are empty", () => {
  const nothing = tensor([]);
  assertEquals([readBytes(nothing).length, borrowBytes(nothing).length, list(nothing)], [0, 0, []]);
});

test("a view is read in row-major order", () => {
  const turned = transpose(tensor([1, 2, 3, 4, 5, 6], [2, 3]), 0, 1);
  assertEquals([...new Float32Array(readBytes(turned).buffer)], [1, 4, 2, 5, 3, 6]);
  assertEquals([...new Float32Array(readBytes(narrow(tensor([1, 2, 3]), 0, 1, 2)).buffer)], [2, 3]);
});

test("borrowed bytes are the tensor's own: writes are seen on both sides", () => {
  const t = tensor([1, 2]);
  const window = new Float32Array(borrowBytes(t).buffer, borrowBytes(t).byteOffset, 2);
  window[1] = 7;
  assertEquals(list(t), [1, 7]);
  fill_(t, 3);
  assertEquals([...window], [3, 3]);
  assertThrows(() => borrowBytes(transpose(zeros([2, 2]), 0, 1)), Error, "borrowBytes of f32[2, 2]");
});

test("zeros, ones, fill and zero hold what they say in every type", () => {
  for (const dtype of ["f16", "bf16", "f64", "i64", "u8", "bool"] as const) {
    assertEquals(list(zeros([2], { dtype })), [0, 0]);
    assertEquals(list(ones([2], { dtype })), [1, 1]);
    assertEquals(list(zero_(ones([2], { dtype }))), [0, 0]);
  }
  assertEquals(list(fill_(uninitialised([2]), 1.5)), [1.5, 1.5]);
  assertEquals(scalar(0.1, "f64").item(), 0.1);
});

test("toBigInts reads integers above 2^53 exactly", () => {
  assertEquals([...toBigInts(tensor(BigInt64Array.of(2n ** 53n + 1n, -1n)))], [2n ** 53n + 1n, -1n]);
});

test("toDevice copies, also to the device where the tensor is", () => {
  const from = tensor([1]);
  fill_(toDevice(from, "cpu"), 2);
  assertEquals(list(from), [1]);
});

/** d sum(result * weight) / da and / db, and the result's own values. */
function gradients(op: (a: Tensor, b: Tensor) => Tensor, a: Tensor, b: Tensor, weight: Tensor) {
  requireGrad(a), requireGrad(b);
  const result = op(a, b);
  backward(sum(mul(result, weight)));
  return [result, gradOf(a)!, gradOf(b)!].map(list);
}

test("the sum of equal shapes has the right values and gradients", () => {
  const found = gradients(add, tensor([1, 2]), tensor([10, 20]), tensor([3, 5]));
  assertEquals(found, [[11, 22], [3, 5], [3, 5]]);
});

test("a sum that broadcasts has the right values and gradients", () => {
  const found = gradients(add, tensor([1, 2, 3, 4], [2, 2]), tensor([10, 20]), tensor([1, 2, 3, 4], [2, 2]));
  assertEquals(found, [[11, 22, 13, 24], [1, 2, 3, 4], [4, 6]]);
});

test("a scaled difference has the right values and gradients", () => {
  const half = (a: Tensor, b: Tensor) => sub(a, b, 0.5);
  assertEquals(gradients(half, tensor([1, 2]), tensor([10, 20]), tensor([3, 5])), [[-4, -8], [3, 5], [
    -1.5,
    -2.5,
  ]]);
  assertEquals(gradients(sub, tensor([1, 2]), tensor([1]), tensor([3, 5])), [[0, 1], [3, 5], [-8]]);
});

test("a sum gives the type that PyTorch's would", () => {
  const of = (a: Tensor, b: Tensor) => String(add(a, b));
  assertEquals(of(ones([2]), ones([2], { dtype: "bf16" })), "f32[2]");
  assertEquals(of(ones([2], { dtype: "bf16" }), ones([2], { dtype: "bf16" })), "bf16[2]");
  assertEquals(of(ones([2], { dtype: "i64" }), ones([2], { dtype: "i64" })), "i64[2]");
  assertEquals(of(ones([2]), scalar(1, "f64")), "f32[2]");
  assertEquals(list(add(ones([2], { dtype: "bool" }), ones([2], { dtype: "bool" }))), [1, 1]);
});

test("a sum that libtorch can't make is an error with both shapes, not the end of the process", () => {
  assertThrows(
    () => add(zeros([2]), zeros([3])),
    NativeError,
    "add(f32[2], f32[3]): The size of tensor a (2)",
  );
  assertThrows(
    () => add(tensor(Uint16Array.of(1)), tensor(Uint16Array.of(1))),
    NativeError,
    "add(u16[1], u16[1])",
  );
  assertThrows(() => sub(zeros([2]), zeros([3])), NativeError, "sub(f32[2], f32[3]): The size");
});

test("the sum of views reads through their strides", () => {
  const t = tensor([1, 2, 3, 4], [2, 2]);
  assertEquals(list(add(transpose(t, 0, 1), t)), [2, 5, 5, 8]);
});

test("a sum that memory has no room for is refused, and does not end the process", () => {
  const huge = expand(ones([1]), [2 ** 47]); // more bytes than there are addresses, so no system promises them
  assertEquals(assertThrows(() => add(huge, huge), NativeError).outOfMemory, true);
});

test("scale keeps the type and, in f64, the factor's full precision", () => {
  assertEquals(scale(ones([1], { dtype: "f64" }), 0.1).item(), 0.1);
  assertEquals(scale(ones([1]), 0.1).item(), Math.fround(0.1));
  assertEquals(String(scale(ones([1], { dtype: "bf16" }), 0.1)), "bf16[1]");
  assertAlmostEquals(scale(toCopy(ones([1]), "f16"), 3).item(), 3);
});

Deno.test("a constant is made once a value, type and device, and outlives scopes", () => {
  const first = scope(() => constant(0.25));
  const live = liveTensors();
  scope(() => {
    assertStrictEquals(constant(0.25), first);
    assertEquals([first.item(), constant(0.25, "f64").dtype], [0.25, "f64"]);
    clone(first);
  });
  assertEquals([liveTensors(), first.item()], [live + 1, 0.25]);
});

Deno.test("whole numbers are added and subtracted whatever their shapes and types, as on a device without the C++ function", () =>
  scope(() => {
    const a = tensor(BigInt64Array.of(1n, 2n ** 60n, -3n)), b = tensor(Int32Array.of(10), [1]);
    assertEquals([...toBigInts(add(a, b))], [11n, 2n ** 60n + 10n, 7n]);
    assertEquals([...toBigInts(sub(a, b))], [-9n, 2n ** 60n - 10n, -13n]);
    assertEquals([...toBigInts(sub(a, b, 2))], [-19n, 2n ** 60n - 20n, -23n]);
    assertEquals([add(a, b).dtype, add(b, b).dtype, add(b, tensor(Uint8Array.of(1, 2))).dtype], [
      "i64",
      "i32",
      "i32",
    ]);
    assertEquals(sub(tensor(Int32Array.of(1, 2), [2, 1]), tensor(Int32Array.of(1, 2, 3))).shape, [2, 3]);
  }));

test("many zeros that live long take no memory until they are written, also where something else was", () => {
  const elements = 6_000_001, resident = () => Deno.memoryUsage().rss;
  fill_(uninitialised([elements]), 3).free();
  const before = resident(), many = longLivedZeros([elements]), taken = resident() - before;
  assert(taken < elements, `${taken} bytes`);
  const values = new Float32Array(borrowBytes(many).buffer, borrowBytes(many).byteOffset, elements);
  assert(values.every((value) => value === 0));
  assertEquals(fill_(many, 1).numel, values.filter((value) => value === 1).length);
});
