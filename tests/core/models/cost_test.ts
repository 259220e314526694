import { assert, assertEquals } from "@std/assert";
import { costOf, type ModelCost } from "../../../core/models/cost.ts";
import { factsFor } from "../../../core/models/known_sizes.ts";
import { createModel } from "../../../core/models/registry.ts";
import type { Model } from "../../../core/models/model.ts";
import { liveTensors } from "../../../ffi/tensor.ts";
import { settings } from "../train/rig.ts";
import { open, peer } from "./native.ts";
import { isThere, testOf } from "./there.ts";

open();

interface Answer {
  parameters: number;
  flops: number;
  kept: number;
}

const resnets = ["resnet34", "resnet101"]; // the others are among the cases
const zoo = (...flags: string[]): { model: Model; cost: ModelCost } => {
  const { model: chosen } = settings(...flags);
  const facts = factsFor(chosen);
  const model = createModel(chosen, facts);
  const cost = costOf(model, facts.input);
  model.root.free();
  return { model, cost };
};

// dropout: 0 since PyTorch keeps four bytes per number of what is dropped on a CPU, and one on a GPU.
const still = ["--dropout", "0"];
const CASES: { flags: string[]; ask: Record<string, unknown> }[] = [
  {
    flags: ["--model", "mlp", "--input-size", "30", "--layers", "3"],
    ask: { peer: "mlp", sizes: { inputs: 30, hidden: 64, layers: 3, outputs: 1 }, shape: [30] },
  },
  {
    flags: ["--model", "simple-convnet", ...still],
    ask: {
      peer: "simple_convnet",
      sizes: { channels: 1, height: 28, width: 28, outputs: 10, dropout: 0 },
      shape: [1, 28, 28],
    },
  },
  {
    flags: ["--model", "cosmo-cnn", ...still],
    ask: {
      peer: "cosmo_cnn",
      sizes: { channels: 1, height: 64, width: 64, filters: 8, outputs: 2 },
      shape: [1, 64, 64],
    },
  },
  ...["resnet18", "resnet50"].map((name) => ({
    flags: ["--model", name, "--set", "model.image_size=64"],
    ask: { peer: "resnet", sizes: { name, channels: 3, outputs: 1000 }, shape: [3, 64, 64] },
  })),
  {
    flags: ["--model", "unet", "--set", "model.image_size=32"],
    ask: { peer: "unet", sizes: { channels: 3, filters: 32, outputs: 2 }, shape: [3, 32, 32] },
  },
  {
    flags: ["--model", "unet", "--set", "model.image_size=36", "--padding", "longitude"],
    ask: {
      peer: "unet",
      sizes: { channels: 3, filters: 32, outputs: 2, padding: "longitude" },
      shape: [3, 36, 36],
    },
  },
  {
    flags: ["--model", "unet", "--set", "model.image_size=32", "--residual", "--attention", "gates"],
    ask: {
      peer: "unet",
      sizes: { channels: 3, filters: 32, outputs: 2, residual: true, attention: "gates" },
      shape: [3, 32, 32],
    },
  },
  {
    flags: ["--model", "convlstm", "--set", "model.image_size=16", "--width", "8"],
    ask: {
      peer: "convlstm",
      sizes: { channels: 12, steps: 12, filters: 8, layers: 2, outputs: 1 },
      shape: [12, 16, 16],
    },
  },
  {
    flags: ["--model", "fno", "--set", "model.image_size=32"],
    ask: {
      peer: "fno",
      sizes: { channels: 3, filters: 32, layers: 2, modes: 12, outputs: 2 },
      shape: [3, 32, 32],
    },
  },
  {
    flags: ["--model", "vit", "--set", "model.image_size=32", "--set", "model.patch_size=8", ...still],
    ask: {
      peer: "vit",
      sizes: { image: 32, patch: 8, layers: 2, heads: 4, embed: 128, outputs: 1000 },
      shape: [3, 32, 32],
    },
  },
  {
    flags: [
      ...["--model", "gpt", "--set", "model.vocab_size=500", "--context", "64"],
      ...["--layers", "3", "--embed", "96"],
    ],
    ask: {
      peer: "gpt",
      sizes: { vocabulary: 500, context: 64, layers: 3, heads: 4, embed: 96 },
      shape: [64],
      tokens: true,
    },
  },
];

const THERE = CASES.filter(({ flags }) => isThere(flags[1]));

Deno.test("parameters, FLOPs and kept memory of the zoo are what PyTorch counts", async () => {
  const answers = await peer<Answer>("describe.py", THERE.map(({ ask }) => ask));
  THERE.forEach(({ flags }, i) => {
    const { cost } = zoo(...flags), theirs = answers[i];
    const name = flags[1];
    assertEquals(cost.parameters, theirs.parameters, name);
    assert(Math.abs(cost.flops / theirs.flops - 1) < 0.01, `${name}: ${cost.flops}, torch ${theirs.flops}`);
    assert(
      Math.abs(cost.activations / theirs.kept - 1) < 0.05,
      `${name}: ${cost.activations}, torch ${theirs.kept}`,
    );
  });
});

testOf("resnet18", "the resnets have torchvision's parameters, and the blocks' add up to them", async () => {
  const answers = await peer<Answer>("describe.py", resnets.map((torchvision) => ({ torchvision })));
  resnets.forEach((name, i) => {
    const { cost } = zoo("--model", name, "--set", "model.image_size=32");
    assertEquals(cost.parameters, answers[i].parameters, name);
    assertEquals(cost.blocks.reduce((sum, { parameters }) => sum + parameters, 0), cost.parameters);
  });
});

Deno.test("counting leaves no tensor behind", () => {
  const before = liveTensors();
  zoo("--model", "mlp");
  assertEquals(liveTensors(), before);
});
