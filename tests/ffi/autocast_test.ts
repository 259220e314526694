import { assertEquals, assertThrows } from "@std/assert";
import { autocast } from "../../ffi/context.ts";
import { backward, gradOf, requireGrad } from "../../ffi/autograd.ts";
import { fill_, ones, toNumbers, zeros } from "../../ffi/make.ts";
import { layerNorm, linear, matmul, randn, sum } from "../../ffi/ops.ts";
import { scope } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();
const test = (name: string, body: () => void) => Deno.test(name, () => scope(body));
const linearType = () => scope(() => linear(ones([2, 4]), ones([3, 4])).dtype);

test("inside autocast a linear layer gives its type, and a layer norm stays f32", () => {
  const x = randn([2, 4]), w = randn([4, 4]);
  const types = autocast(
    "bf16",
    false,
    () => [linear(x, w).dtype, matmul(x, w).dtype, layerNorm(x, [4]).dtype],
  );
  assertEquals(types, ["bf16", "bf16", "f32"]);
  assertEquals(autocast("f16", false, linearType), "f16");
});

test("after autocast, and after an exception in it, ops keep their type", () => {
  assertEquals(autocast("bf16", false, linearType), "bf16");
  assertEquals(linearType(), "f32");
  assertThrows(
    () =>
      autocast("bf16", false, () => {
        throw new Error("stop");
      }),
    Error,
    "stop",
  ); // deno-fmt-ignore
  assertEquals(linearType(), "f32");
});

test("autocast to nothing runs the body as it is", () => {
  assertEquals(autocast(null, false, linearType), "f32");
});

test("gradients of f32 parameters stay f32 through autocast", () => {
  const w = requireGrad(ones([3, 4]));
  backward(sum(autocast("bf16", false, () => linear(ones([2, 4]), w))));
  assertEquals([gradOf(w)!.dtype, ...toNumbers(gradOf(w)!)], ["f32", ...Array(12).fill(2)]);
});

test("a weight that changed between two autocasts is cast again", () => {
  const x = ones([1, 4]), w = requireGrad(zeros([1, 4]));
  assertEquals(autocast("bf16", false, () => linear(x, w)).item(), 0);
  requireGrad(w, false);
  fill_(w, 1);
  requireGrad(w);
  assertEquals(autocast("bf16", false, () => linear(x, w)).item(), 4);
});
