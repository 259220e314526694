// How many samples are used: a number that nobody typed is for data that is made, and files are used whole.
import { ALL_SAMPLES } from "./sections/data.ts";
import type { Config } from "./settings.ts";
import { isTyped, type Origin } from "./values.ts";

export const COUNTS = ["data.train_samples", "data.val_samples"] as const;

/** A program of the user's own (--data) makes its samples, whatever it reads. */
export const readsFiles = ({ code, data_path }: Pick<Config["data"], "code" | "data_path">): boolean =>
  code === "" && data_path !== "";

/** All samples of other data than the run's own, unless somebody has typed a number. */
export function wholeCounts(
  data: Config["data"],
  origin: (path: string) => Origin,
): Pick<Config["data"], "train_samples" | "val_samples"> {
  const [train, val] = COUNTS.map((path) => isTyped(origin(path)));
  return {
    train_samples: train ? data.train_samples : ALL_SAMPLES,
    val_samples: val ? data.val_samples : ALL_SAMPLES,
  };
}
