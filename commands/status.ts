// `hpctrain status`: its flags and its help. commands/run/status.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { SAVE_DIR } from "./options.ts";

export const OPTIONS = {
  "save-dir": SAVE_DIR,
  json: { kind: "bool", help: "as JSON" },
} as const;

export const command: Command = {
  usage: "hpctrain status [RUN | JOB] [--json]",
  examples: ["hpctrain status", "hpctrain status 4711"],
  options: OPTIONS,
  run: async (argv) => await (await import("./run/status.ts")).status(argv),
};
