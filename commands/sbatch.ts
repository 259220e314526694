// `hpctrain sbatch`: its flags and its help. commands/run/sbatch.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const JOB_OPTIONS = {
  submit: { kind: "bool", help: "submit the job, and tell its number and what to type next" },
  "dry-run": { kind: "bool", help: "check the numbers, and ask the scheduler whether it would take the job" },
  output: { kind: "text", value: "FILE", help: "write the script to a file instead of printing it" },
  kind: {
    kind: "text",
    value: "COMMAND",
    help: "what the job runs: train (as it is), eval, pack, bench, generate-data, doctor or sweep",
  },
  env: {
    kind: "text",
    value: "NAME[=VALUE]",
    help: "a variable that the job sets, or by its name alone hands on from your shell; may be given again",
  },
  setup: {
    kind: "text",
    value: "LINE",
    help: "a line of shell that the job begins with; may be given again",
  },
} as const;

export const OPTIONS = {
  ...JOB_OPTIONS,
  "sbatch-arg": {
    kind: "text",
    value: "OPTION",
    help: "any option of sbatch, untouched, such as --sbatch-arg=--nice=100; may be given again",
  },
  "srun-arg": {
    kind: "text",
    value: "OPTION",
    help: "any option of srun, untouched, such as --srun-arg=--cpu-bind=cores; may be given again",
  },
} as const;

export const command: Command = {
  usage: "hpctrain sbatch [COMMAND] [FLAGS] [--dry-run | --submit] [--output FILE]",
  examples: [
    "hpctrain sbatch --preset multi-node --nodes 2 --gpus-per-node 4 --time 04:00:00 --submit",
    "hpctrain sbatch --site lumi --nodes 2 --account project_465000000 --time 04:00:00 --submit",
    "hpctrain sbatch --config run.yaml --preset single-gpu --output job.sh",
    "hpctrain sbatch --preset cpu-cluster --nodes 4 --ntasks-per-node 8 --dry-run",
  ],
  settings: true,
  options: OPTIONS,
  run: async (argv) => await (await import("./run/sbatch.ts")).sbatch(argv),
};
