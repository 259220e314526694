// Gradient checkpointing: the same bits as without, in less memory.
import { assert, assertEquals } from "@std/assert";
import type { Facts, Model } from "../../../core/models/model.ts";
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { resnet } from "../../../core/models/zoo/resnet.ts";
import { unet } from "../../../core/models/zoo/unet.ts";
import { randint, randn } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/random.ts";
import { liveTensors, type Tensor } from "../../../ffi/tensor.ts";
import { print } from "../models/native.ts";
import { open, rig, run, weights } from "./rig.ts";

open();

interface Case {
  title: string;
  make: () => Model;
  facts: Facts;
  input: () => Tensor;
  target: () => Tensor;
  cast?: "bf16";
}

const tokens = () => randint(0, 65, [3, 32], "i64");
const language: Facts = { task: "language", input: { shape: [32], dtype: "i64" }, outputs: 65 };
const CASES: Case[] = [
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
];

/** Losses, gradients and at the end weights with running statistics, of 5 steps. */
async function train({ make, facts, input, target, cast }: Case, checkpointing: boolean, direct: boolean) {
  manualSeed(7n);
  const made = rig(make(), facts, { checkpointing, cast, direct });
  const losses: number[] = [], gradients: string[] = [], live: number[] = [];
  for (let number = 0; number < 5; number++) {
    manualSeed(BigInt(100 + number));
    const batch = { input: input(), target: target() };
    losses.push(run(made, [batch], { number }).loss);
    batch.input.free();
    batch.target.free();
    if (!direct) gradients.push(await print(made.arena.gradient));
    live.push(liveTensors());
  }
  assertEquals(live[4], live[2], "tensors left behind");
  return { losses, gradients, weights: await weights(made) };
}

for (const zooCase of CASES) {
  for (const direct of [false, true]) {
    const way = direct ? "autograd's own gradients" : "a gradient arena";
    Deno.test(`${zooCase.title} has the same bits with gradient checkpointing, with ${way}`, async () => {
      const without = await train(zooCase, false, direct);
      assert(new Set(without.losses).size === 5, "five steps, five losses");
      assertEquals(await train(zooCase, true, direct), without);
    });
  }
}

Deno.test("gpt 8 x 256 at sequence 512 needs at most half the memory with gradient checkpointing", async () => {
  const peak = async (mode: string) => {
    const program = new URL("peak_memory_program.ts", import.meta.url).pathname;
    const args = ["run", "-A", "--no-check", program, mode];
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
    assert(success, new TextDecoder().decode(stderr));
    return Number(new TextDecoder().decode(stdout));
  };
  const without = await peak("straight"), recomputed = await peak("checkpointed");
  assert(without > 100, `${without} MB without: too little to tell anything from`);
  assert(recomputed <= 0.5 * without, `${recomputed} MB, against ${without} MB without`);
});
