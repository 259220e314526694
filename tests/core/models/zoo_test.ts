// Every zoo model against the same model in live PyTorch: initial weights, forward and gradients, to the last bit.
import { assertEquals } from "@std/assert";
import { backward, boundary, gradOf } from "../../../ffi/autograd.ts";
import { constant } from "../../../ffi/make.ts";
import { randint, randn } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { liveTensors, scope, type Tensor } from "../../../ffi/tensor.ts";
import { normal } from "../../../core/models/nn/init.ts";
import { createLoss } from "../../../core/models/losses.ts";
import { type Activation, type Facts, forward, type Model } from "../../../core/models/model.ts";
import { imagesLast } from "../../../core/train/feed.ts";
import { CASES, type ZooCase } from "./zoo_cases.ts";
import { open, peer, print } from "./native.ts";

type Named = [name: string, print: string][];
interface Result {
  state: Named;
  input: string;
  train: string;
  loss: string;
  gradients: Named;
  buffers: Named;
  eval: string;
}

open();
// Constants live for ever: make them before counting.
constant(0, "i64"), constant(1, "i64"), constant(-2), constant(2);
const theirs = await peer<Result>(
  "zoo.py",
  CASES.map(({ title: _, make: __, ...rest }) => rest),
);

for (const [i, zooCase] of CASES.entries()) {
  Deno.test(`${zooCase.title} has PyTorch's bits: weights, outputs, loss, gradients`, async () => {
    const before = liveTensors();
    const ours = await run(zooCase);
    assertEquals(ours.state.map(([name]) => name), theirs[i].state.map(([name]) => name), "names and order");
    for (const part of Object.keys(ours) as (keyof Result)[]) assertEquals(ours[part], theirs[i][part], part);
    assertEquals(liveTensors(), before, "tensors left behind");
  });
}

async function run({ make, input, target, task, redraw, channelsLast }: ZooCase): Promise<Result> {
  manualSeed(1n);
  const model = make();
  const state = await prints(model.root.stateDict());
  manualSeed(2n);
  if (redraw) { for (const [, p] of model.root.namedParameters()) normal(p, 0, 0.05); }
  const x = channelsLast ? scope(() => imagesLast(made(input))) : made(input), y = made(target);
  manualSeed(3n);
  const { output, loss } = scope(() => trained(model, x, (output) => lossFor(task, output, y)));
  const gradients = model.root.namedParameters().map(([name, p]): [string, Tensor] => [name, gradOf(p)!]);
  const result = {
    state,
    input: await print(x),
    train: await print(output),
    loss: await print(loss),
    gradients: await prints(gradients),
    buffers: await prints(model.root.namedBuffers()),
    eval: await evaluated(model, x),
  };
  for (const t of [x, y, output, loss, ...gradients.map(([, g]) => g)]) t.free();
  model.root.free();
  return result;
}

/** Forward and backward block by block, with a detached leaf between each two, as training does it. */
function trained(model: Model, x: Tensor, lossOf: (output: Tensor) => Tensor) {
  const outputs: Tensor[] = [], leaves: Tensor[] = [];
  let input: Activation = x;
  for (const block of model.blocks) {
    const [output, ...handedOn] = list(block.forward(input));
    outputs.push(output);
    leaves.push(boundary(output));
    input = [leaves.at(-1)!, ...handedOn];
    if (handedOn.length === 0) input = input[0];
  }
  const loss = lossOf(leaves.at(-1)!);
  backward(loss);
  for (let i = outputs.length - 1; i >= 0; i--) backward(outputs[i], gradOf(leaves[i]));
  return { output: outputs.at(-1)!, loss };
}
const list = (x: Activation) => (Array.isArray(x) ? x : [x]) as readonly Tensor[];

async function evaluated(model: Model, x: Tensor): Promise<string> {
  model.root.train(false);
  const output = scope(() => forward(model, x)) as Tensor;
  const shown = await print(output);
  output.free();
  return shown;
}

function lossFor(task: Facts["task"], output: Tensor, target: Tensor): Tensor {
  const settings = { loss: "auto", label_smoothing: 0, ignore_index: -100, huber_delta: 1 } as const;
  const outputs = output.shape[task === "language" ? output.shape.length - 1 : 1];
  const loss = createLoss(settings, { task, input: { shape: [], dtype: "f32" }, outputs });
  return loss.apply(output, target);
}

function made({ shape, below }: ZooCase["input"]): Tensor {
  return below === undefined ? randn(shape) : randint(0, below, shape, "i64");
}

async function prints(named: [string, Tensor][]): Promise<Named> {
  return await Promise.all(named.map(async ([name, t]) => [name, await print(t)] as Named[number]));
}
