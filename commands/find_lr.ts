// `hpctrain find-lr`: its flags and its help. commands/run/find_lr.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const USAGE = "hpctrain find-lr [--from 1e-7] [--to 10] [--steps 100] [--out NAME] [FLAGS]";

export const OPTIONS = {
  from: { kind: "text", value: "RATE", help: "the lowest learning rate (default: 1e-7)" },
  to: { kind: "text", value: "RATE", help: "the highest learning rate (default: 10)" },
  steps: { kind: "text", value: "N", help: "training steps from one to the other (default: 100)" },
  out: {
    kind: "text",
    value: "NAME",
    help: "writes the picture NAME.svg and the numbers NAME.json (default: find-lr)",
  },
} as const;

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain find-lr --config run.yaml",
    "hpctrain find-lr --data-path photos --model resnet18 --batch-size 64 --out photos-lr",
  ],
  settings: true,
  options: OPTIONS,
  run: async (argv) => await (await import("./run/find_lr.ts")).findRate(argv),
};
