// `hpctrain runs`: its flags and its help. commands/run/runs.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const USAGE =
  "hpctrain runs [DIR] [--sort NAME] [--filter NAME=VALUE ...] [--json | --csv | --html [FILE]]";

export const OPTIONS = {
  sort: {
    kind: "text",
    value: "NAME",
    help: "best, started (the default: newest first), state, or any column, metric or setting",
  },
  reverse: { kind: "bool", help: "the other way round; runs without a value stay last" },
  filter: {
    kind: "list",
    value: "NAME=VALUE",
    help: "runs of which all of these are true: = with * for anything, !=, <, <=, >, >=",
  },
  json: { kind: "bool", help: "as JSON" },
  csv: { kind: "bool", help: "as CSV, with every column" },
  html: {
    kind: "text",
    value: "[FILE]",
    alone: "runs.html",
    help: "write a page that sorts and filters, with links to the reports (without FILE: runs.html)",
  },
} as const;

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain runs",
    "hpctrain runs /scratch/me --sort best --filter state=done 'val_loss<0.3' 'lr>=1e-4'",
    "hpctrain runs --html runs.html",
  ],
  options: OPTIONS,
  run: async (argv) => await (await import("./run/runs.ts")).runs(argv),
};
