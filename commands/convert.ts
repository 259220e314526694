// `hpctrain convert`: its flags and its help. commands/run/convert.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const USAGE = "hpctrain convert IN OUT [--whole] [--shards N] [--strip PREFIX] [--force]";

export const command: Command = {
  usage: USAGE,
  examples: ["hpctrain convert checkpoints/quickstart_best.pt model.safetensors"],
  ownHelp: true,
  words: ["--whole", "--shards", "--strip", "--force"],
  run: async (argv) => await (await import("./run/convert.ts")).convert(argv),
};
