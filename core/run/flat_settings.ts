// A run's settings as they are compared: a path and a text each.
import { findSetting } from "../settings/settings.ts";
import { asWritten } from "../settings/values.ts";

/** Path -> value as text, of a tree of settings. */
export function flat(config: unknown, path = ""): [string, string][] {
  if (typeof config !== "object" || config === null || Array.isArray(config)) {
    const declared = findSetting(path); // an older version's may not be there
    return [[path, textOf(declared ? asWritten(declared, config) : config)]];
  }
  return Object.entries(config).flatMap(([name, value]) =>
    flat(value, path === "" ? name : `${path}.${name}`)
  );
}

const textOf = (value: unknown): string => typeof value === "string" ? value : JSON.stringify(value) ?? "";

/** Names and paths differ in all runs, so that they tell nothing of two of them. */
export const NAMES_OF_RUN =
  /^(output\.(run_name|save_dir|model_dir)|wandb\.|environment\.|cluster\.job_name$|training\.resume$)/;
