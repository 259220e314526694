// `hpctrain inspect`: its flags and its help. commands/run/inspect.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const USAGE = "hpctrain inspect FILE|FOLDER [--json] [--verify] [--sample N] [--png FILE]";

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain inspect checkpoints/quickstart_best.pt",
    "hpctrain inspect model.safetensors --json",
    "hpctrain inspect maps.nc --png maps.png",
  ],
  ownHelp: true,
  words: ["--json", "--verify", "--sample", "--png", "--data-type"],
  run: async (argv) => await (await import("./run/inspect.ts")).inspect(argv),
};
