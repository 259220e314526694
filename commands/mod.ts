// The table of commands.
import type { OptionSpec } from "../core/settings/options.ts";
import { MODEL_NAMES } from "../core/settings/sections/model.ts";
import {
  BENCH_OPTIONS,
  CANCEL_OPTIONS,
  COMMAND_SETTINGS,
  CONFIG_OPTIONS,
  DOCTOR_OPTIONS,
  EXPORT_OPTIONS,
  LAUNCH_OPTIONS,
  LOGS_OPTIONS,
  MODELS_OPTIONS,
  PACK_OPTIONS,
  PREDICT_OPTIONS,
  QSUB_OPTIONS,
  REPORT_OPTIONS,
  SBATCH_OPTIONS,
  type SettingsFilter,
  STATUS_OPTIONS,
  SWEEP_OPTIONS,
  SYNC_OPTIONS,
  TRAIN_OPTIONS,
  WATCH_OPTIONS,
} from "./options.ts";

/** The arguments after the command's name -> the exit code. */
export type Run = (argv: string[]) => Promise<number>;

export interface Command {
  readonly name: string;
  readonly summary: string;
  readonly usage: string;
  readonly examples: readonly string[];
  /** Takes the flags of all settings, or of these. */
  readonly settings?: true | SettingsFilter;
  /** Its settings are a checkpoint's, so it is no place for a preset. */
  readonly ofCheckpoint?: true;
  /** Prints its own help. */
  readonly ownHelp?: boolean;
  /** Options that are no settings, for help and completions. */
  readonly options?: Readonly<Record<string, OptionSpec>>;
  /** Other words that may follow the name, for completions. */
  readonly words?: readonly string[];
  readonly load: () => Promise<Run>;
}

export const COMMANDS: readonly Command[] = [
  {
    name: "train",
    summary: "train here; the name may be left out before flags",
    usage: "hpctrain [train] [FLAGS]",
    examples: [
      "hpctrain --preset quickstart",
      "hpctrain train --config run.yaml --lr 1e-3 --epochs 20",
      "hpctrain --config run.yaml --dry-run",
      "hpctrain --model resnet18 --data-type mnist --data-path data --resume auto",
    ],
    settings: true,
    options: TRAIN_OPTIONS,
    load: async () => (await import("./train.ts")).train,
  },
  {
    name: "eval",
    summary: "evaluate a checkpoint, every sample exactly once",
    usage: "hpctrain eval CHECKPOINT [FLAGS]",
    examples: ["hpctrain eval checkpoints/quickstart_best.pt --val-samples 2000"],
    settings: COMMAND_SETTINGS.eval,
    ofCheckpoint: true,
    load: async () => (await import("./eval.ts")).evaluate,
  },
  {
    name: "predict",
    summary: "write what a checkpoint's model says of each sample",
    usage: "hpctrain predict CHECKPOINT --out FILE.npz|.csv|.nc [--all] [--no-targets] [FLAGS]",
    examples: [
      "hpctrain predict checkpoints/quickstart_best.pt --out predicted.csv",
      "hpctrain predict checkpoints/ice_best.pt --data-path next-year.nc --out predicted.nc",
      "hpctrain launch -n 4 -- predict checkpoints/ice_best.pt --data-path new.nc --out ice.nc",
    ],
    settings: COMMAND_SETTINGS.predict,
    ofCheckpoint: true,
    options: PREDICT_OPTIONS,
    load: async () => (await import("./predict.ts")).predict,
  },
  {
    name: "launch",
    summary: "start several ranks on this node, under one supervisor",
    usage:
      "hpctrain launch -n N [--nodes M --node-rank K --rendezvous HOST:PORT --max-restarts R] -- [FLAGS]",
    examples: [
      "hpctrain launch -n 4 -- --preset cpu-cluster --any-layout",
      "hpctrain launch --nproc-per-node gpu --max-restarts 2 -- --config run.yaml",
      "hpctrain launch -n 8 pack photos packed --resize 256",
    ],
    options: LAUNCH_OPTIONS,
    load: async () => (await import("./launch.ts")).launch,
  },
  {
    name: "watch",
    summary: "show how a run does, live, from its files",
    usage: "hpctrain watch [RUN] [--save-dir DIR] [--interval SECONDS] [--once]",
    examples: ["hpctrain watch", "hpctrain watch quickstart", "hpctrain watch /scratch/me/logs/run --once"],
    options: WATCH_OPTIONS,
    words: ["newest"],
    load: async () => (await import("./watch.ts")).watch,
  },
  {
    name: "sbatch",
    summary: "print, check or submit a job script for SLURM",
    usage: "hpctrain sbatch [COMMAND] [FLAGS] [--dry-run | --submit] [--output FILE]",
    examples: [
      "hpctrain sbatch --preset multi-node --nodes 2 --gpus-per-node 4 --time 04:00:00 --submit",
      "hpctrain sbatch --config run.yaml --preset single-gpu --output job.sh",
      "hpctrain sbatch --preset cpu-cluster --nodes 4 --ntasks-per-node 8 --dry-run",
    ],
    settings: true,
    options: SBATCH_OPTIONS,
    load: async () => (await import("./sbatch.ts")).sbatch,
  },
  {
    name: "qsub",
    summary: "print, check or submit a job script for PBS",
    usage: "hpctrain qsub [COMMAND] [FLAGS] [--dry-run | --submit] [--output FILE]",
    examples: [
      "hpctrain qsub --preset cpu-cluster --nodes 2 --partition workq --time 04:00:00 --submit",
      "hpctrain qsub --pbs torque --preset single-gpu --output job.sh",
    ],
    settings: true,
    options: QSUB_OPTIONS,
    load: async () => (await import("./qsub.ts")).qsub,
  },
  {
    name: "sweep",
    summary: "train once for each combination of settings, as one job array or here",
    usage: "hpctrain sweep FLAGS [--random N] [--local | --submit], hpctrain sweep status|best [NAME]",
    examples: [
      "hpctrain sweep --config run.yaml --lr 1e-4,3e-4,1e-3 --set model.hidden_size=64,128 --submit",
      "hpctrain sweep --lr 1e-5..1e-2 --random 20 --local --jobs 2",
      "hpctrain sweep best",
    ],
    settings: true,
    options: SWEEP_OPTIONS,
    words: ["status", "best"],
    load: async () => (await import("./sweep.ts")).sweep,
  },
  {
    name: "status",
    summary: "tell in a few lines how a run or a job stands",
    usage: "hpctrain status [RUN | JOB] [--json]",
    examples: ["hpctrain status", "hpctrain status 4711"],
    options: STATUS_OPTIONS,
    load: async () => (await import("./status.ts")).status,
  },
  {
    name: "logs",
    summary: "show what a run or a job has printed",
    usage: "hpctrain logs [RUN | JOB] [-f] [--rank K]",
    examples: ["hpctrain logs -f", "hpctrain logs quickstart --rank 3"],
    options: LOGS_OPTIONS,
    load: async () => (await import("./logs.ts")).logs,
  },
  {
    name: "cancel",
    summary: "ask a run to stop after a save, or end a job",
    usage: "hpctrain cancel RUN | JOB [--now]",
    examples: ["hpctrain cancel quickstart", "hpctrain cancel 4711 --now"],
    options: CANCEL_OPTIONS,
    load: async () => (await import("./cancel.ts")).cancel,
  },
  {
    name: "report",
    summary: "write one HTML file of a run, or of several compared",
    usage: "hpctrain report [RUN ...] [--out FILE] [--png FILE] [--save-dir DIR]",
    examples: [
      "hpctrain report quickstart",
      "hpctrain report lr-1e-3 lr-3e-3 --out rates.html",
      "hpctrain report newest --png slide.png",
    ],
    options: REPORT_OPTIONS,
    words: ["newest"],
    load: async () => (await import("./report.ts")).report,
  },
  {
    name: "generate-data",
    summary: "make a data set of simulated universes, or of random fields",
    usage: "hpctrain generate-data --data-type 2lpt|des|synthetic --samples N --out DIR",
    examples: ["hpctrain generate-data --data-type 2lpt --samples 2000 --out maps"],
    ownHelp: true,
    words: ["--data-type", "--samples", "--out", "--val-samples", "--seed", "--grid", "--box", "--maps"],
    load: async () => (await import("./generate_data.ts")).generateData,
  },
  {
    name: "sync-wandb",
    summary: "upload offline W&B runs from a machine with a network",
    usage: "hpctrain sync-wandb [DIR..] [FLAGS]",
    examples: [
      "hpctrain sync-wandb",
      "hpctrain sync-wandb logs/wandb --dry-run",
      "hpctrain sync-wandb --watch",
    ],
    options: SYNC_OPTIONS,
    load: async () => (await import("./sync_wandb.ts")).syncWandb,
  },
  {
    name: "inspect",
    summary: "show what is in a checkpoint, a data set or a run",
    usage: "hpctrain inspect FILE|FOLDER [--json] [--verify] [--sample N] [--png FILE]",
    examples: [
      "hpctrain inspect checkpoints/quickstart_best.pt",
      "hpctrain inspect model.safetensors --json",
      "hpctrain inspect maps.nc --png maps.png",
    ],
    ownHelp: true,
    words: ["--json", "--verify", "--sample", "--png", "--data-type"],
    load: async () => (await import("./inspect.ts")).inspect,
  },
  {
    name: "convert",
    summary: "turn .pt into .safetensors and back, one file or several",
    usage: "hpctrain convert IN OUT [--whole] [--shards N] [--strip PREFIX] [--force]",
    examples: ["hpctrain convert checkpoints/quickstart_best.pt model.safetensors"],
    ownHelp: true,
    words: ["--whole", "--shards", "--strip", "--force"],
    load: async () => (await import("./convert.ts")).convert,
  },
  {
    name: "export",
    summary: "write a checkpoint's weights for Python, or an exported program with them in it",
    usage: "hpctrain export CHECKPOINT OUT.pt|.safetensors|.pt2 [--model FILE] [--raw] [--force]",
    examples: [
      "hpctrain export checkpoints/quickstart_best.pt weights.pt",
      "hpctrain export checkpoints/mine_best.pt trained.pt2",
    ],
    options: EXPORT_OPTIONS,
    load: async () => (await import("./export.ts")).exportWeights,
  },
  {
    name: "pack",
    summary: "write any data set as packed shards, or a table as npz",
    usage: "hpctrain pack SRC OUT [FLAGS]",
    examples: [
      "hpctrain pack photos packed --resize 256 --centre-crop 224",
      "hpctrain pack ice.nc packed --features wind,temperature --targets drift",
      "hpctrain pack ice.nc ice.npz",
    ],
    settings: COMMAND_SETTINGS.pack,
    options: PACK_OPTIONS,
    load: async () => (await import("./pack.ts")).pack,
  },
  {
    name: "doctor",
    summary: "say what is here, what would fail and what to do about it",
    usage: "hpctrain doctor [--full] [--json] [FLAGS]",
    examples: [
      "hpctrain doctor",
      "hpctrain doctor --full --save-dir /scratch/me",
      "srun hpctrain doctor --full",
    ],
    settings: COMMAND_SETTINGS.doctor,
    options: DOCTOR_OPTIONS,
    load: async () => (await import("./doctor.ts")).doctor,
  },
  {
    name: "bench",
    summary: "measure how fast ranks add up their gradients here, or compare runs on 1 to N ranks",
    usage: "hpctrain bench allreduce [--sizes 4KiB,1MiB] [FLAGS] | scaling RUN RUN...",
    examples: [
      "hpctrain launch -n 4 -- bench allreduce --device cpu",
      "srun hpctrain bench allreduce --json",
      "hpctrain bench scaling one-gpu four-gpus eight-gpus",
    ],
    settings: COMMAND_SETTINGS.bench,
    options: BENCH_OPTIONS,
    words: ["allreduce", "scaling"],
    load: async () => (await import("./bench.ts")).bench,
  },
  {
    name: "new",
    summary: "begin a TypeScript file: a model, data, a loss or metrics of your own",
    usage: "hpctrain new model|data|loss|metric [FILE]",
    examples: ["hpctrain new model", "hpctrain new data maps.ts"],
    words: ["model", "data", "loss", "metric"],
    load: async () => (await import("./new.ts")).newFile,
  },
  {
    name: "types",
    summary: "print what such a file imports its types from, for editors",
    usage: "hpctrain types > hpctrain.d.ts",
    examples: ["hpctrain types > hpctrain.d.ts"],
    load: async () => (await import("./new.ts")).types,
  },
  {
    name: "config",
    summary: "show each setting's value, and where it came from",
    usage: "hpctrain config [FLAGS] [--changed] [--json | --yaml | --schema | --docs]",
    examples: [
      "hpctrain config --preset cpu --lr 1e-3 --changed",
      "hpctrain config --preset cpu --yaml > run.yaml",
    ],
    settings: true,
    options: CONFIG_OPTIONS,
    load: async () => (await import("./config.ts")).config,
  },
  {
    name: "models",
    summary: "list the models, or show one block by block: parameters, FLOPs, memory",
    usage: "hpctrain models [NAME] [--gpu 80GB] [FLAGS]",
    examples: [
      "hpctrain models",
      "hpctrain models resnet50 --gpu 80GB",
      "hpctrain models gpt --layers 12 --heads 12 --embed 768",
    ],
    settings: COMMAND_SETTINGS.models,
    options: MODELS_OPTIONS,
    words: MODEL_NAMES,
    load: async () => (await import("./models.ts")).models,
  },
  {
    name: "presets",
    summary: "list the presets, or print one",
    usage: "hpctrain presets [NAME]",
    examples: ["hpctrain presets", "hpctrain presets cpu > run.yaml"],
    load: async () => (await import("./config.ts")).presets,
  },
  {
    name: "libtorch",
    summary: "list, install or choose the libtorch to use",
    usage: "hpctrain libtorch list | install [VERSION] | use DIR",
    examples: ["hpctrain libtorch list"],
    ownHelp: true,
    words: ["list", "install", "use", "--json", "--if-missing", "--quiet"],
    load: async () => (await import("./libtorch.ts")).libtorch,
  },
  {
    name: "completions",
    summary: "print a shell's completions: bash, zsh or fish",
    usage: "hpctrain completions bash|zsh|fish",
    examples: ['eval "$(hpctrain completions bash)"', "hpctrain completions fish | source"],
    words: ["bash", "zsh", "fish"],
    load: async () => (await import("./completions.ts")).completions,
  },
];

export function findCommand(name: string): Command | undefined {
  return COMMANDS.find((command) => command.name === name);
}
