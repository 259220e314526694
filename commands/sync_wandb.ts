// `hpctrain sync-wandb`: its flags and its help. commands/run/sync_wandb.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const USAGE = "hpctrain sync-wandb [DIR..] [FLAGS]";

export const OPTIONS = {
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

export const command: Command = {
  usage: USAGE,
  examples: [
    "hpctrain sync-wandb",
    "hpctrain sync-wandb logs/wandb --dry-run",
    "hpctrain sync-wandb --watch",
  ],
  options: OPTIONS,
  run: async (argv) => await (await import("./run/sync_wandb.ts")).syncWandb(argv),
};
