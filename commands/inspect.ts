// `hpctrain inspect`: its flags and its help. commands/run/inspect.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { SANDBOX } from "./options.ts";

export const USAGE =
  "hpctrain inspect FILE|FOLDER [--json] [--verify] [--sample N] [--png FILE] [--augment LIST] [--sandbox]";

export const OPTIONS = {
  json: { kind: "bool", help: "the same as JSON, every tensor included" },
  verify: { kind: "bool", help: "of a checkpoint or packed shards: compare every checksum" },
  sample: { kind: "text", value: "N", help: "of data: show this sample, counted from 0" },
  png: { kind: "text", value: "FILE", help: "of images and maps: write them as a picture" },
  augment: {
    kind: "text",
    value: "LIST",
    help: "of images and maps: draw 16 samples as training with this list sees them",
  },
  "data-type": { kind: "text", value: "KIND", help: "what kind of data it is, where its name does not say" },
  sandbox: SANDBOX,
} as const;

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain inspect checkpoints/quickstart_best.pt",
    "hpctrain inspect model.safetensors --json",
    "hpctrain inspect maps.nc --png maps.png",
    "hpctrain inspect photos --augment 'random_resized_crop(224), rand_augment' --png seen.png",
  ],
  ownHelp: true,
  options: OPTIONS,
  writes: "png",
  run: async (argv) => await (await import("./run/inspect.ts")).inspect(argv),
};
