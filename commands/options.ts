// Several commands share these flags and filters.
import { PARTS } from "../core/parts.ts";

/** Tells by a setting's path whether a command takes it: its help lists it, shells complete it, others are refused. */
export type SettingsFilter = (path: string) => boolean;

export const settingsAmong = (...patterns: readonly RegExp[]): SettingsFilter => (path) =>
  patterns.some((pattern) => pattern.test(path));

export const DATA_SETTINGS = /^data\./;
export const MACHINE_SETTINGS = /^(environment\.|training\.(device|threads)$|output\.(quiet|json)$)/;
export const PLACE =
  /^distributed\.(backend|world_size|rank|local_rank|master_addr|master_port|timeout|network)$/;
/** How a model computes, whatever it was trained by. */
export const FORWARD = /^training\.(batch_size|eval_batch_size|amp|tf32|channels_last|deterministic|metric)$/;
export const ITS_FILE = /^model\.(name|inputs|blocks)$/;
/** A checkpoint of another program does not say these. */
export const OF_OTHERS = /^model\.|^training\.(loss|ignore_index)$/;

/** For commands that read a stranger's files. */
export const SANDBOX = {
  kind: "bool",
  help:
    "for a stranger's files: no program is started, no network is used, and nothing is written but the command's own files",
} as const;

/** For commands that look a run or a job up. */
export const SAVE_DIR = {
  kind: "text",
  value: "DIR",
  help: "the folder that the runs were given (default: this one)",
} as const;

/** For commands that show runs. */
export const RUNS_DIR = {
  kind: "text",
  value: "DIR",
  help: "the parent of logs/, where runs are looked for by name",
} as const;

/** For commands that ask a model about samples. */
export const MC_DROPOUT = {
  kind: "text",
  value: "N",
  help: "drop activations as in training, predict each sample so often, and take the mean and the spread",
} as const;

export const TTA = {
  kind: "text",
  value: "VIEWS",
  help:
    "see each picture several times and take the mean: flips (mirrored), five_crop or ten_crop (corners and middle, and mirrored)",
} as const;

const OF_EVERY_JOB = {
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

/** For commands that make job scripts, by their scheduler. */
export const JOB_OPTIONS = {
  slurm: {
    ...OF_EVERY_JOB,
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
  },
  pbs: {
    ...OF_EVERY_JOB,
    "qsub-arg": {
      kind: "text",
      value: "OPTION",
      help: "any option of qsub, untouched, such as --qsub-arg='-l software=x'; may be given again",
    },
  },
} as const;

export const SEARCHES = Object.entries(PARTS.searches);

/** They say which runs a sweep has: for commands that make a script of one, too. */
export const PLAN_OPTIONS = {
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
  jobs: { kind: "text", value: "N", help: "runs at the same time (default: 1 here, all in a job array)" },
} as const;
