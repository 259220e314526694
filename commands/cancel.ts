// `hpctrain cancel`: its flags and its help. commands/run/cancel.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { SAVE_DIR } from "./options.ts";

export const OPTIONS = {
  "save-dir": SAVE_DIR,
  now: {
    kind: "bool",
    help: "let the scheduler end the job, instead of asking the run to stop after a save",
  },
} as const;

export const command: Command = {
  usage: "hpctrain cancel RUN | JOB [--now]",
  examples: ["hpctrain cancel quickstart", "hpctrain cancel 4711 --now"],
  options: OPTIONS,
  run: async (argv) => await (await import("./run/cancel.ts")).cancel(argv),
};
