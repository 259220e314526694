// The table of commands. Each is a file with its flags and its help. Those with heavy imports have their run in
// commands/run, which is loaded when they run.
import type { OptionSpec } from "../core/settings/options.ts";
import type { SettingsFilter } from "./options.ts";

export interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<Command>;
}

export interface Command {
  readonly usage: string;
  readonly examples: readonly string[];
  /** True where the command takes the flags of all settings, a filter where it takes some. */
  readonly settings?: true | SettingsFilter;
  /** The settings are a checkpoint's, so a preset is refused. */
  readonly ofCheckpoint?: true;
  /** The command prints its own help. */
  readonly ownHelp?: boolean;
  /** Options that are no settings. */
  readonly options?: Readonly<Record<string, OptionSpec>>;
  /** How many words that are no flags stand beside the settings. */
  readonly positionals?: number;
  /** Other words that may follow the name, for completions. */
  readonly words?: readonly string[];
  /**
   * Takes --sandbox, and writes to the folders of a run, to the last word's place, to that of the file which a flag
   * names, or nowhere.
   */
  readonly writes?: "run" | "last" | "out" | "png" | "nothing";
  /** Takes the arguments after the command's name and returns the exit code. */
  readonly run: (argv: string[]) => Promise<number>;
}

export const COMMANDS: readonly CommandEntry[] = [
  {
    name: "train",
    summary: "train here; the name may be left out before flags",
    load: async () => (await import("./train.ts")).command,
  },
  {
    name: "adopt",
    summary: "move a training script of PyTorch's over, with proof",
    load: async () => (await import("./adopt.ts")).command,
  },
  {
    name: "eval",
    summary: "evaluate a checkpoint, every sample exactly once",
    load: async () => (await import("./eval.ts")).command,
  },
  {
    name: "predict",
    summary: "write what a checkpoint's model says of each sample",
    load: async () => (await import("./predict.ts")).command,
  },
  {
    name: "generate",
    summary: "let a language model write on from a text",
    load: async () => (await import("./generate.ts")).command,
  },
  {
    name: "find-lr",
    summary: "try learning rates over a few steps, and draw the loss over them",
    load: async () => (await import("./find_lr.ts")).command,
  },
  {
    name: "find-batch",
    summary: "measure which batch sizes fit, and how fast they are",
    load: async () => (await import("./find_batch.ts")).command,
  },
  {
    name: "schedule",
    summary: "draw the learning rates that a run would have, and list them",
    load: async () => (await import("./schedule.ts")).command,
  },
  {
    name: "launch",
    summary: "start several ranks on this node, under one supervisor",
    load: async () => (await import("./launch.ts")).command,
  },
  {
    name: "watch",
    summary: "show how a run does, live, from its files",
    load: async () => (await import("./watch.ts")).command,
  },
  {
    name: "sbatch",
    summary: "print, check or submit a job script for SLURM",
    load: async () => (await import("./sbatch.ts")).command,
  },
  {
    name: "qsub",
    summary: "print, check or submit a job script for PBS",
    load: async () => (await import("./qsub.ts")).command,
  },
  {
    name: "sweep",
    summary: "train with combinations of settings or search for good ones, here or as one job array",
    load: async () => (await import("./sweep.ts")).command,
  },
  {
    name: "status",
    summary: "tell in a few lines how a run or a job stands",
    load: async () => (await import("./status.ts")).command,
  },
  {
    name: "runs",
    summary: "list all runs below a folder, sorted and filtered, also as one HTML page",
    load: async () => (await import("./runs.ts")).command,
  },
  {
    name: "logs",
    summary: "show what a run or a job has printed",
    load: async () => (await import("./logs.ts")).command,
  },
  {
    name: "cancel",
    summary: "ask a run to stop after a save, or end a job",
    load: async () => (await import("./cancel.ts")).command,
  },
  {
    name: "report",
    summary: "write one HTML file of a run, of several compared, or of a data set",
    load: async () => (await import("./report.ts")).command,
  },
  {
    name: "generate-data",
    summary: "make a data set of simulated universes, or of random fields",
    load: async () => (await import("./generate_data.ts")).command,
  },
  {
    name: "sync-wandb",
    summary: "upload offline W&B runs from a machine with a network",
    load: async () => (await import("./sync_wandb.ts")).command,
  },
  {
    name: "python",
    summary: "write a package for Python that reads checkpoints, predictions and runs",
    load: async () => (await import("./python.ts")).command,
  },
  {
    name: "inspect",
    summary: "show what is in a checkpoint, a data set or a run",
    load: async () => (await import("./inspect.ts")).command,
  },
  {
    name: "convert",
    summary: "turn .pt into .safetensors and back, one file or several",
    load: async () => (await import("./convert.ts")).command,
  },
  {
    name: "export",
    summary: "write a checkpoint's weights for Python, or an exported program with them in it",
    load: async () => (await import("./export.ts")).command,
  },
  {
    name: "pack",
    summary: "write any data set as packed shards, a table as npz, or text as tokens",
    load: async () => (await import("./pack.ts")).command,
  },
  {
    name: "doctor",
    summary: "say what is here, what would fail and what to do about it",
    load: async () => (await import("./doctor.ts")).command,
  },
  {
    name: "bench",
    summary: "measure how fast ranks add up their gradients here, or compare runs on 1 to N ranks",
    load: async () => (await import("./bench.ts")).command,
  },
  {
    name: "new",
    summary: "begin a TypeScript file: a model, data, a loss or metrics of your own",
    load: async () => (await import("./new.ts")).command,
  },
  {
    name: "types",
    summary: "print what such a file imports its types from, for editors",
    load: async () => (await import("./new.ts")).typesCommand,
  },
  {
    name: "config",
    summary: "show each setting's value, and where it came from",
    load: async () => (await import("./config.ts")).command,
  },
  {
    name: "models",
    summary: "list the models, or show one block by block: parameters, FLOPs, memory",
    load: async () => (await import("./models.ts")).command,
  },
  {
    name: "presets",
    summary: "list the presets, or print one",
    load: async () => (await import("./config.ts")).presetsCommand,
  },
  {
    name: "libtorch",
    summary: "list, install or choose the libtorch to use",
    load: async () => (await import("./libtorch.ts")).command,
  },
  {
    name: "completions",
    summary: "print a shell's completions: bash, zsh or fish",
    load: async () => (await import("./completions.ts")).command,
  },
];

export function findCommand(name: string): CommandEntry | undefined {
  return COMMANDS.find((command) => command.name === name);
}

/** One that is known to be there. */
export function loadCommand(name: string): Promise<Command> {
  const entry = findCommand(name);
  if (!entry) throw new Error(`internal: there is no command ${name}`);
  return entry.load();
}
