// `hpctrain schedule`: its help. commands/run/schedule.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const USAGE = "hpctrain schedule [FLAGS]";

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain schedule --config run.yaml",
    "hpctrain schedule --scheduler 'linear 500steps > cosine' --train-samples 50000 --epochs 10",
    "hpctrain schedule --config run.yaml --json > rates.json",
  ],
  settings: true,
  run: async (argv) => await (await import("./run/schedule.ts")).schedule(argv),
};
