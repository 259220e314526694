// The options of commands that are no settings, and which settings a command takes as flags: what is parsed, and what
// help and completions show.

// Which settings a command takes as flags: its help lists them, shells complete them, and others are refused.

/** Whether a setting's path is among them. */
export type SettingsFilter = (path: string) => boolean;

const of = (...patterns: readonly RegExp[]): SettingsFilter => (path) =>
  patterns.some((pattern) => pattern.test(path));

const DATA = /^data\./;
const HERE = /^(environment\.|training\.(device|threads)$|output\.(quiet|json)$)/;
const PLACE = /^distributed\.(backend|world_size|rank|local_rank|master_addr|master_port|timeout|network)$/;
/** How a model computes, whatever it was trained by. */
const FORWARD = /^training\.(batch_size|eval_batch_size|amp|tf32|channels_last|deterministic|metric)$/;
const ITS_FILE = /^model\.(name|inputs|blocks)$/;

export const COMMAND_SETTINGS = {
  eval: of(DATA, HERE, FORWARD, ITS_FILE),
  predict: of(DATA, HERE, FORWARD, ITS_FILE, PLACE),
  pack: of(DATA, HERE, PLACE, /^model\.|^training\.(loss|seed)$/),
  doctor: of(HERE, PLACE, /^output\.save_dir$|^data\.|^distributed\.|^wandb\./),
  bench: of(HERE, PLACE, /^distributed\./),
  models: of(DATA, HERE, /^model\.|^training\.(optimizer\.type|amp|loss|seed|gradient_checkpointing|ema)$/),
} as const;

// The options of commands that are no settings: what is parsed, and what help and completions tell.

export const TRAIN_OPTIONS = {
  "dry-run": {
    kind: "bool",
    help: "check settings, data and model, tell what each step would train on, and train and write nothing",
  },
} as const;

export const CONFIG_OPTIONS = {
  json: { kind: "bool", help: "print the configuration and the origins as JSON" },
  yaml: { kind: "bool", help: "print the configuration as a YAML file that --config reads" },
  changed: { kind: "bool", help: "only what differs from the default" },
  schema: { kind: "bool", help: "print the JSON Schema of a YAML file, for editors" },
  docs: { kind: "bool", help: "print the page of all settings as Markdown" },
} as const;

export const BENCH_OPTIONS = {
  sizes: {
    kind: "text",
    value: "SIZES",
    help: "such as 4KiB,1MiB (default: nine sizes, 4 KiB to 256 MiB)",
  },
} as const;

export const DOCTOR_OPTIONS = {
  full: {
    kind: "bool",
    help: "measure too: matmul, all-reduce between nodes, storage, clocks; under a minute",
  },
} as const;

export const PACK_OPTIONS = {
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

export const SYNC_OPTIONS = {
  "dry-run": { kind: "bool", help: "say what would be uploaded, and send nothing" },
  watch: { kind: "bool", help: "keep uploading while runs grow, and those that begin later, until Ctrl-C" },
  interval: {
    kind: "text",
    value: "SECONDS",
    help: "with --watch: between two requests of a run (default: 15)",
  },
  verify: { kind: "bool", help: "read back what the server has, and compare it with the files" },
  finish: { kind: "bool", help: "end runs that have no end, however new they are" },
  "include-synced": { kind: "bool", help: "also look at runs that are marked as uploaded" },
  retries: { kind: "text", value: "N", help: "tries after a failure, with growing waits (default: 8)" },
  parallel: { kind: "text", value: "N", help: "runs uploaded at a time (default: 4)" },
  project: { kind: "text", value: "NAME", help: "upload into this project" },
  entity: { kind: "text", value: "NAME", help: "upload for this user or team" },
  "base-url": { kind: "text", value: "URL", help: "the server's address (default: WANDB_BASE_URL)" },
  "key-file": {
    kind: "text",
    value: "FILE",
    help: "file with the key, that only its owner may read (default: WANDB_API_KEY, ~/.netrc)",
  },
  "ca-file": { kind: "text", value: "FILE", help: "certificates (PEM) to trust beside the system's" },
  "save-dir": { kind: "text", value: "DIR", help: "where logs/ lies (default: here)" },
  json: { kind: "bool", help: "print what became of each run as JSON, one a line" },
  quiet: { kind: "bool", help: "print warnings and errors only" },
} as const;

/** Their torchrun spellings work too; what follows them is for the ranks. */
export const LAUNCH_OPTIONS = {
  n: {
    kind: "text",
    value: "N",
    help: "ranks on this node; also --nproc-per-node, and gpu, cpu or auto for N",
  },
  nodes: { kind: "text", value: "M", help: "nodes that take part, each with its own launch (default: 1)" },
  "node-rank": { kind: "text", value: "K", help: "which of them this is, from 0" },
  rendezvous: {
    kind: "text",
    value: "HOST:PORT",
    help:
      "where rank 0 can be reached from the other nodes: the host of node 0, and a port that is free there",
  },
  "max-restarts": {
    kind: "text",
    value: "R",
    help:
      "start all ranks again after a failure, from the newest good checkpoint, at most so often (default: 0)",
  },
} as const;

export const WATCH_OPTIONS = {
  "save-dir": { kind: "text", value: "DIR", help: "the parent of logs/, where runs are looked for by name" },
  interval: {
    kind: "text",
    value: "SECONDS",
    help: "between two looks at the files (default: 1, and 10 where there is no terminal)",
  },
  once: { kind: "bool", help: "show how it stands now, and end" },
} as const;

export const REPORT_OPTIONS = {
  out: { kind: "text", value: "FILE", help: "where to write it (default: RUN.html here)" },
  png: { kind: "text", value: "FILE", help: "also draw the most telling curves as a picture, for slides" },
  "save-dir": { kind: "text", value: "DIR", help: "the parent of logs/, where runs are looked for by name" },
} as const;

const JOB_OPTIONS = {
  submit: { kind: "bool", help: "submit the job, and tell its number and what to type next" },
  "dry-run": { kind: "bool", help: "check the numbers, and ask the scheduler whether it would take the job" },
  output: { kind: "text", value: "FILE", help: "write the script to a file instead of printing it" },
  kind: {
    kind: "text",
    value: "COMMAND",
    help: "what the job runs: train (as it is), eval, pack, bench, generate-data, doctor or sweep",
  },
  env: { kind: "text", value: "NAME=VALUE", help: "a variable that the job sets; may be given again" },
  setup: {
    kind: "text",
    value: "LINE",
    help: "a line of shell that the job begins with; may be given again",
  },
} as const;

export const SBATCH_OPTIONS = {
  ...JOB_OPTIONS,
  "sbatch-arg": {
    kind: "text",
    value: "OPTION",
    help: "any option of sbatch, untouched, such as --sbatch-arg=--nice=100; may be given again",
  },
} as const;

export const QSUB_OPTIONS = {
  ...JOB_OPTIONS,
  "qsub-arg": {
    kind: "text",
    value: "OPTION",
    help: "any option of qsub, untouched, such as --qsub-arg='-l software=x'; may be given again",
  },
} as const;

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

export const PREDICT_OPTIONS = {
  out: { kind: "text", value: "FILE", help: "the file to write, .npz, .csv or .nc" },
  all: {
    kind: "bool",
    help: "all samples, not those to validate with alone; so it is with another --data-path",
  },
  "no-targets": {
    kind: "bool",
    help: "the data need not say what the answers should be, and the file has predictions alone",
  },
} as const;

const SAVE_DIR = {
  kind: "text",
  value: "DIR",
  help: "the folder that the runs were given (default: this one)",
} as const;

export const STATUS_OPTIONS = {
  "save-dir": SAVE_DIR,
  json: { kind: "bool", help: "as JSON" },
} as const;

export const CANCEL_OPTIONS = {
  "save-dir": SAVE_DIR,
  now: {
    kind: "bool",
    help: "let the scheduler end the job, instead of asking the run to stop after a save",
  },
} as const;

export const LOGS_OPTIONS = {
  "save-dir": SAVE_DIR,
  follow: { kind: "bool", help: "go on as more is printed; also -f" },
  rank: { kind: "text", value: "K", help: "the rank whose output is shown (default: 0)" },
} as const;

export const MODELS_OPTIONS = {
  gpu: { kind: "text", value: "MEMORY", help: "say how large a batch fits, of a GPU with 80GB, 24GiB, ..." },
} as const;

export const EXPORT_OPTIONS = {
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
} as const;
