// The highest learning rate of a run, and where it came from in words.
import type { Resolved } from "../config/resolve.ts";
import type { Config } from "../config/settings.ts";
import { formatLearningRate } from "../format.ts";

type Rate = Pick<Config["training"], "lr_scaling" | "base_batch_size"> & {
  readonly optimizer: Pick<Config["training"]["optimizer"], "learning_rate">;
};

/** Times the global batch over the batch that the rate was chosen for, where that is asked for. */
export function scaledLearningRate(t: Rate, global: number): number {
  const { learning_rate: base } = t.optimizer;
  return t.lr_scaling === "linear" ? base * global / t.base_batch_size : base;
}

export type Origin = Resolved["origin"];

/** "Learning rate: 1.2e-3 = 0.0003 (default) x 4: ..." */
export function rateLine(t: Rate, global: number, origin: Origin): string {
  const { learning_rate: base } = t.optimizer;
  const from = `${base} (${origin("training.optimizer.learning_rate")})`;
  if (t.lr_scaling === "none") return `Learning rate: ${from}, not scaled with the batch`;
  const factor = Number((global / t.base_batch_size).toPrecision(4));
  return `Learning rate: ${formatLearningRate(scaledLearningRate(t, global))} = ${from} x ${factor}: ` +
    `${global} samples a step / ${t.base_batch_size}, as lr_scaling is linear (${
      origin("training.lr_scaling")
    })`;
}
