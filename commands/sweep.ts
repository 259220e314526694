// `hpctrain sweep`: its flags and its help. commands/run/sweep.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { PLAN_OPTIONS, SEARCHES } from "./options.ts";

const { jobs, ...plan } = PLAN_OPTIONS;

export const OPTIONS = {
  ...plan,
  local: { kind: "bool", help: "train here and now instead of making a job array" },
  jobs,
  submit: { kind: "bool", help: "submit the job array" },
  pbs: { kind: "bool", help: "a job array for PBS instead of SLURM" },
  json: { kind: "bool", help: "status and best as JSON" },
  out: { kind: "text", value: "FILE", help: "where sweep report writes its page (default: NAME.html here)" },
} as const;

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
  options: OPTIONS,
  positionals: 1,
  words: ["status", "best", "report"],
  run: async (argv) => await (await import("./run/sweep.ts")).sweep(argv),
};
