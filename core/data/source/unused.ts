import { formatPlural } from "../../base/format.ts";
import { ALL_SAMPLES } from "../../settings/sections/data.ts";
import type { Config } from "../../settings/settings.ts";

/** Notes name the setting that leaves samples out. */
export function unusedNote(unused: number, data: Config["data"], noun = "sample"): string[] {
  if (unused === 0) return [];
  const limits = (["train_samples", "val_samples"] as const).filter((name) => data[name] < ALL_SAMPLES)
    .map((name, i) => `${name} ${i === 0 ? "is " : ""}${data[name]}`);
  return [`Not used: ${formatPlural(unused, noun)}, because ${limits.join(" and ")}`];
}
