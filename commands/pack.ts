// `hpctrain pack`: its flags and its help. commands/run/pack.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { DATA, HERE, PLACE, settingsAmong } from "./options.ts";

export const USAGE = "hpctrain pack SRC OUT [FLAGS]";

export const OPTIONS = {
  "samples-per-shard": {
    kind: "text",
    value: "N",
    help: "samples in one file (default: as many as take 64 MiB, or a 256th of all)",
  },
  "keep-encoded": {
    kind: "bool",
    help: "keep images as their files are, to be decoded in training: smaller, and slower to read",
  },
} as const;

export const SETTINGS = settingsAmong(DATA, HERE, PLACE, /^model\.|^training\.(loss|seed)$/);

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain pack photos packed --resize 256 --centre-crop 224",
    "hpctrain pack ice.nc packed --features wind,temperature --targets drift",
    "hpctrain pack ice.nc ice.npz",
  ],
  settings: SETTINGS,
  options: OPTIONS,
  positionals: 2,
  run: async (argv) => await (await import("./run/pack.ts")).pack(argv),
};
