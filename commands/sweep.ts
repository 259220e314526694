// `hpctrain sweep`: its flags and its help. commands/run/sweep.ts is loaded when it runs.
import { PARTS } from "../core/parts.ts";
import type { Command } from "./mod.ts";

const SEARCHES = Object.entries(PARTS.searches);

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
  search: {
    kind: "text",
    value: "KIND",
    help: `choose runs one by one: ${
      ["grid", "random", ...SEARCHES.map(([name, { about }]) => `${name} (${about})`)].join(", ")
    }`,
  },
  "max-runs": { kind: "text", value: "N", help: "runs of a search" },
  parallel: { kind: "text", value: "N", help: "runs at the same time, as --jobs" },
  metric: { kind: "text", value: "NAME", help: "what runs are compared by (default: val_loss)" },
  goal: { kind: "text", value: "GOAL", help: "minimize or maximize (default: as the metric is known)" },
  "first-rung": {
    kind: "text",
    value: "1ep",
    help: "where losers are stopped first, in epochs or steps (asha: 1ep)",
  },
  reduce: { kind: "text", value: "N", help: "one run of N goes on from a rung to the next (default: 3)" },
  local: { kind: "bool", help: "train here and now instead of making a job array" },
  jobs: { kind: "text", value: "N", help: "runs at the same time (default: 1 here, all in a job array)" },
  submit: { kind: "bool", help: "submit the job array" },
  pbs: { kind: "bool", help: "a job array for PBS instead of SLURM" },
  json: { kind: "bool", help: "status and best as JSON" },
  out: { kind: "text", value: "FILE", help: "where sweep report writes its page (default: NAME.html here)" },
} as const;

/** Those that say which runs there are; a job script takes them too. */
export const PLAN_OPTIONS = (({ local: _1, submit: _2, pbs: _3, json: _4, out: _5, ...plan }) => plan)(
  SWEEP_OPTIONS,
);

/** An example of a search that is not here would fail. */
const isKnown = (example: string): boolean => {
  const kind = /--search (\w+)/.exec(example)?.[1];
  return kind === undefined || SEARCHES.some(([name]) => name === kind);
};

export const command: Command = {
  usage: "hpctrain sweep [FILE] FLAGS [--search KIND] [--local | --submit], sweep status|best|report [NAME]",
  examples: [
    "hpctrain sweep --config run.yaml --lr 1e-4,3e-4,1e-3 --set model.hidden_size=64,128 --submit",
    "hpctrain sweep --lr 1e-5..1e-2 --search tpe --max-runs 30 --parallel 2 --local",
    "hpctrain sweep search.yaml --config run.yaml --search asha --max-runs 100 --parallel 8 --submit",
    "hpctrain sweep report",
  ].filter(isKnown),
  settings: true,
  options: SWEEP_OPTIONS,
  positionals: 1,
  words: ["status", "best", "report"],
  run: async (argv) => await (await import("./run/sweep.ts")).sweep(argv),
};
