// Models that stress how a pass goes through blocks: dropout, batch norm, skip connections, autocast. Test helper.
import { block, type Facts, type Model, model } from "../../../core/models/model.ts";
import { Linear } from "../../../core/models/nn/linear.ts";
import { Group } from "../../../core/models/nn/module.ts";
import { convLstm } from "../../../core/models/zoo/convlstm.ts";
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { resnet } from "../../../core/models/zoo/resnet.ts";
import { unet } from "../../../core/models/zoo/unet.ts";
import {
  div,
  meanDim,
  mul,
  randint,
  randn,
  reshape,
  scaledDotProductAttention as attention,
  sigmoid,
  toDtype,
  transpose,
} from "../../../ffi/ops.ts";
import { add, scalar } from "../../../ffi/make.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { liveTensors, type Tensor } from "../../../ffi/tensor.ts";
import { assertEquals } from "@std/assert";
import { print } from "../models/native.ts";
import { type Rig, rig, type RigOptions, run, weights } from "./rig.ts";

export interface Case {
  title: string;
  make: () => Model;
  facts: Facts;
  input: () => Tensor;
  target: () => Tensor;
  cast?: "bf16";
}

const tokens = () => randint(0, 65, [3, 32], "i64");
const language: Facts = { task: "language", input: { shape: [32], dtype: "i64" }, outputs: 65 };
export const CASES: Case[] = [
  {
    title: "gpt with dropout",
    make: () => gpt({ vocabulary: 65, context: 32, layers: 3, heads: 2, embed: 32, dropout: 0.1 }),
    facts: language,
    input: tokens,
    target: tokens,
  },
  {
    title: "gpt with dropout in bf16",
    make: () => gpt({ vocabulary: 65, context: 32, layers: 3, heads: 2, embed: 32, dropout: 0.1 }),
    facts: language,
    input: tokens,
    target: tokens,
    cast: "bf16",
  },
  {
    title: "resnet18 with batch norm",
    make: () => resnet("resnet18", { channels: 3, outputs: 10 }),
    facts: { task: "classification", input: { shape: [3, 32, 32], dtype: "f32" }, outputs: 10 },
    input: () => randn([4, 3, 32, 32]),
    target: () => randint(0, 10, [4], "i64"),
  },
  {
    title: "unet, with skip connections between blocks,",
    make: () => unet({ channels: 2, filters: 4, outputs: 3 }),
    facts: { task: "segmentation", input: { shape: [2, 16, 16], dtype: "f32" }, outputs: 3 },
    input: () => randn([2, 2, 16, 16]),
    target: () => randint(0, 3, [2, 16, 16], "i64"),
  },
  {
    title: "unet with a frame around its maps and dropout",
    make: () => unet({ channels: 2, filters: 4, outputs: 3, depth: 2, padding: "longitude", dropout: 0.1 }),
    facts: { task: "segmentation", input: { shape: [2, 13, 15], dtype: "f32" }, outputs: 3 },
    input: () => randn([2, 2, 13, 15]),
    target: () => randint(0, 3, [2, 13, 15], "i64"),
  },
  {
    title: "unet with attention gates and residual blocks",
    make: () => unet({ channels: 2, filters: 4, outputs: 3, depth: 2, attention: "gates", residual: true }),
    facts: { task: "segmentation", input: { shape: [2, 16, 16], dtype: "f32" }, outputs: 3 },
    input: () => randn([2, 2, 16, 16]),
    target: () => randint(0, 3, [2, 16, 16], "i64"),
  },
  {
    title: "convlstm with dropout",
    make: () => convLstm({ channels: 6, steps: 3, filters: 4, layers: 2, outputs: 3, dropout: 0.1 }),
    facts: { task: "regression", input: { shape: [6, 8, 8], dtype: "f32" }, outputs: 3 },
    input: () => randn([2, 6, 8, 8]),
    target: () => randn([2, 3, 8, 8]),
  },
];

/** An autoencoder whose encoder's result is rounded to bytes, as diffusers' AutoencoderTiny does: its decoder alone learns. */
export const ROUNDED: Case = {
  title: "an autoencoder with bytes in its middle",
  make: () => {
    const encoder = new Linear(7, 5), decoder = new Linear(5, 6), last = new Linear(6, 7);
    return model("rounded", new Group({ encoder, decoder, last }), [
      block("encoder", encoder, (x) => encoder.forward(x)),
      block("bytes", null, (x) => toDtype(mul(sigmoid(x), scalar(255)), "u8")),
      block("numbers", null, (x) => div(toDtype(x, "f32"), scalar(255))),
      block("decoder", decoder, (x) => decoder.forward(x)),
      block("last", last, (x) => last.forward(x)),
    ], { layers: "7-5-6-7" });
  },
  facts: { task: "regression", input: { shape: [7], dtype: "f32" }, outputs: 7 },
  input: () => randn([4, 7]),
  target: () => randn([4, 7]),
};

/** Attention with a learnt bias, as swin and levit have: another kernel, of other bits, where the bias asks for no gradient. */
export const BIASED: Case = {
  title: "attention with a learnt bias",
  make: () => {
    const layers = [0, 1, 2].map(() => new Linear(40, 40)), last = new Linear(40, 7);
    const attend = (layer: Linear, x: Tensor) => {
      const heads = reshape(x, [4, 40, 2, 20]), h = transpose(heads, 1, 2);
      const y = attention(h, h, h, sigmoid(layer.weight), 0, false, null, false);
      return add(x, layer.forward(reshape(transpose(y, 1, 2), [4, 40, 40])));
    };
    return model("biased", new Group({ ...Object.fromEntries(layers.entries()), last }), [
      ...layers.map((layer, i) => block(`attention ${i}`, layer, (x) => attend(layer, x))),
      block("last", last, (x) => last.forward(meanDim(x, [1]))),
    ], { layers: "40-40-40-7" });
  },
  facts: { task: "regression", input: { shape: [40, 40], dtype: "f32" }, outputs: 7 },
  input: () => randn([4, 40, 40]),
  target: () => randn([4, 7]),
};

/** Losses, gradients and at the end weights with running statistics, of 5 steps. */
export async function train(
  { make, facts, input, target, cast }: Case,
  options: RigOptions,
  more: (made: Rig) => Partial<Rig["step"]> = () => ({}),
) {
  manualSeed(7n);
  const plain = rig(make(), facts, { cast, ...options });
  const made = { ...plain, step: { ...plain.step, ...more(plain) } };
  const losses: number[] = [], gradients: string[] = [], live: number[] = [];
  for (let number = 0; number < 5; number++) {
    manualSeed(BigInt(100 + number));
    const batch = { input: input(), target: target() };
    losses.push(run(made, [batch], { number }).loss);
    batch.input.free();
    batch.target.free();
    if (!options.direct) gradients.push(await print(made.arena.gradient));
    live.push(liveTensors());
  }
  assertEquals(live[4], live[2], "tensors left behind");
  return { losses, gradients, weights: await weights(made) };
}
