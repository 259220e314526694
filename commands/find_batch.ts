// `hpctrain find-batch`: its help. commands/run/find_batch.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const USAGE = "hpctrain find-batch [FLAGS]";

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain find-batch --config run.yaml",
    "hpctrain find-batch --data-path photos --model resnet18 --json",
  ],
  settings: true,
  run: async (argv) => await (await import("./run/find_batch.ts")).findBatch(argv),
};
