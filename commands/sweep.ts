// `hpctrain sweep`: its flags and its help. commands/run/sweep.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const SWEEP_OPTIONS = {
  name: {
    kind: "text",
    value: "NAME",
    help: "name of the sweep, and begin of its runs' names (default: sweep)",
  },
  random: {
    kind: "text",
    value: "N",
    help: "N runs drawn from the lists and from ranges such as 1e-5..1e-2, instead of all combinations",
  },
  metric: { kind: "text", value: "NAME", help: "what runs are compared by (default: val_loss)" },
  local: { kind: "bool", help: "train here and now instead of making a job array" },
  jobs: { kind: "text", value: "N", help: "runs at the same time (default: 1 here, all in a job array)" },
  submit: { kind: "bool", help: "submit the job array" },
  pbs: { kind: "bool", help: "a job array for PBS instead of SLURM" },
  json: { kind: "bool", help: "status and best as JSON" },
} as const;

export const command: Command = {
  usage: "hpctrain sweep FLAGS [--random N] [--local | --submit], hpctrain sweep status|best [NAME]",
  examples: [
    "hpctrain sweep --config run.yaml --lr 1e-4,3e-4,1e-3 --set model.hidden_size=64,128 --submit",
    "hpctrain sweep --lr 1e-5..1e-2 --random 20 --local --jobs 2",
    "hpctrain sweep best",
  ],
  settings: true,
  options: SWEEP_OPTIONS,
  words: ["status", "best"],
  run: async (argv) => await (await import("./run/sweep.ts")).sweep(argv),
};
