// Each optimizer against torch.optim's fused one, in live Python: the same losses and weights to the last bit.
import { assertAlmostEquals, assertEquals } from "@std/assert";
import { toTree } from "../../../../core/checkpoint/training_state.ts";
import { writePt } from "../../../../core/checkpoint/pt.ts";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import type { MicroBatch } from "../../../../core/train/micro_batch.ts";
import { randn } from "../../../../ffi/ops.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { keep, type Tensor } from "../../../../ffi/tensor.ts";
import { peer } from "../peer.ts";
import { open, type Rig, rig, rows, run, weights } from "../rig.ts";

open();

const STEPS = 20;
/** Flags of ours, the class in torch.optim and its arguments. */
const CASES = [
  { flags: "--optimizer adamw --weight-decay 0.01", type: "AdamW", options: { weight_decay: 0.01 } },
  {
    flags: "--optimizer adamw --weight-decay 0.3 --set training.optimizer.beta2=0.95",
    type: "AdamW",
    options: { weight_decay: 0.3, betas: [0.9, 0.95] },
  },
  { flags: "--optimizer adam --weight-decay 0.02", type: "Adam", options: { weight_decay: 0.02 } },
  { flags: "--optimizer sgd --momentum 0 --weight-decay 0", type: "SGD", options: {} },
  {
    flags: "--optimizer sgd --weight-decay 0.01",
    type: "SGD",
    options: { momentum: 0.9, weight_decay: 0.01 },
  },
  {
    flags: "--optimizer sgd --momentum 0.8 --nesterov --weight-decay 0.1",
    type: "SGD",
    options: { momentum: 0.8, nesterov: true, weight_decay: 0.1 },
  },
];

const LR = 0.01;

function made(flags: string, direct = false): { rig: Rig; batch: MicroBatch } {
  manualSeed(1n);
  const model = mlp({ inputs: 7, hidden: 37, layers: 2, outputs: 1 });
  manualSeed(2n);
  const batch = { input: keep(randn([32, 7])), target: keep(randn([32, 1])) };
  return { rig: rig(model, rows, { flags: flags.split(" "), direct }), batch };
}

function steps({ rig, batch }: ReturnType<typeof made>, count: number): number[] {
  return Array.from({ length: count }, (_, number) => run(rig, [batch], { number, lr: LR }).loss);
}

interface Trained {
  losses: number[];
  weights: string[];
}

const theirs = await peer<Trained[]>(
  "optimizers.py",
  CASES.map(({ type, options }) => ({ type, options, steps: STEPS, lr: LR })),
);

for (const [i, { flags }] of CASES.entries()) {
  for (const direct of [false, true]) {
    const way = direct ? "with autograd's own gradients" : "with a gradient arena";
    Deno.test(`${flags} has torch.optim's bits for ${STEPS} steps, ${way}`, async () => {
      const ours = made(flags, direct);
      assertEquals(steps(ours, STEPS), theirs[i].losses);
      assertEquals(await weights(ours.rig), theirs[i].weights);
    });
  }
}

Deno.test("adamw, adam and sgd go on in torch.optim from a checkpoint, with the same bits", async () => {
  const cases = CASES.filter((_, i) => [1, 2, 3, 5].includes(i));
  const folder = await Deno.makeTempDir();
  try {
    const trained = cases.map(({ flags }) => made(flags));
    trained.forEach((ours, i) => (steps(ours, 5), save(ours.rig, `${folder}/${i}.pt`)));
    const after = await peer<Trained[]>(
      "optimizers.py",
      cases.map(({ type }, i) => ({ type, steps: 5, resume: `${folder}/${i}.pt` })),
    );
    for (const [i, ours] of trained.entries()) {
      assertEquals(steps(ours, 5), after[i].losses, cases[i].flags);
      assertEquals(await weights(ours.rig), after[i].weights, cases[i].flags);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

function save({ model, arena, step: { optimizer } }: Rig, path: string): void {
  const parts = { names: arena.names, stateDict: model.root.stateDict(), optimizer, scaler: null, ema: null };
  const cursor = { epoch: 0, step: 5, stepInEpoch: 5, samples: 160, sums: [], best: null, valLoss: null };
  const facts = { version: "test", run: "r", seed: 0, learningRate: LR, scheduler: { state: {}, group: {} } };
  writePt(path, toTree(parts, cursor, { ...facts, config: {} }));
}

Deno.test("lamb follows the paper's formula, written out in plain numbers", () => {
  const { rig, batch } = made("--optimizer lamb --weight-decay 0.02");
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
