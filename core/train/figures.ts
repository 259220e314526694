// A model sees other data through the figures of its own training data. May import checkpoint's values, config (types).
import { field, type Value } from "../checkpoint/value.ts";
import type { Config } from "../config/settings.ts";

/** The settings with the mean and deviation that the run has measured, where it has and nobody gives others. */
export function withOwnFigures(config: Config, root: Value): Config {
  const { data } = config;
  const figures = field(field(root, "hpctrain"), "normalisation");
  const mean = texts(field(figures, "mean")), std = texts(field(figures, "std"));
  if (data.normalise !== "measured" || data.mean.length > 0 || data.std.length > 0 || !mean || !std) {
    return config;
  }
  return { ...config, data: { ...data, mean, std } };
}

/** Numbers as settings have them: no digit is lost. */
const texts = (value: Value | undefined): string[] | null => Array.isArray(value) ? value.map(String) : null;
