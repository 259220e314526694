// `hpctrain train`: its flags and its help. commands/run/train.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { SANDBOX } from "./options.ts";

export const USAGE = "hpctrain [train] [FLAGS]. `hpctrain train --help` lists them.";

export const OPTIONS = {
  "dry-run": {
    kind: "bool",
    help: "check settings, data and model, tell what each step would train on, and train and write nothing",
  },
  sandbox: SANDBOX,
} as const;

export const command: Command = {
  usage: "hpctrain [train] [FLAGS]",
  examples: [
    "hpctrain --preset quickstart",
    "hpctrain train --config run.yaml --lr 1e-3 --epochs 20",
    "hpctrain --config run.yaml --dry-run",
    "hpctrain --model resnet18 --data-type mnist --data-path data --resume auto",
  ],
  settings: true,
  options: OPTIONS,
  writes: "run",
  run: async (argv) => await (await import("./run/train.ts")).runTrain(argv),
};
