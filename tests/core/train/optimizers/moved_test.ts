// Momentum and weight decay that a schedule moves, against torch.optim with other numbers in its group at each step.
import { assert, assertEquals } from "@std/assert";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import { OPTIMIZER_READS } from "../../../../core/settings/sections/optimizer.ts";
import { createOptimizer, optimizersThat } from "../../../../core/train/optimizers.ts";
import type { OptimizerSettings } from "../../../../core/train/optimizers/optimizer.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { randn } from "../../../../ffi/ops.ts";
import { liveTensors } from "../../../../ffi/tensor.ts";
import { peer } from "../peer.ts";
import { open, rig, rows, run, settings, weights } from "../rig.ts";

open();
const STEPS = 200;
const momenta = Array.from({ length: STEPS }, (_, i) => 0.95 - 0.1 * Math.abs((i % 20) / 10 - 1));
const decays = Array.from({ length: STEPS }, (_, i) => 1 + i / 10);
const ratesOf = (lr = 0.01) => Array.from({ length: STEPS }, (_, i) => lr * (1 + (i % 3) / 10));

interface Case {
  readonly type: string;
  readonly options: { readonly weight_decay: number; readonly [name: string]: number | boolean };
  readonly lr?: number;
}

const CASES: readonly Case[] = [
  { type: "SGD", options: { momentum: 0.9, weight_decay: 0.02 } },
  { type: "SGD", options: { momentum: 0.9, nesterov: true, weight_decay: 0.02 } },
  { type: "AdamW", options: { weight_decay: 0.02 } },
  { type: "Adam", options: { weight_decay: 0.02, amsgrad: true } },
  { type: "AdamW", options: { weight_decay: 0.02, fused: false } },
  { type: "RMSprop", options: { momentum: 0.9, weight_decay: 0.02 }, lr: 1e-4 },
  { type: "RMSprop", options: { momentum: 0.9, weight_decay: 0.02, centered: true }, lr: 1e-4 },
  { type: "NAdam", options: { weight_decay: 0.02 } },
  { type: "NAdam", options: { weight_decay: 0.02, decoupled_weight_decay: true } },
  { type: "RAdam", options: { weight_decay: 0.02 } },
  { type: "Adamax", options: { weight_decay: 0.02 } },
];

Deno.test("momentum and weight decay that move have torch's bits", async () => {
  const theirs = await peer<{ losses: number[]; weights: string[] }[]>(
    "optimizers.py",
    CASES.map(({ type, options, lr }) => ({
      ...{ type, options, rates: ratesOf(lr) },
      moved: momenta.map((momentum, i) => ({
        ...("momentum" in options ? { momentum } : { betas: [momentum, 0.999] }),
        weight_decay: options.weight_decay * decays[i],
      })),
    })),
  );
  for (const [i, { type, options, lr }] of CASES.entries()) {
    const given = Object.entries(options).flatMap((
      [name, value],
    ) => ["--set", `training.optimizer.${name}=${value}`]);
    manualSeed(1n);
    const model = mlp({ inputs: 7, hidden: 37, layers: 2, outputs: 1 });
    const made = rig(model, rows, { flags: ["--optimizer", type.toLowerCase(), ...given] });
    manualSeed(2n);
    const batch = { input: randn([32, 7]), target: randn([32, 1]) };
    const losses = ratesOf(lr).map((lr, number) => {
      made.step.optimizer.move!({ momentum: momenta[number], decay: decays[number] });
      return run(made, [batch], { number, lr }).loss;
    });
    assertEquals(losses, theirs[i].losses, type);
    assertEquals(await weights(made), theirs[i].weights, type);
  }
});

Deno.test("an optimizer moves its momentum where its trait says so", () => {
  const able = optimizersThat(({ moves }) => moves === true);
  assert(
    ["adamw", "sgd", "rmsprop", "nadam", "radam", "adamax", "muon"].every((type) => able.includes(type)),
  );
  for (const type of Object.keys(OPTIMIZER_READS) as OptimizerSettings["type"][]) {
    const model = mlp({ inputs: 7, hidden: 8, layers: 1, outputs: 1 }), { arena } = rig(model, rows);
    const given = { ...settings().training.optimizer, type };
    assertEquals(createOptimizer(given, arena, model.root).move !== undefined, able.includes(type), type);
  }
});

Deno.test("numbers that move from step to step leave no tensors behind", () => {
  const batch = { input: randn([8, 7]), target: randn([8, 1]) };
  for (const type of optimizersThat(({ moves }) => moves === true)) {
    const flags = ["--optimizer", type, "--set", "training.optimizer.weight_decay=0.02"];
    const made = rig(mlp({ inputs: 7, hidden: 8, layers: 2, outputs: 1 }), rows, { flags });
    const counts = momenta.slice(0, 9).map((momentum, number) => {
      made.step.optimizer.move!({ momentum, decay: decays[number] });
      run(made, [batch], { number, lr: 0.01 });
      return liveTensors();
    });
    assertEquals(new Set(counts.slice(3)).size, 1, `${type}: ${counts.join()}`);
  }
});

for (const type of optimizersThat(({ moves }) => moves === true)) {
  Deno.test(`${type} with moved numbers takes the steps of one that was opened with them`, async () => {
    const decay = 0.02, reads = OPTIMIZER_READS[type as keyof typeof OPTIMIZER_READS] as readonly string[];
    const taken = (momentum: number, share: number, moves: boolean) => {
      manualSeed(1n);
      const has = (name: string) => reads.includes(name);
      // Where there are betas, torch's schedules move those.
      const names = ["muon_momentum", has("beta1") ? "beta1" : "momentum"].filter(has);
      const flags = [...names.map((name) => `${name}=${momentum}`), `weight_decay=${decay * share}`]
        .flatMap((text) => ["--set", `training.optimizer.${text}`]);
      const model = mlp({ inputs: 7, hidden: 9, layers: 3, outputs: 1 });
      const made = rig(model, rows, { flags: ["--optimizer", type, ...flags] });
      manualSeed(2n);
      const batch = { input: randn([32, 7]), target: randn([32, 1]) };
      for (let number = 0; number < 4; number++) {
        if (moves) made.step.optimizer.move!({ momentum: 0.7, decay: 2 });
        run(made, [batch], { number, lr: 0.01 });
      }
      return weights(made);
    };
    const moved = await taken(0.9, 1, true);
    assertEquals(moved, await taken(0.7, 2, false));
    assert(JSON.stringify(moved) !== JSON.stringify(await taken(0.9, 1, false)));
  });
}
