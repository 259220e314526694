// The schedule that settings ask for, in optimizer steps. May import config, models (types), its siblings.
import { parseDuration } from "../config/duration.ts";
import type { Config } from "../config/settings.ts";
import type { Facts } from "../models/model.ts";
import { type BatchPlan, stepsInAll } from "./batch_math.ts";
import type { Schedule } from "./schedule.ts";

export function scheduleOf(
  training: Config["training"],
  peak: number,
  plan: BatchPlan,
  facts: Facts,
): Schedule {
  const { type, min_lr, step_size, gamma, warmup } = training.scheduler;
  return {
    type,
    peak,
    min: min_lr,
    warmup: inSteps(warmup, plan, facts),
    total: stepsInAll(training, plan),
    every: step_size * plan.stepsPerEpoch,
    gamma,
  };
}

/** "500steps", "1ep", "1e6samples", "2e9tok" -> optimizer steps. */
function inSteps(text: string, plan: BatchPlan, facts: Facts): number {
  const { count, unit } = parseDuration(text)!; // the settings checked it
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
