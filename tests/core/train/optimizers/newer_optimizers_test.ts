// Muon against torch.optim's; Lion, schedule-free AdamW, Prodigy, SOAP and Shampoo against what their authors published, in live Python.
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { gpt } from "../../../../core/models/zoo/gpt.ts";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import { refuseOptimizer } from "../../../../core/train/checks.ts";
import { refuseZero } from "../../../../core/train/gradients/zero.ts";
import { optimizersThat, traitsOf } from "../../../../core/train/optimizers.ts";
import { hiddenMatrices, orthogonal } from "../../../../core/train/optimizers/muon.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { manualSeed, setThreads } from "../../../../ffi/context.ts";
import { mm, randn, t } from "../../../../ffi/ops.ts";
import { keep, type Tensor } from "../../../../ffi/tensor.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { peer } from "../peer.ts";
import { open, rig, rows, run, settings } from "../rig.ts";
import { contents, trained } from "../started.ts";

open();
setThreads(1);

const STEPS = 20;
const RATES = Array.from({ length: STEPS }, (_, i) => 0.003 * Math.min(1, (i + 1) / 5) * (1 + (i % 3) / 10));

interface Case {
  readonly type: string;
  readonly options: Readonly<Record<string, number | boolean | readonly number[]>>;
  readonly rates?: readonly number[];
  readonly flags?: readonly string[];
}

/** Names of ours for the settings of a case. */
const flagsOf = ({ type, options: { betas, ...rest } }: Case): string[] =>
  Object.entries({ ...rest, ...(Array.isArray(betas) && { beta1: betas[0], beta2: betas[1] }) })
    .filter(([name]) => name !== "lr" && !(type === "lion" && name === "beta2"))
    .flatMap(([name, value]) => ["--set", `training.optimizer.${name}=${value}`]);

const ONES = RATES.map((_, i) => i === 7 ? 0 : 1 - i / 100), DECAY = { lr: 1, weight_decay: 0.1 };
const CASES: readonly Case[] = [
  { type: "lion", options: { ...DECAY, betas: [0.9, 0.99] } },
  { type: "muon", options: DECAY },
  { type: "schedule_free", options: { ...DECAY, betas: [0.9, 0.999] } },
  { type: "prodigy", options: { ...DECAY, d0: 1e-4 }, rates: ONES },
  {
    type: "prodigy",
    options: { ...DECAY, d0: 1e-3, decouple: false, use_bias_correction: true, safeguard_warmup: true },
    rates: ONES,
  },
  {
    type: "prodigy",
    options: { ...DECAY, d0: 1e-3, betas: [0, 0.99], growth_rate: 1.5, d_coef: 2 },
    rates: ONES,
  },
  { type: "soap", options: { ...DECAY, precondition_frequency: 3 } },
  {
    type: "soap",
    options: { ...DECAY, precondition_frequency: 4, max_precond_dim: 10, normalize_grads: true },
  },
  { type: "shampoo", options: { ...DECAY, precondition_frequency: 3 } },
  {
    type: "shampoo",
    options: {
      ...{ ...DECAY, precondition_frequency: 2, max_precond_dim: 10, momentum: 0.5, betas: [0, 0.99] },
      shampoo_beta: 0.9,
    },
  },
  {
    type: "shampoo",
    options: { ...DECAY, precondition_frequency: 5, momentum: 0.9, nesterov: true, max_precond_dim: 30 },
  },
];
const SHAPES = [[16, 16], [8, 40], [40, 8]];

const theirs = await peer<{
  trained: { losses: number[]; weights: number[][]; judged: number[][] }[];
  orthogonal: number[][];
}>("newer_optimizers.py", {
  cases: CASES.map((one) => ({ rates: RATES, ...one, steps: STEPS })),
  shapes: SHAPES,
});

function made(one: Case, direct = false) {
  manualSeed(1n);
  const model = mlp({ inputs: 7, hidden: 37, layers: 3, outputs: 1 });
  manualSeed(2n);
  const batch = { input: keep(randn([32, 7])), target: keep(randn([32, 1])) };
  const flags = ["--optimizer", one.type, ...flagsOf(one)];
  return { batch, model, rig: rig(model, rows, { flags, direct }) };
}

const near = (ours: readonly Tensor[], said: readonly number[][], most: number, about: string) =>
  ours.forEach((t, i) =>
    toNumbers(t).forEach((value, k) => assertAlmostEquals(value, said[i][k], most, `${about}: ${i}[${k}]`))
  );

CASES.forEach((one, i) => {
  const { type, rates = RATES } = one,
    name = [type, ...flagsOf(one).filter((word) => word !== "--set")].join(" ");
  for (const direct of type === "schedule_free" ? [false] : [false, true]) {
    Deno.test(`${name} trains as published for ${STEPS} steps${direct ? ", with autograd's own gradients" : ""}`, () => {
      const { rig, batch } = made(one, direct);
      const losses = rates.map((lr, number) => run(rig, [batch], { number, lr }).loss);
      losses.forEach((loss, step) =>
        assertAlmostEquals(loss, theirs.trained[i].losses[step], 1e-5, `step ${step}`)
      );
      const exact = ["prodigy", "soap", "shampoo"].includes(type); // their steps follow from the last bits of sums
      if (exact) assertEquals(losses, theirs.trained[i].losses);
      // A sign of nearly nothing may be another one.
      if (type !== "lion") near(rig.arena.parameters, theirs.trained[i].weights, exact ? 0 : 2e-6, type);
      const { averages } = rig.step.optimizer;
      assertEquals(averages !== undefined, type === "schedule_free");
      if (!averages) return;
      averages.update();
      near(rig.arena.viewsOf(averages.average), theirs.trained[i].judged, 2e-6, "judged");
      const before = toNumbers(rig.arena.flat);
      averages.swap();
      near(rig.arena.parameters, theirs.trained[i].judged, 2e-6, "swapped");
      averages.swap();
      assertEquals(toNumbers(rig.arena.flat), before);
    });
  }
});

Deno.test("a matrix is made orthogonal as torch.optim.Muon makes it, and nearly so in bf16", () => {
  manualSeed(3n);
  SHAPES.forEach((shape, i) => {
    const m = randn(shape), exact = toNumbers(orthogonal(m, "f32"));
    exact.forEach((value, k) => assertAlmostEquals(value, theirs.orthogonal[i][k], 1e-5));
    const rough = toNumbers(orthogonal(m, "bf16"));
    exact.forEach((value, k) => assertAlmostEquals(rough[k], value, 0.06));
    const o = orthogonal(m, "f32"), gram = toNumbers(shape[0] > shape[1] ? mm(t(o), o) : mm(o, t(o)));
    const side = Math.min(...shape);
    for (let k = 0; k < side; k++) assertAlmostEquals(gram[k * side + k], 0.9, 0.6);
  });
});

Deno.test("embeddings, what reads the data and what answers are not muon's", () => {
  const names = (model: { root: { namedParameters(): [string, Tensor][] } }, root = model.root) => {
    const all = model.root.namedParameters(), hidden = hiddenMatrices(all.map(([, p]) => p), root as never);
    return all.filter(([, p]) => hidden.has(p)).map(([name]) => name);
  };
  assertEquals(names(mlp({ inputs: 7, hidden: 9, layers: 3, outputs: 1 })), ["2.weight", "4.weight"]);
  const ofGpt = names(gpt({ vocabulary: 20, context: 8, embed: 12, layers: 1, heads: 2 } as never));
  assert(ofGpt.length === 4 && ofGpt.every((name) => /attn|mlp/.test(name)), ofGpt.join());
});

Deno.test("what --zero 1 can't share out is refused in a sentence that names what it can", () => {
  for (const type of optimizersThat(() => true)) {
    const config = settings("--zero", "1", "--optimizer", type, "--scheduler", "constant");
    if (traitsOf(config.training.optimizer).shardable === true) refuseZero(config);
    else assertThrows(() => refuseZero(config), UserError, `--optimizer ${type}`);
  }
});

Deno.test("schedule-free averages refuse a schedule, averages beside them, and no momentum", () => {
  const refused = (words: string, ...flags: string[]) =>
    assertThrows(() => refuseOptimizer(settings("--optimizer", "schedule_free", ...flags)), UserError, words);
  refused("--scheduler constant");
  refused("--ema", "--scheduler", "constant", "--ema", "0.9");
  refused("beta1", "--scheduler", "constant", "--set", "training.optimizer.beta1=0");
  refuseOptimizer(settings("--optimizer", "schedule_free", "--scheduler", "constant"));
});

Deno.test("shampoo refuses to look ahead without momentum", () => {
  const of = (...flags: string[]) =>
    refuseOptimizer(settings("--optimizer", "shampoo", "--nesterov", ...flags));
  assertThrows(() => of(), UserError, "--momentum 0");
  of("--momentum", "0.9");
});

Deno.test(
  "runs with them go on with the same bits after any number of stops, averages too",
  inFolder(async (folder) => {
    const flags =
      "--data-type synthetic --model mlp --train-samples 120 --val-samples 20 --batch-size 20 --epochs 2 --lr 0.003"
        .split(" ");
    for (const type of new Set(CASES.map(({ type }) => type))) {
      const own = [
        ...flags,
        "--optimizer",
        type,
        "--scheduler",
        type === "schedule_free" ? "constant" : "sgdr",
        ...["precondition_frequency=2", "max_precond_dim=10"].flatMap((
          set,
        ) => ["--set", `training.optimizer.${set}`]),
      ];
      const go = (name: string, more: string[], resume: string | null = null) =>
        trained(`${folder}/${type}-${name}`, [...own, ...more], resume);
      const kept = (path: string) => [...contents(path)].filter(([name]) => /state_dict\//.test(name));
      const straight = await go("straight", []), first = await go("first", ["--max-steps", "5"]);
      const second = await go("second", ["--max-steps", "8"], first.path),
        last = await go("last", [], second.path);
      assertEquals(kept(last.path), kept(straight.path), type);
      assert(kept(last.path).length > 12, type);
    }
  }),
);
