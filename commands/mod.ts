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
    summary: "show what is in a checkpoint or a data set",
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
    summary: "turn .pt into .safetensors and back",
    usage: "hpctrain convert IN OUT [--strip PREFIX] [--force]",
    examples: ["hpctrain convert checkpoints/quickstart_best.pt model.safetensors"],
    ownHelp: true,
    words: ["--strip", "--force"],
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
