// `hpctrain models`: its flags and its help. commands/run/models.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { MODEL_NAMES } from "../core/settings/sections/model.ts";
import { DATA_SETTINGS, MACHINE_SETTINGS, settingsAmong } from "./options.ts";

export const USAGE = "hpctrain models [NAME] [--gpu 80GB] [--plan] [FLAGS]";

export const OPTIONS = {
  plan: { kind: "bool", help: "show the plan of a compiled training step (--compile), kernel by kernel" },
  gpu: {
    kind: "text",
    value: "MEMORY",
    help: "say how large a batch fits, of a GPU with 80GB, 24GiB, ...; or of AMD's MI250X, gfx90a, ...",
  },
} as const;

export const SETTINGS = settingsAmong(
  DATA_SETTINGS,
  MACHINE_SETTINGS,
  /^model\.|^training\.(optimizer\.type|amp|loss|seed|gradient_checkpointing|ema|batch_size|compile|deterministic)$/,
);

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain models",
    "hpctrain models resnet50 --gpu 80GB",
    "hpctrain models mlp --plan --batch-size 64",
    "hpctrain models gpt --layers 12 --heads 12 --embed 768",
  ],
  settings: SETTINGS,
  options: OPTIONS,
  words: MODEL_NAMES,
  positionals: 1,
  run: async (argv) => await (await import("./run/models.ts")).models(argv),
};
