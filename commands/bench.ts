// `hpctrain bench`: its flags and its help. commands/run/bench.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { HERE, PLACE, settingsAmong } from "./options.ts";

export const USAGE = "hpctrain bench allreduce [--sizes 4KiB,1MiB] [FLAGS] | scaling RUN RUN...";

export const OPTIONS = {
  sizes: {
    kind: "text",
    value: "SIZES",
    help: "such as 4KiB,1MiB (default: nine sizes, 4 KiB to 256 MiB)",
  },
} as const;

export const SETTINGS = settingsAmong(HERE, PLACE, /^distributed\./);

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain launch -n 4 -- bench allreduce --device cpu",
    "srun hpctrain bench allreduce --json",
    "hpctrain bench scaling one-gpu four-gpus eight-gpus",
  ],
  settings: SETTINGS,
  options: OPTIONS,
  words: ["allreduce", "scaling"],
  positionals: 1,
  run: async (argv) => await (await import("./run/bench.ts")).bench(argv),
};
