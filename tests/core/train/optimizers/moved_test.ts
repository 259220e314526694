// Momentum and weight decay that a schedule moves, against torch.optim with other numbers in its group at each step.
import { assertEquals } from "@std/assert";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import { OPTIMIZER_READS } from "../../../../core/settings/sections/optimizer.ts";
import { createOptimizer, optimizersThat } from "../../../../core/train/optimizers.ts";
import type { OptimizerSettings } from "../../../../core/train/optimizers/optimizer.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { randn } from "../../../../ffi/ops.ts";
import { peer } from "../peer.ts";
import { open, rig, rows, run, settings, weights } from "../rig.ts";

open();
const STEPS = 60;
const momenta = Array.from({ length: STEPS }, (_, i) => 0.95 - 0.1 * Math.abs((i % 20) / 10 - 1));
const decays = Array.from({ length: STEPS }, (_, i) => 1 + i / 10);
const rates = Array.from({ length: STEPS }, (_, i) => 0.01 * (1 + (i % 3) / 10));

const CASES = [
  { type: "SGD", options: { momentum: 0.9, weight_decay: 0.02 } },
  { type: "SGD", options: { momentum: 0.9, nesterov: true, weight_decay: 0.02 } },
  { type: "AdamW", options: { weight_decay: 0.02 } },
  { type: "Adam", options: { weight_decay: 0.02, amsgrad: true } },
] as const;

Deno.test("momentum and weight decay that move have torch's bits", async () => {
  const theirs = await peer<{ losses: number[]; weights: string[] }[]>(
    "optimizers.py",
    CASES.map(({ type, options }) => ({
      ...{ type, options, rates },
      moved: momenta.map((momentum, i) => ({
        ...(type === "SGD" ? { momentum } : { betas: [momentum, 0.999] }),
        weight_decay: options.weight_decay * decays[i],
      })),
    })),
  );
  for (const [i, { type, options }] of CASES.entries()) {
    const given = Object.entries(options).flatMap((
      [name, value],
    ) => ["--set", `training.optimizer.${name}=${value}`]);
    manualSeed(1n);
    const model = mlp({ inputs: 7, hidden: 37, layers: 2, outputs: 1 });
    const made = rig(model, rows, { flags: ["--optimizer", type.toLowerCase(), ...given] });
    manualSeed(2n);
    const batch = { input: randn([32, 7]), target: randn([32, 1]) };
    const losses = rates.map((lr, number) => {
      made.step.optimizer.move!({ momentum: momenta[number], decay: decays[number] });
      return run(made, [batch], { number, lr }).loss;
    });
    assertEquals(losses, theirs[i].losses, type);
    assertEquals(await weights(made), theirs[i].weights, type);
  }
});

Deno.test("an optimizer moves its momentum where its trait says so", () => {
  const able = optimizersThat(({ moves }) => moves === true);
  assertEquals(able, ["adamw", "adam", "sgd"]);
  for (const type of Object.keys(OPTIMIZER_READS) as OptimizerSettings["type"][]) {
    const model = mlp({ inputs: 7, hidden: 8, layers: 1, outputs: 1 }), { arena } = rig(model, rows);
    const given = { ...settings().training.optimizer, type };
    assertEquals(createOptimizer(given, arena, model.root).move !== undefined, able.includes(type), type);
  }
});
