import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { aten } from "../../ffi/aten.ts";
import { NativeError, UseAfterFree } from "../../ffi/errors.ts";
import { ones, tensor, toNumbers, zeros } from "../../ffi/make.ts";
import { backwardOp, cat, conv2d, linear, randint, relu_, reshape } from "../../ffi/ops.ts";
import { liveTensors, scope } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";
import { assertSentence } from "../sentences.ts";

const lib = useLibtorch();

Deno.test("numbers, flags and texts come back as themselves", () => {
  const quantised = aten(
    "_make_per_tensor_quantized_tensor(Tensor self, float scale, int zero_point) -> Tensor",
  );
  const scale = aten("q_scale(Tensor self) -> float");
  const zeroPoint = aten("q_zero_point(Tensor self) -> int");
  const size = aten("size.int(Tensor self, int dim) -> int");
  const sameSize = aten("is_same_size(Tensor self, Tensor other) -> bool");
  scope(() => {
    const q = quantised(tensor(Uint8Array.of(1, 2, 3)), 0.1, 7);
    assertEquals([scale(q), zeroPoint(q), size(q, -1)], [0.1, 7, 3]);
    assertEquals([sameSize(q, tensor([1, 2, 3])), sameSize(q, tensor([1]))], [true, false]);
  });
});

Deno.test("an integer keeps its value on both sides of 32 bits and of zero", () => {
  for (const value of [0, -1, 2 ** 31 - 1, 2 ** 31, -(2 ** 31), -(2 ** 31) - 1, 2 ** 52, -(2 ** 52)]) {
    scope(() => assertEquals(randint(value, value + 1, [1]).itemBigInt(), BigInt(value)));
  }
});

Deno.test("a fraction where an integer belongs is refused", () => {
  assertThrows(() => scope(() => reshape(zeros([4]), [1.5])), NativeError, "shape is [1.5]");
});

Deno.test("an in-place op gives back the tensor it was given and makes none", () => {
  scope(() => {
    const x = tensor([-1, 2]);
    const before = liveTensors();
    assertEquals(relu_(x) === x, true);
    assertEquals([...toNumbers(x)], [0, 2]);
    assertEquals(liveTensors(), before);
  });
});

Deno.test("a refused call names op, arguments, shapes and libtorch's own reason", () => {
  scope(() => {
    const error = assertThrows(() => linear(zeros([3, 4]), zeros([5, 6])), NativeError);
    assertMatch(
      error.message, // libtorch 2.15 says "mm: " first
      /^linear\(input f32\[3, 4\], weight f32\[5, 6\]\): (mm: )?mat1 and mat2 shapes cannot be multiplied \(3x4 and 6x5\)$/,
    );
    assertEquals([error.op, error.outOfMemory], ["linear", false]);
    const conv = assertThrows(
      () => conv2d(zeros([1, 3, 4, 4]), zeros([2, 4, 3, 3]), null, [2, 2]),
      NativeError,
    );
    assertSentence("ffi/aten: conv input weight", conv.message.slice(0, 76));
    const joined = assertThrows(() => cat([zeros([2]), zeros([2, 2])]), NativeError);
    assert(joined.message.startsWith("cat(tensors 2 tensors, dim 0): "), joined.message);
  });
});

Deno.test("an op after a refused one works, and errors do not repeat", () => {
  scope(() => {
    const refuse = (wanted: number) =>
      assertThrows(() => reshape(zeros([4]), [wanted]), NativeError, `shape '[${wanted}]' is invalid`);
    refuse(3);
    assertEquals([...toNumbers(reshape(ones([4]), [2, 2]))], [1, 1, 1, 1]);
    refuse(5);
  });
});

Deno.test("a refused call leaves no tensor behind", () => {
  const before = liveTensors();
  for (let i = 0; i < 3; i++) assertThrows(() => scope(() => linear(zeros([3, 4]), zeros([5, 6]))));
  assertEquals(liveTensors(), before);
});

Deno.test("a freed tensor is refused by name, alone, as an option and in a list", () => {
  scope(() => {
    const x = zeros([2, 2]), gone = zeros([2, 2]);
    gone.free();
    assertSentence("ffi/aten: internal linear given", assertThrows(() => linear(gone, x), UseAfterFree));
    assertThrows(() => linear(x, x, gone), UseAfterFree, "linear");
    assertThrows(() => cat([x, gone]), UseAfterFree, "cat");
    assertThrows(() => backwardOp(gone, []), UseAfterFree, "_backward");
  });
});

Deno.test("an op that this libtorch does not have is refused by name", () => {
  const nothing = aten("no_such_op(Tensor self) -> Tensor");
  const error = scope(() => assertThrows(() => nothing(zeros([1])), NativeError));
  assert(error.message.includes("no_such_op"), `${lib.versionText}: ${error.message}`);
});

Deno.test("a schema with a type that can't be passed is refused when the op is made", () => {
  assertThrows(() => aten("f(Scalar x) -> Tensor"), Error, "internal: no encoding for Scalar x");
  assertThrows(() => aten("f(Tensor x) -> Storage"), Error, "internal: no decoding");
});
