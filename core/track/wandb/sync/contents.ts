// What a .wandb file says, as what the server is to get: lines of history, system metrics and output; configuration, summary,
// files, exit. May import ../proto, ../records, json_text (types), internals, console_lines, take_records.
import { ProtoError } from "../proto.ts";
import { decodeRecord, type FileItem, type RunRecord } from "../records.ts";
import { openConsole } from "./console_lines.ts";
import { openInternals } from "./internals.ts";
import type { Tree } from "./json_text.ts";
import { type Reading, takeOutput, takeRecord } from "./take_records.ts";

/** Lines that are still to be sent; `first` counts from the file's begin. */
export interface Lines {
  first: number;
  texts: string[];
}

/** A row of history, and its step: what tells whether the server has it. */
export interface Row {
  readonly step: number;
  readonly text: string;
}

export interface Alert {
  readonly title: string;
  readonly text: string;
  readonly level: string;
}

export interface Contents {
  /** False where the bytes are no record: reading ends there. */
  take(record: Uint8Array): boolean;
  /** No more will come; what had no end has one. */
  end(): void;
  readonly run: RunRecord | null;
  /** Once, after the run's record and before the first row: where the server wants its steps to begin. */
  startAt(step: number): void;
  readonly history: { first: number; rows: Row[] };
  readonly events: Lines;
  readonly output: Lines;
  /** The output without times, for output.log. */
  readonly printed: string[];
  readonly config: Tree;
  readonly summary: Tree;
  /** With what W&B keeps of the run beside it. */
  fullConfig(): Tree;
  metadata(): Tree | null;
  readonly files: ReadonlyMap<string, FileItem>;
  readonly alerts: Alert[];
  /** The run says that it is about to be stopped, and may go on later. */
  readonly preempting: boolean;
  readonly exit: { readonly code: number; readonly runtime: number } | null;
  readonly steps: { readonly first: number; readonly last: number } | null;
  /** What only W&B's own program can send, and how much of it there is: "artifacts made": 2. */
  readonly unsent: ReadonlyMap<string, number>;
  readonly counts: { rows: number; events: number; output: number; records: number; unreadable: number };
  /** The newest value of each system metric. */
  readonly system: Tree;
  /** Bytes of lines that wait. */
  pending: number;
}

export function openContents(version: string): Contents {
  const internals = openInternals();
  const console = openConsole();
  const told: Reading["told"] = {
    run: null,
    history: { first: 0, rows: [] },
    events: { first: 0, texts: [] },
    output: { first: 0, texts: [] },
    printed: [],
    config: new Map(),
    summary: new Map(),
    files: new Map(),
    alerts: [],
    preempting: false,
    exit: null,
    steps: null,
    unsent: new Map(),
    counts: { rows: 0, events: 0, output: 0, records: 0, unreadable: 0 },
    system: new Map(),
    pending: 0,
    take: (bytes) => take(reading, bytes),
    end() {
      console.end();
      takeOutput(reading);
    },
    startAt: (step) => void (reading.nextStep = step),
    fullConfig() {
      const tree = new Map(told.config);
      const own = tree.get("_wandb");
      const added = internals.tree({ writer: told.run?.id ?? "", version });
      tree.set("_wandb", new Map([...(own instanceof Map ? own : []), ...added]));
      return tree;
    },
    metadata: internals.metadata,
  };
  const reading: Reading = { told, internals, console, nextStep: 0, began: { seconds: 0, nanos: 0 } };
  return told;
}

function take(reading: Reading, bytes: Uint8Array): boolean {
  try {
    const record = decodeRecord(bytes);
    reading.told.counts.records++;
    takeRecord(reading, record, bytes);
    return true;
  } catch (error) {
    if (error instanceof ProtoError) return false;
    throw error;
  }
}
