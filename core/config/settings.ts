// Every setting, declared once. Flags, YAML, environment, help, schema and docs are made from this table.
import type { ConfigOf } from "./kinds.ts";
import { data } from "./settings_data.ts";
import { model } from "./settings_model.ts";
import { cluster } from "./settings_cluster.ts";
import { distributed, environment, output } from "./settings_run.ts";
import { training } from "./settings_training.ts";
import { wandb } from "./settings_wandb.ts";

export const SETTINGS = { model, data, training, output, distributed, wandb, cluster, environment };

/** @internal */
type Declared = typeof SETTINGS;

/** The effective configuration: plain JSON data, one value a setting. */
export type Config = ConfigOf<Declared>;

/** Second spellings of a whole section. */
export const SECTION_ALIASES: Readonly<Record<string, string>> = { train: "training" };

/** One line a section, for help and docs. */
export const SECTION_TITLES: Readonly<Record<string, string>> = {
  model: "Model",
  data: "Data",
  training: "Training",
  output: "Output",
  distributed: "Ranks and nodes",
  wandb: "Weights & Biases",
  cluster: "Cluster",
  environment: "Environment",
};
