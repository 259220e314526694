// `hpctrain export`: its flags and its help. commands/run/export.ts is loaded when it runs.
import { PARTS } from "../core/parts.ts";
import type { Command } from "./mod.ts";
import { DATA_SETTINGS, MACHINE_SETTINGS, SANDBOX, settingsAmong } from "./options.ts";

/** Endings of programs beside .pt2. */
export const PROGRAMS = Object.keys(PARTS.programs);

export const USAGE = `hpctrain export CHECKPOINT OUT.${
  ["pt", "safetensors", "pt2", ...PROGRAMS].join("|.")
} [--model FILE] [--raw] [--force]`;

export const OPTIONS = {
  model: {
    kind: "text",
    value: "FILE",
    help: "the exported program that was trained, if it is not where it was (OUT is .pt2)",
  },
  raw: {
    kind: "bool",
    help: "the weights as they were trained, where the run kept averages of them (--ema)",
  },
  force: { kind: "bool", help: "replace OUT if it exists" },
  sandbox: SANDBOX,
} as const;

/** A model that is written as a program may be made for other data than the run's. */
export const SETTINGS = settingsAmong(DATA_SETTINGS, MACHINE_SETTINGS);

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain export checkpoints/quickstart_best.pt weights.pt",
    "hpctrain export checkpoints/mine_best.pt trained.pt2",
    ...PROGRAMS.map((ending) => `hpctrain export checkpoints/pets_best.pt pets.${ending}`),
  ],
  settings: SETTINGS,
  ofCheckpoint: true,
  positionals: Infinity,
  options: OPTIONS,
  writes: "last",
  run: async (argv) => await (await import("./run/export.ts")).exportWeights(argv),
};
