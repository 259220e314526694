// `hpctrain report`: its flags and its help. commands/run/report.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { RUNS_DIR } from "./options.ts";

export const USAGE = "hpctrain report [RUN ... | DATA] [--out FILE] [--save-dir DIR] [--data-type KIND]";

export const OPTIONS = {
  out: { kind: "text", value: "FILE", help: "where to write it (default: RUN.html here)" },
  "save-dir": RUNS_DIR,
  "data-type": {
    kind: "text",
    value: "KIND",
    help: "the report is of data of this kind, where its name does not say",
  },
} as const;

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain report quickstart",
    "hpctrain report lr-1e-3 lr-3e-3 --out rates.html",
    "hpctrain report 'era5/*.nc' --out era5.html",
  ],
  options: OPTIONS,
  words: ["newest"],
  run: async (argv) => await (await import("./run/report.ts")).report(argv),
};
