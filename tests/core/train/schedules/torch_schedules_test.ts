// Every schedule beside torch.optim.lr_scheduler's for a thousand steps, and torch's going on from its state.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { noteUserFile, openUserFile } from "../../../../core/models/user/file.ts";
import { writePt } from "../../../../core/checkpoint/pt.ts";
import { type Cursor, type StateParts, toTree } from "../../../../core/checkpoint/training_state.ts";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import { type Course, openCourse } from "../../../../core/train/schedules/course.ts";
import { torchState } from "../../../../core/train/torch_scheduler.ts";
import { peer } from "../peer.ts";
import { open, rig, rows, settings } from "../rig.ts";

open();
const STEPS = 1000, PEAK = 0.3;
const plan = { micro: 1, accumulation: 1, global: 1, stepsPerEpoch: 50, note: "" };

const FOLDER = Deno.makeTempDirSync();
addEventListener("unload", () => Deno.removeSync(FOLDER, { recursive: true }));

/** Functions of the user's, opened. */
const FILES: Record<string, string> = {};
for (
  const [name, text] of [
    [
      "half.ts",
      "export default (step: number, { total }: { total: number }): number => 1 - step / total / 2;",
    ],
    ["fall.ts", "export default (step: number): number => step % 100 === 0 ? 0.5 : 0.999;"],
  ]
) {
  Deno.writeTextFileSync(FILES[name] = join(FOLDER, name), text);
  noteUserFile(await openUserFile(FILES[name], "schedule", {}, ""));
}

/** Where torch's own arithmetic is followed, bits are the same; a cosine, a power and a root may differ by some ulp. */
type Equal = "bits" | "close";

/** What is written here, and the same in Python for an optimizer `o`. */
const CASES: readonly (readonly [written: string, torch: string, Equal, ...flags: string[]])[] = [
  ["exponential(gamma=0.995)", "ExponentialLR(o, 0.995)", "bits"],
  ["ExponentialLR(0.99)", "ExponentialLR(o, 0.99)", "bits"],
  [
    "multistep(milestones=[100, 300, 300, 777], gamma=0.3)",
    "MultiStepLR(o, [100, 300, 300, 777], 0.3)",
    "close",
  ],
  ["multistep(milestones=[2ep, 6ep])", "MultiStepLR(o, [100, 300])", "bits"],
  ["polynomial", "PolynomialLR(o, 1000)", "bits"],
  ["polynomial(total_iters=700, power=2.5)", "PolynomialLR(o, 700, 2.5)", "close"],
  ["linear(start_factor=0.1, total_iters=400)", "LinearLR(o, 0.1, 1.0, 400)", "bits"],
  ["linear(start_factor=1, end_factor=0)", "LinearLR(o, 1.0, 0.0, 1000)", "bits"],
  ["constant(factor=0.25, total_iters=300)", "ConstantLR(o, 0.25, 300)", "bits"],
  ["constant(factor=0.3, total_iters=10)", "ConstantLR(o, 0.3, 10)", "bits"],
  ["cosine(eta_min=0.001)", "CosineAnnealingLR(o, 1000, 0.001)", "close"],
  ["CosineAnnealingLR(T_max=300, eta_min=1e-3)", "CosineAnnealingLR(o, 300, 1e-3)", "close"],
  ["sgdr(T_0=100, T_mult=2, eta_min=1e-4)", "CosineAnnealingWarmRestarts(o, 100, 2, 1e-4)", "close"],
  ["sgdr(T_0=70, T_mult=1)", "CosineAnnealingWarmRestarts(o, 70)", "close"],
  ["step(step_size=120, gamma=0.7)", "StepLR(o, 120, 0.7)", "bits"],
  ["cyclic(base_lr=0.01, max_lr=0.2, step_size_up=110)", "CyclicLR(o, 0.01, 0.2, 110)", "bits"],
  [
    "cyclic(base_lr=0.01, max_lr=0.2, step_size_up=90, step_size_down=40, mode=triangular2)",
    "CyclicLR(o, 0.01, 0.2, 90, 40, 'triangular2')",
    "bits",
  ],
  [
    "cyclic(0.01, 0.2, step_size_up=90, mode=exp_range, gamma=0.999, cycle_momentum=false)",
    "CyclicLR(o, 0.01, 0.2, 90, mode='exp_range', gamma=0.999, cycle_momentum=False)",
    "close",
  ],
  ["onecycle()", "OneCycleLR(o, 0.3, 1000)", "close"],
  [
    "onecycle(max_lr=0.5, pct_start=0.2, anneal_strategy=linear, div_factor=10, final_div_factor=100)",
    "OneCycleLR(o, 0.5, 1000, pct_start=0.2, anneal_strategy='linear', div_factor=10, final_div_factor=100)",
    "bits",
  ],
  [
    "onecycle(three_phase=true, base_momentum=0.7, max_momentum=0.8)",
    "OneCycleLR(o, 0.3, 1000, three_phase=True, base_momentum=0.7, max_momentum=0.8)",
    "close",
  ],
  ["onecycle()", "OneCycleLR(o, 0.3, 1000)", "close", "--optimizer", "adamw"],
  [
    "linear(start_factor=0.01) 200steps > cosine(eta_min=1e-6) 10ep > step(step_size=50, gamma=0.5)",
    "SequentialLR(o, [LinearLR(o, 0.01, 1.0, 200), CosineAnnealingLR(o, 500, 1e-6), StepLR(o, 50, 0.5)], [200, 700])",
    "close",
  ],
  [
    "linear 20% > exponential(gamma=0.99) 300steps > polynomial(total_iters=200)",
    "SequentialLR(o, [LinearLR(o, total_iters=200), ExponentialLR(o, 0.99), PolynomialLR(o, 200)], [200, 500])",
    "bits",
  ],
  [
    "exponential(gamma=0.99) 100steps > multistep(milestones=[50, 200])",
    "SequentialLR(o, [ExponentialLR(o, 0.99), MultiStepLR(o, [50, 200])], [100])",
    "bits",
  ],
  [
    "cosine(eta_min=0.02) 400steps > sgdr(T_0=100)",
    "SequentialLR(o, [CosineAnnealingLR(o, 400, 0.02), CosineAnnealingWarmRestarts(o, 100)], [400])",
    "close",
  ],
  // What a run of today begins with, before a new one.
  [
    "exponential(gamma=0.99)",
    "SequentialLR(o, [LinearLR(o, 1 / 80, 1.0, 79), ExponentialLR(o, 0.99)], [80])",
    "close",
    ...["--warmup", "80steps"],
  ],
  [
    "cosine",
    "SequentialLR(o, [LinearLR(o, 0.01, 1.0, 100), CosineAnnealingLR(o, 900)], [100])",
    "close",
    ...["--warmup", "2ep", "--set", "training.scheduler.warmup_start=0.01"],
    ...["--set", "training.scheduler.warmup_peak=next"],
  ],
  [
    "constant",
    "SequentialLR(o, [LinearLR(o, 1 / 101, 1.0, 100), ConstantLR(o, 1.0)], [100])",
    "bits",
    ...["--warmup", "100steps", "--set", "training.scheduler.warmup_peak=next"],
  ],
  [
    "polynomial(lr_end=1e-3, power=2)",
    "LambdaLR(o, lambda k: ((0.3 - 1e-3) * (1 - k / 1000) ** 2 + 1e-3) / 0.3)",
    "close",
  ],
  [
    "inverse_sqrt",
    "SequentialLR(o, [LinearLR(o, 1 / 60, 1.0, 59), LambdaLR(o, lambda k: 1 / math.sqrt((k + 60) / 60))], [60])",
    "close",
    ...["--warmup", "60steps"],
  ],
  [FILES["half.ts"], "LambdaLR(o, lambda k: 1 - k / 1000 / 2)", "bits"],
  [
    `multiplicative('${FILES["fall.ts"]}')`,
    "MultiplicativeLR(o, lambda k: 0.5 if k % 100 == 0 else 0.999)",
    "bits",
  ],
  [
    "wsd(num_decay_steps=200, decay_type=linear, min_lr_ratio=0.1)",
    "LambdaLR(o, lambda k: 1 if k < 800 else (1 - (k - 800) / 200) * 0.9 + 0.1)",
    "close",
  ],
];

const courseOf = (written: string, flags: readonly string[], epochs = 20) =>
  openCourse(
    settings("--scheduler", written, "--epochs", `${epochs}`, "--optimizer", "sgd", ...flags),
    PEAK,
    plan,
    rows,
  );

const isAdam = (flags: readonly string[]) => flags.includes("adamw");

function same(ours: number, theirs: number, equal: Equal, said: string): void {
  const far = Math.abs(ours - theirs),
    allowed = equal === "bits" ? 0 : 1e-12 * Math.max(Math.abs(theirs), 1e-3);
  assert(far <= allowed, `${said}: ${ours} here and ${theirs} in torch`);
}

Deno.test("every schedule has torch's rates and momenta for a thousand steps", async () => {
  const cases = CASES.map(([, torch, , ...flags]) => ({
    torch,
    lr: PEAK,
    count: STEPS,
    adam: isAdam(flags),
  }));
  const theirs = await peer<[number, number][][]>("torch_schedules.py", cases);
  CASES.forEach(([written, , equal, ...flags], i) => {
    const course = courseOf(written, flags);
    theirs[i].forEach(([rate, momentum], step) => {
      const said = `${written} at step ${step}`;
      same(course.rate({ step }), rate, equal, said);
      same(course.moved(step)?.momentum ?? 0.9, momentum, equal, `${said}, momentum`);
    });
  });
});

Deno.test("a rate is the same whichever steps were asked before it", () => {
  for (const [written, , , ...flags] of CASES) {
    const one = courseOf(written, flags), other = courseOf(written, flags);
    for (const step of [999, 3, 512, 511, 0]) {
      assertEquals(one.rate({ step }), other.rate({ step }), written);
      for (let before = 0; before < 40; before++) other.rate({ step: before });
    }
  }
});

/** A checkpoint of a run with this schedule, `step` steps into it. */
function saved(path: string, course: Course, cursor: Cursor, adam: boolean): string {
  const model = mlp({ inputs: 7, hidden: 8, layers: 1, outputs: 1 });
  const { arena, step: { optimizer } } = rig(model, rows, { flags: ["--optimizer", adam ? "adamw" : "sgd"] });
  const parts: StateParts = {
    ...{ names: arena.names, stateDict: model.root.stateDict(), scaler: null, ema: null },
    optimizer: { ...optimizer, slots: new Map() },
  };
  const scheduler = torchState(course, cursor, { factors: [1], stepSize: 30, usesBeta: adam });
  const about = { version: "1", run: "r", seed: 0, config: {}, learningRate: course.rate(cursor), scheduler };
  writePt(path, toTree(parts, cursor, about));
  return path;
}

const cursorAt = (step: number): Cursor => ({
  ...{ epoch: Math.floor(step / 50), step, stepInEpoch: step % 50, samples: 0, sums: [] },
  ...{ best: null, valLoss: null },
});

Deno.test("torch's scheduler goes on from a checkpoint of every schedule", async () => {
  const folder = Deno.makeTempDirSync();
  try {
    const places = CASES.flatMap(([written, torch, , ...flags], i) =>
      [0, 137, 400, 803].map((step) => ({ i, written, torch, flags, step }))
    );
    const cases = places.map(({ i, written, torch, flags, step }) => ({
      ...{ torch, lr: PEAK, count: STEPS - step, adam: isAdam(flags) },
      path: saved(`${folder}/${i}-${step}.pt`, courseOf(written, flags), cursorAt(step), isAdam(flags)),
    }));
    const theirs = await peer<[number, number][][]>("torch_schedules.py", cases);
    places.forEach(({ written, flags, step }, i) => {
      const course = courseOf(written, flags);
      theirs[i].forEach(([rate, momentum], j) => {
        const said = `${written} from step ${step}, ${j} on`;
        same(course.rate({ step: step + j }), rate, "close", said);
        same(course.moved(step + j)?.momentum ?? 0.9, momentum, "close", `${said}, momentum`);
      });
    });
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
