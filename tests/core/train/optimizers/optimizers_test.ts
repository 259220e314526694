// Each optimizer against torch.optim's, in live Python: the same losses and weights to the last bit, and state that goes on from
// one to the other. torch picks the form: one tensor after the other on a CPU; for Adam, AdamW and SGD the fused one is asked for, and both of Adam's.
import { assertAlmostEquals, assertEquals } from "@std/assert";
import { adopt } from "../../../../core/checkpoint/adopt.ts";
import { loadTraining, type StateParts, toTree } from "../../../../core/checkpoint/training_state.ts";
import { readPt, writePt } from "../../../../core/checkpoint/pt.ts";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import type { MicroBatch } from "../../../../core/train/micro_batch.ts";
import { optimizersThat } from "../../../../core/train/optimizers.ts";
import { noGrad } from "../../../../ffi/autograd.ts";
import { randn, toDtype } from "../../../../ffi/ops.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { keep, type Tensor } from "../../../../ffi/tensor.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { peer } from "../peer.ts";
import { open, type Rig, rig, rows, run, weights } from "../rig.ts";

open();

const STEPS = 200, HALF = STEPS / 2;

interface Case {
  /** The class in torch.optim, its learning rate and its arguments. */
  readonly type: string;
  readonly lr?: number;
  readonly options: Readonly<Record<string, number | boolean | string | readonly number[]>>;
  /** Weights and data are f64. */
  readonly double?: true;
}

const IN_SINGLES: readonly Case[] = [
  { type: "AdamW", options: { weight_decay: 0.01 } },
  { type: "AdamW", options: { weight_decay: 0.3, betas: [0.9, 0.95] } },
  { type: "AdamW", options: { weight_decay: 0.1, amsgrad: true } },
  { type: "Adam", options: { weight_decay: 0.02 } },
  { type: "Adam", options: { weight_decay: 0, amsgrad: true, maximize: true }, lr: 1e-4 },
  { type: "AdamW", options: { weight_decay: 0.1, fused: false } },
  { type: "Adam", options: { weight_decay: 0.02, betas: [0.8, 0.99], eps: 1e-6, fused: false } },
  { type: "Adam", options: { weight_decay: 0, amsgrad: true, maximize: true, fused: false }, lr: 1e-4 },
  { type: "SGD", options: { weight_decay: 0 } },
  { type: "SGD", options: { momentum: 0.9, weight_decay: 0.01 } },
  { type: "SGD", options: { momentum: 0.8, nesterov: true, weight_decay: 0.1 } },
  { type: "SGD", options: { momentum: 0.9, dampening: 0.3, weight_decay: 0.1 } },
  { type: "SGD", options: { momentum: 0.5, weight_decay: 0, maximize: true }, lr: 1e-4 },
  { type: "Adadelta", options: {}, lr: 1 },
  { type: "Adadelta", options: { rho: 0.8, eps: 1e-5, weight_decay: 0.1 }, lr: 1 },
  { type: "Adadelta", options: { maximize: true }, lr: 0.01 },
  { type: "Adafactor", options: {} },
  { type: "Adafactor", options: { beta2_decay: -0.5, eps: [1e-6, 0.01], d: 1.5, weight_decay: 0.1 } },
  { type: "Adafactor", options: { maximize: true }, lr: 1e-4 },
  { type: "Adagrad", options: {} },
  {
    type: "Adagrad",
    options: { lr_decay: 0.01, weight_decay: 0.1, initial_accumulator_value: 0.2, eps: 1e-8 },
  },
  { type: "Adagrad", options: { maximize: true }, lr: 1e-4 },
  { type: "Adamax", options: {} },
  { type: "Adamax", options: { betas: [0.8, 0.99], eps: 1e-6, weight_decay: 0.1 } },
  { type: "Adamax", options: { maximize: true }, lr: 1e-4 },
  { type: "ASGD", options: {} },
  { type: "ASGD", options: { lambd: 0.01, alpha: 0.5, t0: 20, weight_decay: 0.1 } },
  { type: "ASGD", options: { maximize: true }, lr: 1e-4 },
  { type: "LBFGS", options: {}, lr: 0.5 },
  { type: "LBFGS", options: { max_iter: 4, history_size: 3, tolerance_change: 1e-5 }, lr: 0.3 },
  { type: "LBFGS", options: { line_search_fn: "strong_wolfe", max_iter: 2, history_size: 5 }, lr: 1 },
  { type: "LBFGS", options: { line_search_fn: "strong_wolfe", max_eval: 7 }, lr: 30 },
  { type: "LBFGS", options: { maximize: true, max_iter: 1 }, lr: 1e-5 },
  { type: "NAdam", options: {} },
  { type: "NAdam", options: { betas: [0.8, 0.99], eps: 1e-6, momentum_decay: 0.01, weight_decay: 0.1 } },
  { type: "NAdam", options: { weight_decay: 0.1, decoupled_weight_decay: true } },
  { type: "NAdam", options: { maximize: true }, lr: 1e-4 },
  { type: "RAdam", options: {} },
  { type: "RAdam", options: { betas: [0.8, 0.99], eps: 1e-6, weight_decay: 0.1 } },
  { type: "RAdam", options: { weight_decay: 0.1, decoupled_weight_decay: true } },
  { type: "RAdam", options: { maximize: true }, lr: 1e-4 },
  { type: "RMSprop", options: {} },
  { type: "RMSprop", options: { alpha: 0.9, eps: 1e-6, momentum: 0.9, weight_decay: 0.1 }, lr: 1e-3 },
  { type: "RMSprop", options: { centered: true, weight_decay: 0.1 } },
  { type: "RMSprop", options: { centered: true, momentum: 0.5 }, lr: 1e-3 },
  { type: "RMSprop", options: { maximize: true }, lr: 1e-4 },
  { type: "Rprop", options: {} },
  { type: "Rprop", options: { etas: [0.4, 1.1], step_sizes: [1e-4, 0.1] } },
  { type: "Rprop", options: { maximize: true, step_sizes: [1e-6, 1e-4] }, lr: 1e-5 },
];

const CASES = [...IN_SINGLES, ...IN_SINGLES.map((one): Case => ({ ...one, double: true }))];

/** Settings of ours for torch's tuples. */
const TUPLES: Readonly<Record<string, readonly string[]>> = {
  betas: ["beta1", "beta2"],
  eps: ["eps1", "eps2"],
  etas: ["etaminus", "etaplus"],
  step_sizes: ["step_size_min", "step_size_max"],
};

function flagsOf({ type, options }: Case): string[] {
  const given = Object.entries(options).flatMap(([name, value]) =>
    typeof value === "object" ? value.map((one, i) => [TUPLES[name][i], one]) : [[name, value]]
  );
  // The defaults of these are not PyTorch's.
  if (type === "SGD" && options.momentum === undefined) given.push(["momentum", 0]);
  return [
    ...["--optimizer", type.toLowerCase()],
    ...given.flatMap(([name, value]) => ["--set", `training.optimizer.${name}=${value}`]),
  ];
}

/** They change from step to step, as with a schedule. */
const ratesOf = ({ lr = 0.01 }: Case, from = 0, to = STEPS): number[] =>
  Array.from({ length: to - from }, (_, i) => lr * (1 + ((from + i) % 3) / 10));

const nameOf = ({ type, options, double }: Case): string =>
  `${type}(${Object.entries(options).map(([name, value]) => `${name}=${value}`).join(", ")})${
    double ? " of f64" : ""
  }`;

interface Made {
  readonly rig: Rig;
  readonly batch: MicroBatch;
}

function made(flags: readonly string[], { direct = false, double = false } = {}): Made {
  manualSeed(1n);
  const model = mlp({ inputs: 7, hidden: 37, layers: 2, outputs: 1 });
  manualSeed(2n);
  const numbers = (shape: number[]) => keep(double ? toDtype(randn(shape), "f64") : randn(shape));
  if (double) {
    for (const [, p] of model.root.namedParameters()) p.replaceWith(noGrad(() => toDtype(p, "f64")));
  }
  const batch = { input: numbers([32, 7]), target: numbers([32, 1]) };
  return { rig: rig(model, rows, { flags, direct }), batch };
}

const steps = ({ rig, batch }: Made, rates: readonly number[]): number[] =>
  rates.map((lr, number) => run(rig, [batch], { number, lr }).loss);

interface Trained {
  losses: number[];
  weights: string[];
}

const theirs = await peer<Trained[]>(
  "optimizers.py",
  CASES.map((one) => ({ ...one, rates: ratesOf(one) })),
);

for (const [i, one] of CASES.entries()) {
  for (const direct of one.double ? [false] : [false, true]) {
    const way = direct ? "with autograd's own gradients" : "with a gradient arena";
    Deno.test(`${nameOf(one)} has torch.optim's bits for ${STEPS} steps, ${way}`, async () => {
      const ours = made(flagsOf(one), { ...one, direct });
      assertEquals(steps(ours, ratesOf(one)), theirs[i].losses);
      assertEquals(await weights(ours.rig), theirs[i].weights);
    });
  }
}

Deno.test("all optimizers that torch.optim has too are compared with it", () => {
  const compared = new Set(CASES.map(({ type }) => type.toLowerCase()));
  const ofOthers = ["lamb", "lion", "muon", "prodigy", "schedule_free", "shampoo", "soap"]; // newer_optimizers_test.ts
  assertEquals([...compared, ...ofOthers].sort(), optimizersThat(() => true).sort());
});

const partsOf = ({ model, arena, step: { optimizer } }: Rig): StateParts => ({
  names: arena.names,
  stateDict: model.root.stateDict(),
  ...{ optimizer, scaler: null, ema: null },
});

function save(rig: Rig, path: string): void {
  const cursor = { epoch: 0, step: HALF, stepInEpoch: HALF, samples: 32 * HALF, sums: [] };
  const facts = { version: "test", run: "r", seed: 0, learningRate: 1, scheduler: { state: {}, group: {} } };
  writePt(path, toTree(partsOf(rig), { ...cursor, best: null, valLoss: null }, { ...facts, config: {} }));
}

function load(rig: Rig, path: string): readonly string[] {
  using file = readPt(path);
  const parts = partsOf(rig),
    { root } = adopt(file.root, path, { parts, stepsPerEpoch: 10, samples: 320, force: false });
  return loadTraining(parts, root, path).notices;
}

Deno.test(
  `all of them go on in torch.optim from a checkpoint after ${HALF} steps, and here, with the same bits`,
  inFolder(async (folder) => {
    CASES.forEach((one, i) => {
      const first = made(flagsOf(one), one);
      steps(first, ratesOf(one, 0, HALF));
      save(first.rig, `${folder}/${i}.pt`);
    });
    const there = await peer<Trained[]>(
      "optimizers.py",
      CASES.map((one, i) => ({
        ...one,
        options: {},
        rates: ratesOf(one, HALF),
        resume: `${folder}/${i}.pt`,
      })),
    );
    for (const [i, one] of CASES.entries()) {
      assertEquals(there[i].losses, theirs[i].losses.slice(HALF), nameOf(one));
      assertEquals(there[i].weights, theirs[i].weights, nameOf(one));
      const here = made(flagsOf(one), one);
      assertEquals(load(here.rig, `${folder}/${i}.pt`), [], nameOf(one));
      assertEquals(steps(here, ratesOf(one, HALF)), theirs[i].losses.slice(HALF), nameOf(one));
      assertEquals(await weights(here.rig), theirs[i].weights, nameOf(one));
    }
  }),
);

Deno.test(
  `all of them go on here from what a script with torch.optim saved after ${HALF} steps, with the same bits`,
  inFolder(async (folder) => {
    const asked = CASES.map((one, i) => ({
      ...one,
      rates: ratesOf(one, 0, HALF),
      save: `${folder}/${i}.pt`,
    }));
    await peer<Trained[]>("optimizers.py", asked);
    for (const [i, one] of CASES.entries()) {
      const here = made(flagsOf(one), one);
      assertEquals(load(here.rig, `${folder}/${i}.pt`), [], nameOf(one));
      assertEquals(steps(here, ratesOf(one, HALF)), theirs[i].losses.slice(HALF), nameOf(one));
      assertEquals(await weights(here.rig), theirs[i].weights, nameOf(one));
    }
  }),
);

const LR = 0.01;

Deno.test("lamb follows the paper's formula, written out in plain numbers", () => {
  const { rig, batch } = made(["--optimizer", "lamb", "--weight-decay", "0.02"]);
  const { parameters, gradients } = rig.arena;
  const values = (t: Tensor) => Array.from(toNumbers(t));
  const expected = parameters.map((p) => ({ w: values(p), m: [] as number[], v: [] as number[] }));
  expected.forEach((e) => (e.m = e.w.map(() => 0), e.v = e.w.map(() => 0)));
  for (let t = 1; t <= 8; t++) {
    run(rig, [batch], { lr: LR });
    gradients.forEach((g, i) => lambByHand(expected[i], values(g), t));
  }
  expected.forEach(({ w }, i) => {
    values(parameters[i]).forEach((x, k) => {
      assertAlmostEquals(x, w[k], 1e-6, `${rig.arena.names[i]}[${k}]`);
    });
  });
});

/** You et al. 2020, algorithm 2, with the identity as phi. */
function lambByHand(e: { w: number[]; m: number[]; v: number[] }, g: number[], t: number): void {
  const [beta1, beta2, eps, decay] = [0.9, 0.999, 1e-8, 0.02];
  e.m = e.m.map((m, k) => beta1 * m + (1 - beta1) * g[k]);
  e.v = e.v.map((v, k) => beta2 * v + (1 - beta2) * g[k] ** 2);
  const u = e.w.map((w, k) => {
    const mHat = e.m[k] / (1 - beta1 ** t), vHat = e.v[k] / (1 - beta2 ** t);
    return mHat / (Math.sqrt(vHat) + eps) + decay * w;
  });
  const length = (x: number[]) => Math.hypot(...x);
  const trust = length(e.w) > 0 && length(u) > 0 ? length(e.w) / length(u) : 1;
  e.w = e.w.map((w, k) => w - LR * trust * u[k]);
}
