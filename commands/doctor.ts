// `hpctrain doctor`: its flags and its help. commands/run/doctor.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { MACHINE_SETTINGS, PLACE, settingsAmong } from "./options.ts";

export const USAGE = "hpctrain doctor [--full] [--json] [FLAGS]";

export const OPTIONS = {
  full: {
    kind: "bool",
    help: "measure too: matmul, all-reduce between nodes, storage, clocks; under a minute",
  },
} as const;

export const SETTINGS = settingsAmong(
  MACHINE_SETTINGS,
  PLACE,
  /^output\.save_dir$|^data\.|^distributed\.|^wandb\./,
);

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain doctor",
    "hpctrain doctor --full --save-dir /scratch/me",
    "srun hpctrain doctor --full",
  ],
  settings: SETTINGS,
  options: OPTIONS,
  run: async (argv) => await (await import("./run/doctor.ts")).doctor(argv),
};
