// `hpctrain generate`: its flags and its help. commands/run/generate.ts is loaded when it runs.
import type { Command } from "./mod.ts";
import { MACHINE_SETTINGS, SANDBOX, settingsAmong } from "./options.ts";

export const USAGE = "hpctrain generate CHECKPOINT --prompt TEXT [FLAGS]";

export const OPTIONS = {
  prompt: {
    kind: "text",
    value: "TEXT",
    help: "the text to write on from (default: standard input, or none)",
  },
  "prompt-file": { kind: "text", value: "FILE", help: "a file with that text; - is standard input" },
  "max-tokens": { kind: "text", value: "N", help: "how many tokens to write at most (default: 200)" },
  temperature: {
    kind: "text",
    value: "T",
    help: "0 takes the likeliest token, 1 draws as the model says (default: 0.8)",
  },
  "top-k": { kind: "text", value: "N", help: "draw from the N likeliest tokens; 0 for all (default: 200)" },
  "top-p": {
    kind: "text",
    value: "P",
    help: "draw from the likeliest tokens that have this share together (default: 1, all)",
  },
  seed: { kind: "text", value: "N", help: "another seed draws another text (default: 1)" },
  count: { kind: "text", value: "N", help: "so many texts at once (default: 1)" },
  tokenizer: {
    kind: "text",
    value: "FILE",
    help:
      "the tokenizer of the training data: tokenizer.json, .tiktoken, a table of characters (nanoGPT's meta.pkl) or bytes " +
      "(default: that of the data)",
  },
  sandbox: SANDBOX,
} as const;

export const SETTINGS = settingsAmong(MACHINE_SETTINGS);

export const command: Command = {
  usage: USAGE,
  examples: [
    'hpctrain generate checkpoints/story_best.pt --prompt "It was"',
    "hpctrain generate checkpoints/story_best.pt --prompt-file begin.txt --temperature 0 --json",
  ],
  settings: SETTINGS,
  ofCheckpoint: true,
  options: OPTIONS,
  writes: "nothing",
  positionals: 1,
  run: async (argv) => await (await import("./run/generate.ts")).generateText(argv),
};
