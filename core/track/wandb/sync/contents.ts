// What a .wandb file says, as what the server is to get: lines of history, system metrics and output; configuration, summary,
// files, exit. May import ../proto, ../records, json_text, internals, console_lines.
import { messageOf, numberOf, ProtoError, type ProtoFields, readProto } from "../proto.ts";
import { decodeRecord, type FileItem, type Item, type RunRecord, type WandbRecord } from "../records.ts";
import { openConsole } from "./console_lines.ts";
import { ENVIRONMENT, METRIC, openInternals, TELEMETRY } from "./internals.ts";
import {
  floatText,
  type Json,
  mergeAt,
  parseJson,
  removeAt,
  setAt,
  textOfJson,
  type Tree,
} from "./json_text.ts";

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

/** A longer line is left out, as W&B leaves it out. */
export const MAX_LINE = 10_383_360;
/** Records that need more than this program knows how to say. */
const UNSENT: Readonly<Record<number, string>> = {
  8: "artifacts made",
  9: "folders of TensorBoard",
  25: "artifacts used",
};
const STATS = 7, RUN = 17, RUN_START = 17, RUN_TELEMETRY = 19;

export function openContents(version: string): Contents {
  const internals = openInternals();
  const console = openConsole();
  let nextStep = 0;
  const began = { seconds: 0, nanos: 0 };

  const self: Mutable<Contents> = {
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
    take,
    end() {
      console.end();
      takeOutput();
    },
    startAt: (step) => void (nextStep = step),
    fullConfig() {
      const tree = new Map(self.config);
      const own = tree.get("_wandb");
      const added = internals.tree({ writer: self.run?.id ?? "", version });
      tree.set("_wandb", new Map([...(own instanceof Map ? own : []), ...added]));
      return tree;
    },
    metadata: internals.metadata,
  };
  return self;

  function take(bytes: Uint8Array): boolean {
    try {
      const record = decodeRecord(bytes);
      self.counts.records++;
      takeRecord(record, bytes);
      return true;
    } catch (error) {
      if (error instanceof ProtoError) return false;
      throw error;
    }
  }

  function takeRecord(record: WandbRecord, bytes: Uint8Array): void {
    if (self.exit !== null) return; // W&B drops what comes after it
    if (record.kind === "run") return takeRun(record, bytes);
    if (self.run === null) return; // and what comes before this one
    switch (record.kind) {
      case "history":
        return takeRow(record.items);
      case "summary":
        return change(self.summary, record, setUnlessNull);
      case "config":
        return change(self.config, record, setLeaves);
      case "stats":
        return takeStats(messageOf(readProto(bytes), STATS) ?? new Map(), record.items);
      case "output":
        console.write(record.stream, record.t, record.text);
        return takeOutput();
      case "files":
        for (const file of record.files) (self.files as Map<string, FileItem>).set(file.path, file);
        return;
      case "alert":
        self.alerts.push(record);
        return;
      case "preempting":
        self.preempting = true;
        return;
      case "exit":
        self.exit = record;
        return;
      case "telemetry":
        return internals.telemetry(messageOf(readProto(bytes), TELEMETRY) ?? new Map());
      case "environment":
        return internals.environment(messageOf(readProto(bytes), ENVIRONMENT) ?? new Map());
      case "other":
        if (record.field in UNSENT) {
          const what = UNSENT[record.field];
          (self.unsent as Map<string, number>).set(what, 1 + (self.unsent.get(what) ?? 0));
        }
        if (record.field === METRIC) internals.metric(messageOf(readProto(bytes), METRIC) ?? new Map());
    }
  }

  function takeRun(record: RunRecord, bytes: Uint8Array): void {
    const fields = messageOf(readProto(bytes), RUN) ?? new Map();
    const telemetry = messageOf(fields, RUN_TELEMETRY);
    if (telemetry) internals.telemetry(telemetry);
    if (self.run === null) {
      nextStep = record.startingStep ?? 0;
      const time = messageOf(fields, RUN_START) ?? new Map();
      began.seconds = wholeOf(time, 1);
      began.nanos = wholeOf(time, 2);
    }
    self.run = record;
    change(self.config, { update: record.config ?? [] }, setLeaves);
  }

  function takeRow(items: readonly Item[]): void {
    const row: Tree = new Map();
    for (const { key, json } of items) {
      const value = parsed(json);
      if (value !== null) mergeAt(row, key, value);
    }
    const said = Number(row.get("_step") ?? "-1");
    const step = Math.max(Number.isSafeInteger(said) ? said : -1, nextStep);
    nextStep = step + 1;
    row.set("_step", String(step));
    self.steps = { first: self.steps?.first ?? step, last: step };
    const text = textOfJson(row);
    self.counts.rows++;
    if (text.length > MAX_LINE) return void self.counts.unreadable++;
    self.history.rows.push({ step, text });
    self.pending += text.length;
    self.summary.set("_step", String(step));
  }

  function takeStats(fields: ProtoFields, items: readonly Item[]): void {
    const time = messageOf(fields, 2) ?? new Map();
    const seconds = wholeOf(time, 1), nanos = wholeOf(time, 2);
    const row: Tree = new Map([
      ["_wandb", "true"],
      ["_timestamp", floatText(seconds + nanos / 1e9)],
      ["_runtime", floatText(since(began, seconds, nanos))],
    ]);
    for (const { key, json } of items) {
      const value = parsed(json);
      if (value === null) continue;
      row.set(`system.${key.join(".")}`, value);
      self.system.set(key.join("."), value);
    }
    const text = textOfJson(row);
    self.counts.events++;
    if (text.length > MAX_LINE) return void self.counts.unreadable++;
    self.events.texts.push(text);
    self.pending += text.length;
  }

  function takeOutput(): void {
    for (const { stream, t, text } of console.take()) {
      const line = `${stream === "stderr" ? "ERROR " : ""}${isoTime(t)} ${text}`;
      self.output.texts.push(line);
      self.printed.push(text);
      self.counts.output++;
      self.pending += line.length;
    }
  }

  function parsed(json: string): Json | null {
    const value = parseJson(json);
    if (value === null) self.counts.unreadable++;
    return value;
  }

  function change(
    tree: Tree,
    { update, remove }: { update: readonly Item[]; remove?: readonly Item[] },
    set: typeof setAt,
  ): void {
    for (const { key, json } of update) {
      const value = parsed(json);
      if (value !== null) set(tree, key, value);
    }
    for (const { key } of remove ?? []) removeAt(tree, key);
  }
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** The new object takes the old one's place; an empty one is nothing to W&B. */
const setLeaves: typeof setAt = (tree, path, value) => {
  removeAt(tree, path);
  mergeAt(tree, path, value);
};

/** W&B's summaries have no null. */
const setUnlessNull: typeof setAt = (tree, path, value) =>
  value === "null" ? removeAt(tree, path) : setAt(tree, path, value);

function wholeOf(fields: ProtoFields, field: number): number {
  const value = numberOf(fields, field);
  return Number.isSafeInteger(value) ? value : 0;
}

/** As Go's durations are counted: in whole nanoseconds. */
function since(began: { seconds: number; nanos: number }, seconds: number, nanos: number): number {
  const total = BigInt(seconds - began.seconds) * 1_000_000_000n + BigInt(nanos - began.nanos);
  return Number(total / 1_000_000_000n) + Number(total % 1_000_000_000n) / 1e9;
}

/** "2026-11-22T00:25:15.839332": UTC, without saying so. */
function isoTime(t: number): string {
  const micros = Math.round(t * 1e6);
  const date = new Date(Math.floor(micros / 1000));
  if (!Number.isFinite(date.getTime())) return "1970-01-01T00:00:00.000000";
  return `${date.toISOString().slice(0, 23)}${String(micros % 1000).padStart(3, "0")}`;
}
