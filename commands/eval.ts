// `hpctrain eval`: its flags and its help. commands/run/eval.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { DATA, FORWARD, HERE, ITS_FILE, settingsAmong } from "./options.ts";

export const USAGE = "hpctrain eval CHECKPOINT [FLAGS]";

export const SETTINGS = settingsAmong(DATA, HERE, FORWARD, ITS_FILE);

export const command: Command = {
  usage: USAGE,
  examples: ["hpctrain eval checkpoints/quickstart_best.pt --val-samples 2000"],
  settings: SETTINGS,
  ofCheckpoint: true,
  positionals: 1,
  run: async (argv) => await (await import("./run/eval.ts")).evaluate(argv),
};
