import { assert, assertEquals } from "@std/assert";
import { backward, noGrad, requireGrad, setGradSlot } from "../../ffi/autograd.ts";
import { zero_, zeros } from "../../ffi/make.ts";
import { fusedSgd_, linear, mseLoss, randn, relu_, split, topk } from "../../ffi/ops.ts";
import { liveTensors, scope } from "../../ffi/tensor.ts";
import { useLibtorch } from "../libtorch.ts";

useLibtorch();

const STEPS = 2000, WARM_UP = 300, BATCH = 128;
const MEGABYTE = 2 ** 20;

Deno.test("2,000 training steps keep the number of tensors constant and memory flat", () => {
  scope(() => {
    const weights = [randn([32, 16]), randn([32]), randn([16, 32])].map((w) => requireGrad(w));
    const gradients = weights.map((w) => zeros(w.shape));
    weights.forEach((w, i) => setGradSlot(w, gradients[i]));
    const [w1, b1, w2] = weights;
    const step = () =>
      scope(() => {
        const x = randn([BATCH, 16]);
        const hidden = relu_(linear(x, w1, b1));
        // Lists and several results, an optional argument and a text: each way in and out of native memory.
        const [left] = split(linear(hidden, w2), 8, 1);
        const [best] = topk(left, 1);
        backward(mseLoss(best, zeros([BATCH, 1])));
        noGrad(() => fusedSgd_(weights, gradients, [], 0, 0, 1e-3, 0, false, false, true));
        gradients.forEach(zero_);
      });
    for (let i = 0; i < WARM_UP; i++) step();
    const live = liveTensors(), memory = Deno.memoryUsage().rss;
    for (let i = 0; i < STEPS; i++) {
      step();
      assertEquals(liveTensors(), live);
    }
    const grown = Deno.memoryUsage().rss - memory;
    // One hidden layer or output kept a step would be over 16 MB.
    assert(grown < 8 * MEGABYTE, `the process grew by ${(grown / MEGABYTE).toFixed(1)} MB`);
  });
});
