// Every module against its twin in torch.nn: initial tensors, forward, gradients and buffers, to the last bit.
import { assertEquals } from "@std/assert";
import { normal } from "../../../core/models/nn/init.ts";
import { backward, boundary, gradOf } from "../../../ffi/autograd.ts";
import { mean, mul, randint, randn } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { open, peer, print } from "./native.ts";
import { CASES, type NnCase } from "./nn_cases.ts";

type Named = [name: string, print: string][];
interface Result {
  state: Named;
  train: string;
  gradients: Named;
  "input gradient": string;
  buffers: Named;
  eval: string;
}

open();
const theirs = await peer<Result>("nn.py", CASES.map(({ make: _, ...rest }) => rest));

for (const [i, nnCase] of CASES.entries()) {
  const { module, args, options, input } = nnCase;
  const told = [...args.map((a) => JSON.stringify(a)), ...Object.entries(options).map((o) => o.join("="))];
  Deno.test(`torch.nn's bits: ${module}(${told.join(", ")}) of [${input.shape.join(", ")}]`, async () => {
    const ours = await run(nnCase);
    for (const part of Object.keys(ours) as (keyof Result)[]) assertEquals(ours[part], theirs[i][part], part);
  });
}

async function run({ make, input: { shape, below } }: NnCase): Promise<Result> {
  manualSeed(1n);
  const module = make();
  const state = await prints(module.stateDict());
  manualSeed(2n);
  for (const [, p] of module.namedParameters()) normal(p, 0, 0.5);
  const x = below === undefined ? boundary(randn(shape)) : randint(0, below, shape, "i64");
  manualSeed(3n);
  const y = module.forward(x);
  scope(() => backward(mean(mul(y, y))));
  const result = {
    state,
    train: await print(y),
    gradients: await prints(module.namedParameters().map(([name, p]) => [name, gradOf(p)!])),
    "input gradient": below === undefined ? await print(gradOf(x)!) : "none",
    buffers: await prints(module.namedBuffers()),
  };
  module.train(false);
  const evaluated = await print(scope(() => module.forward(x)));
  module.free();
  return { ...result, eval: evaluated };
}

async function prints(named: [string, Tensor][]): Promise<Named> {
  return await Promise.all(named.map(async ([name, t]) => [name, await print(t)] as Named[number]));
}
