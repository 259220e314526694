import { assertAlmostEquals, assertEquals } from "@std/assert";
import { learningRate, type Schedule, scheduleOf } from "../../../core/train/schedule.ts";
import { peer } from "./peer.ts";
import { rows, settings } from "./rig.ts";

const base: Schedule = {
  type: "constant",
  peak: 0.3,
  min: 0,
  warmup: 0,
  total: 40,
  every: 7,
  gamma: 0.5,
};
const CASES: Schedule[] = [
  base,
  { ...base, warmup: 6 },
  { ...base, type: "linear", min: 0.03 },
  { ...base, type: "linear", min: 0.03, warmup: 8 },
  { ...base, type: "cosine", min: 0.01 },
  { ...base, type: "cosine", warmup: 10 },
  { ...base, type: "step" },
  { ...base, type: "onecycle", min: 1e-4 },
  { ...base, type: "onecycle", min: 1e-4, warmup: 15 },
  { ...base, type: "sgdr", min: 0.01, restart: { every: 5, factor: 2 } },
  { ...base, type: "sgdr", restart: { every: 7, factor: 1 } },
  { ...base, type: "sgdr", warmup: 4, restart: { every: 6, factor: 3 } },
];

Deno.test("every schedule gives torch.optim.lr_scheduler's rates", async () => {
  const theirs = await peer<number[][]>("schedules.py", CASES);
  CASES.forEach((schedule, i) => {
    theirs[i].forEach((rate, step) => {
      const said = `${JSON.stringify(schedule)} at step ${step}`;
      assertAlmostEquals(learningRate(schedule, step), rate, 1e-12, said);
    });
  });
});

Deno.test("warm-up starts above zero and reaches the peak at its last step", () => {
  const schedule: Schedule = { ...base, type: "cosine", warmup: 5 };
  assertEquals(learningRate(schedule, 0), 0.3 / 5);
  assertEquals(learningRate(schedule, 4), 0.3);
});

Deno.test("no schedule goes below its end when a run lasts longer than planned", () => {
  for (const type of ["cosine", "linear", "onecycle"] as const) {
    const schedule: Schedule = { ...base, type, min: 0.02, warmup: 3 };
    for (const step of [40, 41, 400]) assertAlmostEquals(learningRate(schedule, step), 0.02, 1e-15, type);
  }
});

Deno.test("durations of warm-up become optimizer steps", () => {
  const plan = { micro: 10, accumulation: 2, global: 20, stepsPerEpoch: 50, note: "" };
  const warmup = (text: string, facts = rows) =>
    scheduleOf(settings("--warmup", text, "--epochs", "4").training, 1, plan, facts).warmup;
  assertEquals(warmup("30steps"), 30);
  assertEquals(warmup("1ep"), 50);
  assertEquals(warmup("0.5ep"), 25);
  assertEquals(warmup("400samples"), 20);
  const language = { task: "language", input: { shape: [64], dtype: "i64" }, outputs: 65 } as const;
  assertEquals(warmup("12800tok", language), 10);
});

Deno.test("a schedule ends with the epochs, or with --max-steps where that is sooner", () => {
  const plan = { micro: 10, accumulation: 1, global: 10, stepsPerEpoch: 50, note: "" };
  const total = (...flags: string[]) => scheduleOf(settings(...flags).training, 1, plan, rows).total;
  assertEquals(total("--epochs", "4"), 200);
  assertEquals(total("--epochs", "4", "--max-steps", "120"), 120);
  assertEquals(total("--epochs", "4", "--max-steps", "900"), 200);
});

Deno.test("warm restarts are counted in epochs", () => {
  const plan = { micro: 10, accumulation: 1, global: 10, stepsPerEpoch: 50, note: "" };
  const flags = "--scheduler sgdr --set training.scheduler.restart_epochs=1".split(" ");
  const schedule = scheduleOf(settings(...flags).training, 1, plan, rows);
  const rates = [0, 49, 50, 100, 149, 150].map((step) => learningRate(schedule, step).toFixed(3));
  assertEquals(rates, ["1.000", "0.001", "1.000", "0.500", "0.000", "1.000"]);
});

Deno.test("the step schedule falls after its number of epochs", () => {
  const plan = { micro: 10, accumulation: 1, global: 10, stepsPerEpoch: 50, note: "" };
  const flags = ["--scheduler", "step", "--set", "training.scheduler.step_size=2"];
  const schedule = scheduleOf(settings(...flags).training, 1, plan, rows);
  assertEquals([99, 100, 199, 200].map((step) => learningRate(schedule, step).toFixed(3)), [
    "1.000",
    "0.100",
    "0.100",
    "0.010",
  ]);
});
