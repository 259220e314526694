// `hpctrain eval`: its flags and its help. commands/run/eval.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import {
  DATA_SETTINGS,
  FORWARD,
  ITS_FILE,
  MACHINE_SETTINGS,
  MC_DROPOUT,
  OF_OTHERS,
  SANDBOX,
  settingsAmong,
  TTA,
} from "./options.ts";

export const USAGE = "hpctrain eval CHECKPOINT... [--mc-dropout N] [--on test|validation|train|all] [FLAGS]";

export const OPTIONS = {
  on: {
    kind: "text",
    value: "PART",
    help:
      "the samples to judge by: test (see --test-on), validation or train, or all (default: validation, and all of other data)",
  },
  "mc-dropout": MC_DROPOUT,
  tta: TTA,
  sandbox: SANDBOX,
} as const;

/** A run may be judged by other weights of points than it learned with, and by further metrics. */
const JUDGING = /^training\.(loss_weight|metrics)$/;

export const SETTINGS = settingsAmong(DATA_SETTINGS, MACHINE_SETTINGS, FORWARD, ITS_FILE, JUDGING);

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain eval checkpoints/quickstart_best.pt --val-samples 2000",
    "hpctrain eval checkpoints/ice_best.pt --on test",
    "hpctrain eval checkpoints/ice-seed*_best.pt --on test",
  ],
  settings: (path) => SETTINGS(path) || OF_OTHERS.test(path),
  ofCheckpoint: true,
  options: OPTIONS,
  writes: "nothing",
  positionals: Infinity,
  run: async (argv) => await (await import("./run/eval.ts")).evaluate(argv),
};
