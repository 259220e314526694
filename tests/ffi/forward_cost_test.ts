import { assertEquals, assertThrows } from "@std/assert";
import { requireGrad } from "../../ffi/autograd.ts";
import { forwardCost } from "../../ffi/profile.ts";
import { add, ones } from "../../ffi/make.ts";
import { gelu, maxPool2d, relu, relu_, sum, transpose } from "../../ffi/ops.ts";
import { liveTensors, scope, type Tensor } from "../../ffi/tensor.ts";
import { Linear } from "../../core/models/nn/mod.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();

/** Bytes that each part keeps; the first is the input's. */
function kept(shape: number[], ...parts: ((x: Tensor) => Tensor)[]): number[] {
  const costs = forwardCost((end) =>
    scope(() => {
      let x = requireGrad(ones(shape));
      end([x]);
      for (const part of parts) {
        const before = x;
        end([x = scope(() => part(before))]);
      }
    })
  );
  return costs.map(({ saved }) => saved);
}

const NUMBERS = 4 * 6, BYTES = 4 * NUMBERS;

Deno.test("relu keeps its result, gelu its argument, sums and views keep nothing", () => {
  assertEquals(kept([4, 6], (x) => relu(add(x, x))), [0, BYTES]);
  assertEquals(kept([4, 6], (x) => add(x, x), (x) => sum(gelu(x))), [0, BYTES, 0]);
  assertEquals(kept([4, 6], (x) => sum(transpose(add(x, x), 0, 1))), [0, 0]);
});

Deno.test("what is written in place, or seen through a view, is one piece of memory", () => {
  assertEquals(kept([4, 6], (x) => relu_(add(x, x)), (x) => gelu(transpose(x, 0, 1))), [0, BYTES, 0]);
});

Deno.test("a linear layer keeps what goes in, under the part that made it", () => {
  const linear = new Linear(6, 5);
  assertEquals(kept([4, 6], (x) => add(x, x), (x) => linear.forward(x), sum), [0, BYTES, 0, 0]);
  linear.free();
});

Deno.test("a maximum's place is kept beside it", () => {
  const pool = (x: Tensor) => sum(maxPool2d(x, [2, 2], [2, 2]));
  assertEquals(kept([1, 2, 4, 4], (x) => pool(add(x, x))), [0, 4 * 32 + 8 * 8]);
});

Deno.test("nothing is left, and native calls are as before, after an exception too", () => {
  const before = liveTensors();
  assertThrows(() => forwardCost(() => scope(() => (ones([3]), assertEquals(1, 2)))));
  kept([4, 6], relu);
  assertEquals(liveTensors(), before);
  scope(() => assertEquals(sum(relu(ones([3]))).item(), 3));
});
