// The small models of scientists that compiled steps are measured with; bench/peers/models.py says the same in Python.
import { type Block, block, type Model, model } from "../core/models/model.ts";
import { Linear } from "../core/models/nn/linear.ts";
import { Group } from "../core/models/nn/module.ts";
import { gradient } from "../ffi/autograd.ts";
import { add, constant } from "../ffi/make.ts";
import { mul, narrow, relu, tanh } from "../ffi/ops.ts";
import type { Tensor } from "../ffi/tensor.ts";
import type { Workload } from "./workloads.ts";

export type CompiledName = "icenet" | "tanh" | "pinn" | "ode";

interface Made extends Workload {
  make(): Model;
}

type Step = (layers: readonly Linear[], x: Tensor) => Tensor;

function layered(name: string, widths: readonly number[], forward: Step): Model {
  const root = new Group();
  const layers = widths.slice(1).map((width, i) => root.add(i, new Linear(widths[i], width)));
  const blocks: Block[] = [block(name, root, (x) => forward(layers, x))];
  return model(name, root, blocks, { layers: widths.join("-") });
}

const through = (act: (x: Tensor) => Tensor): Step => (layers, x) =>
  layers.reduce((y, layer, i) => i === layers.length - 1 ? layer.forward(y) : act(layer.forward(y)), x);

/** The residual of the heat equation, u_t - u_xx, of a network of (x, t). */
const heat: Step = (layers, points) => {
  const u = (at: Tensor) => through(tanh)(layers, at);
  const slope = (at: Tensor) => gradient(u, at);
  const inTime = narrow(slope(points), 1, 1, 1);
  const bend = narrow(gradient((at) => narrow(slope(at), 1, 0, 1), points), 1, 0, 1);
  return add(inTime, mul(bend, constant(-1)));
};

/** Eight steps of Euler's method. */
const euler: Step = (layers, x) => {
  let y = x;
  for (let i = 0; i < 8; i++) y = add(y, mul(through(tanh)(layers, y), constant(0.125)));
  return y;
};

const rest = {
  flags: ["--model", "mlp", "--optimizer", "adamw", "--weight-decay", "0.01"],
  threads: 1,
  learningRate: 1e-3,
};
const facts = (inputs: number, outputs: number): Workload["facts"] => ({
  task: "regression",
  input: { shape: [inputs], dtype: "f32" },
  outputs,
});

export const compiledWorkloads: Readonly<Record<CompiledName, Made>> = {
  icenet: {
    ...{
      ...rest,
      title: "IceNet-like MLP 20-256-256-128-1, batch 64",
      facts: facts(20, 1),
      batch: 64,
      steps: 1000,
    },
    make: () => layered("icenet", [20, 256, 256, 128, 1], through(relu)),
  },
  tanh: {
    ...{ ...rest, title: "tanh MLP 7-128-128-1, batch 256", facts: facts(7, 1), batch: 256, steps: 800 },
    make: () => layered("tanh", [7, 128, 128, 1], through(tanh)),
  },
  pinn: {
    ...{
      ...rest,
      title: "PINN 2-64-64-1 with second derivatives, batch 128",
      facts: facts(2, 1),
      batch: 128,
      steps: 300,
    },
    make: () => layered("pinn", [2, 64, 64, 1], heat),
  },
  ode: {
    ...{
      ...rest,
      title: "Neural ODE, 8 steps of an MLP 16-64-16, batch 64",
      facts: facts(16, 16),
      batch: 64,
      steps: 400,
    },
    make: () => layered("ode", [16, 64, 16], euler),
  },
};
