// `hpctrain adopt`: its flags and its help. commands/run/adopt.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const USAGE = "hpctrain adopt [--steps N] [--no-copy] [--out DIR] -- python train.py ARGS";

export const OPTIONS = {
  steps: {
    kind: "text",
    value: "N",
    help: "so many steps of the script are watched, and trained here (default: 20)",
  },
  "no-copy": { kind: "bool", help: "make no copy of samples that lie in no files which are read here" },
  out: { kind: "text", value: "DIR", help: "a new folder for what is written (default: adopted)" },
} as const;

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain adopt -- python train.py --lr 0.1",
    "hpctrain adopt --steps 50 --out mnist -- .venv/bin/python main.py --no-cuda",
  ],
  options: OPTIONS,
  run: async (argv) => await (await import("./run/adopt.ts")).adopt(argv),
};
