// `hpctrain pack`: its flags and its help. commands/run/pack.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { DATA_SETTINGS, MACHINE_SETTINGS, PLACE, SANDBOX, settingsAmong } from "./options.ts";

export const USAGE = "hpctrain pack SRC... OUT [FLAGS]";

export const OPTIONS = {
  "samples-per-shard": {
    kind: "text",
    value: "N",
    help: "samples in one file (default: as many as take 64 MiB, or a 256th of all)",
  },
  "keep-encoded": {
    kind: "bool",
    help: "keep images as their files are, to be decoded in training: smaller, and slower to read",
  },
  tokenizer: {
    kind: "text",
    value: "FILE",
    help:
      "of text: a tokenizer.json of Hugging Face's, a .tiktoken file, a table of characters, characters (those of the text) or " +
      "bytes (default: bytes)",
  },
  "train-tokenizer": {
    kind: "text",
    value: "N",
    help: "of text: learn a vocabulary of N tokens from it, by byte-pair encoding",
  },
  pattern: {
    kind: "text",
    value: "NAME",
    help: "of a .tiktoken file whose name does not say it: how texts are cut, gpt2, cl100k or o200k",
  },
  separator: {
    kind: "text",
    value: "TEXT",
    help: "of text: it stands between the documents of a file (default: each file is a document)",
  },
  "text-field": {
    kind: "text",
    value: "NAME",
    help: "of .jsonl files: the name of the text in each line (default: text)",
  },
  "special-tokens": {
    kind: "bool",
    help:
      "of text: names of special tokens in it, such as <|endoftext|>, are those tokens and not plain text",
  },
  sandbox: SANDBOX,
} as const;

export const SETTINGS = settingsAmong(
  DATA_SETTINGS,
  MACHINE_SETTINGS,
  PLACE,
  /^model\.|^training\.(loss|seed)$/,
);

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain pack photos packed --resize 256 --centre-crop 224",
    "hpctrain pack ice.nc packed --features wind,temperature --targets drift",
    "hpctrain pack ice.nc ice.npz",
    "hpctrain pack corpus/*.txt tokens --train-tokenizer 8000",
  ],
  settings: SETTINGS,
  options: OPTIONS,
  writes: "last",
  positionals: Infinity,
  run: async (argv) => await (await import("./run/pack.ts")).pack(argv),
};
