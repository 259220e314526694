// The learning rate as a function of the step, and the schedule that the settings ask for.
import { checkedDuration } from "../settings/setting.ts";
import type { Config } from "../settings/settings.ts";
import type { Facts } from "../models/model.ts";
import { rolloutOf, stepsAt } from "../data/source/rollout.ts";
import { type BatchPlan, stepsInAll } from "./batches.ts";
import type { Resolved } from "../settings/resolve.ts";
import { formatLearningRate } from "../base/format.ts";
import type { Run } from "./launch.ts";

/** How the learning rate goes over a run. */
export interface Schedule {
  /** Its course after the warm-up. */
  readonly type: "cosine" | "linear" | "step" | "constant" | "onecycle" | "sgdr";
  /** The highest rate, after scaling. */
  readonly peak: number;
  /** The rate at the end of a fall. */
  readonly min: number;
  /** Optimizer steps of linear warm-up, and of the whole run. */
  readonly warmup: number;
  /** Optimizer steps of the whole run. */
  readonly total: number;
  /** "step": optimizer steps from one fall to the next, and the factor of each. */
  readonly every: number;
  /** The factor of each fall of "step". */
  readonly gamma: number;
  /** "sgdr": optimizer steps until the first restart, and how many times longer each stretch is than the last. */
  readonly restart?: { readonly every: number; readonly factor: number };
  /** From this step on, over so many, a cosine leads to a rate that stays: where weights are averaged (--swa-lr). */
  readonly swa?: { readonly from: number; readonly over: number; readonly rate: number };
}

/** The rate for the step with this number, counted from 0. */
export function learningRate(s: Schedule, step: number): number {
  const { swa } = s;
  if (!swa || step < swa.from) return scheduled(s, step);
  const share = swa.over === 0 ? 1 : (1 - Math.cos(Math.PI * Math.min(1, (step - swa.from) / swa.over))) / 2;
  return share * swa.rate + (1 - share) * scheduled(s, swa.from);
}

function scheduled(s: Schedule, step: number): number {
  if (s.type === "onecycle") return oneCycle(s, step);
  if (step < s.warmup) return s.peak * (step + 1) / s.warmup;
  const span = Math.max(1, s.total - s.warmup);
  const done = Math.min(1, (step - s.warmup) / span);
  switch (s.type) {
    case "sgdr":
      return warmRestarts(s, step - s.warmup);
    case "constant":
      return s.peak;
    case "linear":
      return s.min + (s.peak - s.min) * (1 - done);
    case "cosine":
      return s.min + (s.peak - s.min) * (1 + Math.cos(Math.PI * done)) / 2;
    case "step":
      return s.peak * s.gamma ** Math.floor(step / s.every);
  }
}

/** A cosine from the peak to `min`, again and again (Loshchilov and Hutter 2017). */
function warmRestarts({ peak, min, total, restart }: Schedule, step: number): number {
  const { every, factor } = restart ?? { every: total, factor: 1 };
  let begun = 0, length = every;
  while (step - begun >= length) {
    begun += length;
    length *= factor;
  }
  return min + (peak - min) * (1 + Math.cos(Math.PI * (step - begun) / length)) / 2;
}

/** Up from peak/25 by a cosine over the warm-up (30% of the run when none is set), down to `min` by another. */
function oneCycle(s: Schedule, step: number): number {
  const start = s.peak / 25;
  const up = s.warmup > 0 ? s.warmup : Math.max(1, Math.round(0.3 * s.total));
  const between = (from: number, to: number, part: number) =>
    to + (from - to) * (1 + Math.cos(Math.PI * Math.min(1, part))) / 2;
  return step < up
    ? between(start, s.peak, step / up)
    : between(s.peak, s.min, (step - up) / Math.max(1, s.total - up));
}

export function scheduleOf(
  training: Config["training"],
  peak: number,
  plan: BatchPlan,
  facts: Facts,
): Schedule {
  const { type, min_lr, step_size, gamma, warmup, restart_epochs, restart_factor } = training.scheduler;
  const { swa_start, swa_lr, swa_anneal_epochs, optimizer: { learning_rate } } = training;
  return {
    type,
    peak,
    min: min_lr,
    warmup: inSteps(warmup, plan, facts),
    total: stepsInAll(training, plan),
    every: step_size * plan.stepsPerEpoch,
    gamma,
    ...(type === "sgdr" &&
      { restart: { every: restart_epochs * plan.stepsPerEpoch, factor: restart_factor } }),
    ...(swa_start > 0 && swa_lr > 0 && {
      swa: {
        from: (swa_start - 1) * plan.stepsPerEpoch,
        over: swa_anneal_epochs * plan.stepsPerEpoch,
        rate: swa_lr * (learning_rate > 0 ? peak / learning_rate : 1), // scaled with the batch as the rate is
      },
    }),
  };
}

/** "500steps", "1ep", "1e6samples", "2e9tok" -> optimizer steps. */
function inSteps(text: string, plan: BatchPlan, facts: Facts): number {
  const { count, unit } = checkedDuration(text);
  const perStep = {
    steps: 1,
    epochs: 1 / plan.stepsPerEpoch,
    samples: plan.global,
    tokens: tokens(plan, facts),
    seconds: 1,
  };
  return Math.round(count / perStep[unit]);
}

function tokens(plan: BatchPlan, facts: Facts): number {
  return facts.task === "language" ? plan.global * facts.input.shape[0] : plan.global;
}

type Rate = Pick<Config["training"], "lr_scaling" | "base_batch_size"> & {
  readonly optimizer: Pick<Config["training"]["optimizer"], "learning_rate">;
};

export function scaledLearningRate(t: Rate, global: number): number {
  const { learning_rate: base } = t.optimizer;
  return t.lr_scaling === "linear" ? base * global / t.base_batch_size : base;
}

export function rateLine(t: Rate, global: number, originText: Resolved["originText"]): string {
  const { learning_rate: base } = t.optimizer;
  const from = `${base} (${originText("training.optimizer.learning_rate")})`;
  if (t.lr_scaling === "none") return `Learning rate: ${from}, not scaled with the batch`;
  const factor = Number((global / t.base_batch_size).toPrecision(4));
  return `Learning rate: ${formatLearningRate(scaledLearningRate(t, global))} = ${from} x ${factor}: ` +
    `${global} samples a step / ${t.base_batch_size}, as lr_scaling is linear (${
      originText("training.lr_scaling")
    })`;
}

/** A rollout may begin with fewer steps. */
export function setSteps(
  { pass: { rollout }, config: { data, training } }: Pick<Run, "pass" | "config">,
  epoch: number,
): void {
  const steps = rollout && rolloutOf(data);
  if (steps) rollout.steps = stepsAt(steps, epoch, training.epochs);
}
