// Derivatives inside of a model (physics-informed networks): as libtorch computes them, and as a graph.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { backward, gradient, gradOf, noGrad, requireGrad } from "../../../ffi/autograd.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { tensor, toNumbers } from "../../../ffi/make.ts";
import * as ops from "../../../core/models/user/ops.ts";
import { liveTensors, scope, type Tensor } from "../../../ffi/tensor.ts";
import { sentenceOf } from "../../../core/compile/refused.ts";
import { useLibtorch } from "../../libtorch.ts";
import { compared } from "./compiled.ts";

useLibtorch();
setThreads(1);

Deno.test("a gradient of a gradient of sin x^2, and what it sends back to a weight", () => {
  const before = liveTensors();
  scope(() => {
    const w = requireGrad(tensor([0.7])), x = tensor([0.3, 1.1]);
    const f = (t: Tensor) => ops.sin(ops.mul(w, ops.square(t)));
    const second = gradient((t) => gradient(f, t), x);
    const at = [0.3, 1.1];
    const exact = (v: number, x: number) =>
      2 * v * Math.cos(v * x * x) - 4 * v * v * x * x * Math.sin(v * x * x);
    [...toNumbers(second)].forEach((value, i) => assertAlmostEquals(value, exact(0.7, at[i]), 1e-5));
    backward(ops.sum(second));
    const step = 1e-4, slope = at.reduce((sum, v) => sum + exact(0.7 + step, v) - exact(0.7 - step, v), 0);
    assertAlmostEquals(toNumbers(gradOf(w)!)[0], slope / (2 * step), 1e-3);
    const judged = noGrad(() => gradient(f, x));
    assertAlmostEquals(toNumbers(judged)[0], 2 * 0.7 * 0.3 * Math.cos(0.7 * 0.09), 1e-5);
    assertEquals([...toNumbers(gradient(() => tensor([3]), x))], [0, 0]);
  });
  assertEquals(liveTensors(), before);
});

Deno.test("a physics-informed network as one graph: u_xx + u = 0 has autograd's gradients", () =>
  scope(() => {
    manualSeed(1n);
    const sizes = [[16, 1], [16], [16, 16], [16], [1, 16], [1]];
    const parameters = sizes.map((shape) => ops.randn(shape));
    const net = (x: Tensor) => {
      const [w1, b1, w2, b2, w3, b3] = parameters;
      const h = ops.tanh(ops.linear(ops.tanh(ops.linear(x, w1, b1)), w2, b2));
      return ops.linear(h, w3, b3);
    };
    const input = ops.randn([24, 1]), target = ops.randn([24, 1]);
    const made = compared({
      input,
      target,
      parameters,
      floor: 1e-2,
      pass() {
        const output = net(input);
        const second = gradient((t) => gradient(net, t), input);
        const residual = ops.add(second, output);
        return { output, loss: ops.add(ops.mseLoss(output, target), ops.mean(ops.square(residual))) };
      },
    });
    if ("reason" in made) throw new Error(sentenceOf(made));
    assert(made.worst < 1e-5, `${made.worst}`);
    // One pass of the network serves both: its two hidden layers are activated once.
    assert(made.graph.nodes.filter(({ op }) => op === "tanh").length <= 2);
  }));

// In a third derivative libtorch takes a row's mean and deviation as constants, and has other numbers.
Deno.test("the gradient of a gradient goes through layer norm", () =>
  scope(() => {
    manualSeed(1n);
    const parameters = [[16, 1], [16], [16], [16], [1, 16]].map((shape) => ops.randn(shape));
    const net = (x: Tensor) => {
      const [w1, b1, scale, shift, w2] = parameters;
      return ops.linear(ops.tanh(ops.layerNorm(ops.linear(x, w1, b1), [16], scale, shift)), w2);
    };
    const input = ops.randn([24, 1]), target = ops.randn([24, 1]);
    const made = compared({
      input,
      target,
      parameters,
      floor: 1e-2,
      pass() {
        const output = ops.add(gradient(net, input), net(input));
        return { output, loss: ops.mseLoss(output, target) };
      },
    });
    if ("reason" in made) throw new Error(sentenceOf(made));
    assert(made.worst < 1e-4, `${made.worst}`);
  }));
