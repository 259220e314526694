// `hpctrain generate-data`: its flags and its help. commands/run/generate_data.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const command: Command = {
  usage: "hpctrain generate-data --data-type KIND --samples N --out DIR",
  examples: ["hpctrain generate-data --data-type synthetic --samples 2000 --out maps"],
  ownHelp: true,
  words: ["--data-type", "--samples", "--out", "--val-samples", "--seed", "--grid", "--box", "--maps"],
  run: async (argv) => await (await import("./run/generate_data.ts")).generateData(argv),
};
