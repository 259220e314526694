// `hpctrain logs`: its flags and its help. commands/run/logs.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { SAVE_DIR } from "./options.ts";

export const OPTIONS = {
  "save-dir": SAVE_DIR,
  follow: { kind: "bool", help: "go on as more is printed; also -f" },
  rank: { kind: "text", value: "K", help: "the rank whose output is shown (default: 0)" },
} as const;

export const command: Command = {
  usage: "hpctrain logs [RUN | JOB] [-f] [--rank K]",
  examples: ["hpctrain logs -f", "hpctrain logs quickstart --rank 3"],
  options: OPTIONS,
  run: async (argv) => await (await import("./run/logs.ts")).logs(argv),
};
