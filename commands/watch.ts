// `hpctrain watch`: its flags and its help. commands/run/watch.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { RUNS_DIR } from "./options.ts";

export const USAGE = "hpctrain watch [RUN] [--save-dir DIR] [--interval SECONDS] [--once]";

export const OPTIONS = {
  "save-dir": RUNS_DIR,
  interval: {
    kind: "text",
    value: "SECONDS",
    help: "between two looks at the files (default: 1, and 10 where there is no terminal)",
  },
  once: { kind: "bool", help: "show how it stands now, and end" },
} as const;

export const command: Command = {
  usage: USAGE,
  examples: ["hpctrain watch", "hpctrain watch quickstart", "hpctrain watch /scratch/me/logs/run --once"],
  options: OPTIONS,
  words: ["newest"],
  run: async (argv) => await (await import("./run/watch.ts")).watch(argv),
};
