// The table of commands. Imports types only: a command is loaded when it is run.
import type { OptionSpec } from "../core/config/options.ts";

/** The arguments after the command's name -> the exit code. */
export type Run = (argv: string[]) => Promise<number>;

export interface Command {
  readonly name: string;
  readonly summary: string;
  readonly usage: string;
  readonly examples: readonly string[];
  /** Takes the flags of all settings. */
  readonly settings?: boolean;
  /** Prints its own help. */
  readonly ownHelp?: boolean;
  /** Options that are no settings, for help and completions. */
  readonly options?: Readonly<Record<string, OptionSpec>>;
  /** Other words that may follow the name, for completions. */
  readonly words?: readonly string[];
  readonly load: () => Promise<Run>;
}

export const CONFIG_OPTIONS = {
  json: { kind: "bool", help: "print the configuration and the origins as JSON" },
  yaml: { kind: "bool", help: "print the configuration as a YAML file that --config reads" },
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

export const COMMANDS: readonly Command[] = [
  {
    name: "train",
    summary: "train here; the name may be left out before flags",
    usage: "hpctrain [train] [FLAGS]",
    examples: [
      "hpctrain --preset quickstart",
      "hpctrain train --config run.yaml --lr 1e-3 --epochs 20",
      "hpctrain --model resnet18 --data-type mnist --data-path data --resume auto",
    ],
    settings: true,
    load: async () => (await import("./train.ts")).train,
  },
  {
    name: "eval",
    summary: "evaluate a checkpoint, every sample exactly once",
    usage: "hpctrain eval CHECKPOINT [FLAGS]",
    examples: ["hpctrain eval checkpoints/quickstart_best.pt --val-samples 2000"],
    settings: true,
    load: async () => (await import("./eval.ts")).evaluate,
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
    name: "generate-data",
    summary: "make a data set of simulated universes, or of random fields",
    usage: "hpctrain generate-data --data-type 2lpt|des|synthetic --samples N --out DIR",
    examples: ["hpctrain generate-data --data-type 2lpt --samples 2000 --out maps"],
    ownHelp: true,
    words: ["--data-type", "--samples", "--out", "--val-samples", "--seed", "--grid", "--box", "--maps"],
    load: async () => (await import("./generate_data.ts")).generateData,
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
    name: "pack",
    summary: "write any data set as packed shards, or a table as npz",
    usage: "hpctrain pack SRC OUT [FLAGS]",
    examples: [
      "hpctrain pack photos packed --resize 256 --centre-crop 224",
      "hpctrain pack ice.nc packed --features wind,temperature --targets drift",
      "hpctrain pack ice.nc ice.npz",
    ],
    settings: true,
    options: PACK_OPTIONS,
    load: async () => (await import("./pack.ts")).pack,
  },
  {
    name: "bench",
    summary: "measure how fast ranks add up their gradients here",
    usage: "hpctrain bench allreduce [--sizes 4KiB,1MiB] [FLAGS]",
    examples: [
      "hpctrain launch -n 4 -- bench allreduce --device cpu",
      "srun hpctrain bench allreduce --json",
    ],
    settings: true,
    options: BENCH_OPTIONS,
    words: ["allreduce"],
    load: async () => (await import("./bench.ts")).bench,
  },
  {
    name: "config",
    summary: "show each setting's value, and where it came from",
    usage: "hpctrain config [FLAGS] [--json | --yaml | --schema | --docs]",
    examples: ["hpctrain config --preset cpu --lr 1e-3", "hpctrain config --preset cpu --yaml > run.yaml"],
    settings: true,
    options: CONFIG_OPTIONS,
    load: async () => (await import("./config.ts")).config,
  },
  {
    name: "presets",
    summary: "list the presets, or print one",
    usage: "hpctrain presets [NAME]",
    examples: ["hpctrain presets", "hpctrain presets cpu > run.yaml"],
    load: async () => (await import("./presets.ts")).presets,
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
