// The library as a user's own script sees it: nothing but mod.ts.
import { assert } from "@std/assert";
import {
  createLoss,
  createOptimizer,
  type Facts,
  getDebugConfig,
  manualSeed,
  model,
  nn,
  openDevice,
  ops,
  packParameters,
  scope,
  type Tensor,
  trainStep,
} from "../mod.ts";

class Net extends nn.Module {
  readonly #in = this.child("in", new nn.Linear(2, 16));
  readonly #out = this.child("out", new nn.Linear(16, 1));
  forward(x: Tensor): Tensor {
    return this.#out.forward(ops.tanh(this.#in.forward(x)));
  }
}

// Opened outside of the test: a library stays loaded for the life of the process.
const config = getDebugConfig();
const { device } = openDevice(config);

Deno.test("an own model and an own loop learn a product with mod.ts alone", () => {
  manualSeed(0n);
  const net = new Net();
  const facts: Facts = { task: "regression", input: { shape: [2], dtype: "f32" }, outputs: 1 };
  const whole = { name: "net", module: net, forward: (x: unknown) => net.forward(x as Tensor) };
  const mine = model("net", net, [whole], { layers: "2-16-1" });
  const loss = createLoss(config.training, facts);
  const arena = packParameters(net.namedParameters(), device);
  const optimizer = createOptimizer(config.training.optimizer, arena);
  const pass = { model: mine, loss, cast: null, onGpu: device !== "cpu", seeds: null };
  const options = { pass, arena, optimizer, scaler: null, checkpointing: false, clipNorm: 0, observe: null };
  const losses: number[] = [];
  for (let i = 0; i < 400; i++) {
    const result = scope(() => {
      const input = ops.randn([64, 2]);
      const target = ops.mul(ops.narrow(input, 1, 0, 1), ops.narrow(input, 1, 1, 1));
      return trainStep(options, [{ input, target }], [1], 1e-2, false, i);
    });
    losses.push(result.loss.item());
    result.loss.free();
  }
  const mean = (values: number[]) => values.reduce((a, b) => a + b) / values.length;
  assert(mean(losses.slice(-20)) < 0.2 * mean(losses.slice(0, 20)), `${losses[0]} -> ${losses.at(-1)}`);
});
