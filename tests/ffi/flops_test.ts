import { assertEquals } from "@std/assert";
import { backward } from "../../ffi/autograd.ts";
import { countFlops } from "../../ffi/profile.ts";
import { ones } from "../../ffi/make.ts";
import { bmm, mul, sum } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { Conv2d, ConvTranspose2d, Linear, MultiheadAttention } from "../../core/models/nn/mod.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();

/** What a forward pass is counted to take, and that nothing after its backward is. */
function counted(forward: () => Tensor): number {
  let found = NaN;
  scope(() => {
    countFlops((operations) => found = operations);
    backward(sum(forward()));
    forward();
  });
  return found;
}

Deno.test("a linear layer takes two operations for each weight and row", () => {
  const linear = new Linear(30, 50);
  assertEquals(counted(() => linear.forward(ones([4, 7, 30]))), 2 * 4 * 7 * 30 * 50);
});

Deno.test("a convolution takes a filter's length for each number that comes out, a transposed one for each that goes in", () => {
  const conv = new Conv2d(6, 8, 3, { stride: 2, padding: 1, groups: 2 });
  assertEquals(counted(() => conv.forward(ones([2, 6, 10, 10]))), 2 * (2 * 8 * 5 * 5) * (3 * 3 * 3));
  const back = new ConvTranspose2d(6, 8, 2, { stride: 2 });
  assertEquals(counted(() => back.forward(ones([2, 6, 5, 5]))), 2 * (2 * 6 * 5 * 5) * (8 * 2 * 2));
});

Deno.test("attention is four projections and two products of all tokens with all tokens", () => {
  const attention = new MultiheadAttention(16, 4);
  const [batch, tokens, width] = [3, 10, 16];
  assertEquals(
    counted(() => attention.forward(ones([batch, tokens, width]))),
    batch * (2 * tokens * width * 4 * width + 4 * tokens * tokens * width),
  );
});

Deno.test("products of matrices count, element by element does not", () => {
  const a = new Linear(4, 5).weight;
  assertEquals(
    counted(() => scope(() => bmm(mul(ones([3, 2, 5]), ones([3, 2, 5])), mul(ones([3, 5, 4]), sum(a))))),
    2 * 3 * 2 * 5 * 4,
  );
});
