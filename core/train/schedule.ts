// The learning rate as a function of the step, and the schedule that the settings ask for.
import { checkedDuration, parseDuration } from "../settings/setting.ts";
import { UserError } from "../base/errors.ts";
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
export const learningRate = (s: Schedule, step: number): number =>
  towardsAverage(s.swa, step, (step) => scheduled(s, step));

/** The rate that leads to the one at which weights are averaged, from where the schedule is when that begins. */
export function towardsAverage(
  swa: Schedule["swa"],
  step: number,
  scheduled: (step: number) => number,
): number {
  if (!swa || step < swa.from) return scheduled(step);
  const share = swa.over === 0 ? 1 : (1 - Math.cos(Math.PI * Math.min(1, (step - swa.from) / swa.over))) / 2;
  return share * swa.rate + (1 - share) * scheduled(swa.from);
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

/** Counts the time of a schedule in ticks: steps, or epochs with --schedule-per epoch. */
export interface Clock {
  readonly byEpoch: boolean;
  readonly perEpoch: number;
  readonly total: number;
  at(step: number): number;
  /** "500steps", "1ep", "1e6samples", "2e9tok", "10%" of the run, or a number of ticks; NaN of anything else. */
  ticks(text: string): number;
}

export function clockOf(training: Config["training"], plan: BatchPlan, facts: Facts): Clock {
  const byEpoch = training.scheduler.per === "epoch", steps = stepsInAll(training, plan);
  const { stepsPerEpoch } = plan;
  const total = byEpoch ? Math.ceil(steps / stepsPerEpoch) : steps;
  return {
    byEpoch,
    perEpoch: byEpoch ? 1 : stepsPerEpoch,
    total,
    at: (step) => byEpoch ? Math.floor(step / stepsPerEpoch) : step,
    ticks(text) {
      const share = /^(\d+(?:\.\d+)?)%$/.exec(text);
      if (share) return Math.round(Number(share[1]) / 100 * total);
      if (/^\d+$/.test(text)) return Number(text);
      const duration = parseDuration(text);
      if (duration === null || duration.unit === "seconds") return NaN;
      if (!byEpoch) return inSteps(text, plan, facts);
      const epochs = duration.unit === "epochs" ? duration.count : inSteps(text, plan, facts) / stepsPerEpoch;
      if (Number.isInteger(epochs)) return epochs;
      throw new UserError(
        "usage",
        `${text} of the schedule is ${
          Number(epochs.toPrecision(3))
        } epochs, and with --schedule-per epoch the rate changes ` +
          "at the ends of epochs only: give whole epochs, or leave --schedule-per out.",
      );
    },
  };
}

export function scheduleOf(
  training: Config["training"],
  peak: number,
  plan: BatchPlan,
  facts: Facts,
): Schedule {
  const { type, min_lr, step_size, gamma, warmup, restart_epochs, restart_factor } = training.scheduler;
  const { total, perEpoch, ticks } = clockOf(training, plan, facts);
  const swa = averagedRate(training, peak, perEpoch);
  return {
    type: type as Schedule["type"],
    peak,
    min: min_lr,
    warmup: ticks(warmup),
    total,
    every: step_size * perEpoch,
    gamma,
    ...(type === "sgdr" && { restart: { every: restart_epochs * perEpoch, factor: restart_factor } }),
    ...(swa && { swa }),
  };
}

/** Null where the rate stays the scheduler's while weights are averaged. */
export function averagedRate(
  { swa_start, swa_lr, swa_anneal_epochs, optimizer: { learning_rate } }: Config["training"],
  peak: number,
  perEpoch: number,
): Schedule["swa"] | null {
  return swa_start > 0 && swa_lr > 0
    ? {
      from: (swa_start - 1) * perEpoch,
      over: swa_anneal_epochs * perEpoch,
      rate: swa_lr * (learning_rate > 0 ? peak / learning_rate : 1), // scaled with the batch as the rate is
    }
    : null;
}

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
