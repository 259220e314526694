// A schedule that was recognised by its name is kept where it gives the rates that were seen.
import type { Facts } from "../models/model.ts";
import { resolveSettings } from "../settings/resolve.ts";
import { planBatches } from "../train/batches.ts";
import { scaledLearningRate } from "../train/schedule.ts";
import { openCourse } from "../train/schedules/course.ts";
import type { Seen } from "./seen.ts";
import { type Adopted, ratesOf } from "./settings.ts";

/** torch multiplies the last rate where ours is a formula of the step. */
const ROUNDING = 1e-12;

/** The first step, from 1, whose rate is another one by these settings; null where none is. */
export function firstOtherRate(seen: Seen, settings: readonly Adopted[]): number | null {
  const argv = settings.map(({ path, value }) =>
    `--set=${path}=${Array.isArray(value) ? value.join(";") : value}`
  );
  const { config } = resolveSettings({ argv, env: {} }), { training } = config;
  const facts: Facts = { task: "regression", input: { shape: [1], dtype: "f32" }, outputs: 1 };
  const { micro, data: { per_epoch }, length } = seen;
  const steps = Math.max(
    1,
    per_epoch === undefined ? length?.steps ?? seen.steps : Math.ceil(per_epoch / micro),
  );
  const plan = planBatches(training, steps * micro * seen.batch, 1);
  const course = openCourse(config, scaledLearningRate(training, plan.global), plan, facts);
  const parts = ratesOf(seen).findIndex((rate, step) => {
    const ours = course.rate({ step });
    return !(Math.abs(ours - rate) <= ROUNDING * Math.max(Math.abs(ours), Math.abs(rate)));
  });
  return parts < 0 ? null : parts + 1;
}
