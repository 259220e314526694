// `hpctrain convert`: its flags and its help. commands/run/convert.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { SANDBOX } from "./options.ts";

export const USAGE = "hpctrain convert IN OUT [--whole] [--shards N] [--strip PREFIX] [--force] [--sandbox]";

export const OPTIONS = {
  whole: { kind: "bool", help: "carry the training state too" },
  shards: { kind: "text", value: "N", help: "write N files and their index into the folder OUT" },
  strip: { kind: "text", value: "PREFIX", help: "take PREFIX off the tensors' names" },
  force: { kind: "bool", help: "replace OUT if it exists" },
  sandbox: SANDBOX,
} as const;

export const command: Command = {
  usage: USAGE,
  examples: ["hpctrain convert checkpoints/quickstart_best.pt model.safetensors"],
  ownHelp: true,
  options: OPTIONS,
  writes: "last",
  run: async (argv) => await (await import("./run/convert.ts")).convert(argv),
};
