// Reads a growing .wandb file into everything that the server gets.
import { messageField, numberField, ProtoError, type ProtoFields, readProto } from "../../proto.ts";
import {
  decodeRecord,
  type FileItem,
  type HistoryItem,
  type RunRecord,
  type WandbRecord,
} from "../records.ts";
import { ENVIRONMENT, type Internals, METRIC, openInternals, TELEMETRY } from "./internals.ts";
import {
  floatText,
  type JsonValue,
  mergeAt,
  parseJson,
  removeAt,
  setAt,
  textOfJson,
  type Tree,
} from "./json_text.ts";
import { type FrameEnd, readAtOf, readFrames } from "../file.ts";

interface PendingLines {
  first: number;
  texts: string[];
}

export interface HistoryLine {
  readonly step: number;
  readonly text: string;
}

interface Alert {
  readonly title: string;
  readonly text: string;
  readonly level: string;
}

export interface Contents {
  /** Returns false where the bytes are no record; reading ends there. */
  take(record: Uint8Array): boolean;
  end(): void;
  readonly run: RunRecord | null;
  /** The server wants rows from this step on. Call it once, between the run record and the first row. */
  startAt(step: number): void;
  readonly history: { first: number; rows: HistoryLine[] };
  readonly events: PendingLines;
  readonly output: PendingLines;
  /** output.log gets the lines without times. */
  readonly printed: string[];
  readonly config: Tree;
  readonly summary: Tree;
  fullConfig(): Tree;
  metadata(): Tree | null;
  readonly files: ReadonlyMap<string, FileItem>;
  readonly alerts: Alert[];
  /** The run announced that it will be stopped and may be resumed. */
  readonly preempting: boolean;
  readonly exit: { readonly code: number; readonly runtime: number } | null;
  readonly steps: { readonly first: number; readonly last: number } | null;
  /** Only W&B's own program can send these: "artifacts made": 2. */
  readonly unsent: ReadonlyMap<string, number>;
  readonly counts: { rows: number; events: number; output: number; records: number; unreadable: number };
  readonly system: Tree;
  /** Unit: bytes of waiting lines. */
  pending: number;
}

export function openContents(version: string): Contents {
  const internals = openInternals();
  const console = openConsoleText();
  const contents: ContentsState["contents"] = {
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
      const tree = new Map(contents.config);
      const own = tree.get("_wandb");
      const added = internals.tree({ writer: contents.run?.id ?? "", version });
      tree.set("_wandb", new Map([...(own instanceof Map ? own : []), ...added]));
      return tree;
    },
    metadata: internals.metadata,
  };
  const reading: ContentsState = {
    contents,
    internals,
    console,
    nextStep: 0,
    began: { seconds: 0, nanos: 0 },
  };
  return contents;
}

function take(reading: ContentsState, bytes: Uint8Array): boolean {
  try {
    const record = decodeRecord(bytes);
    reading.contents.counts.records++;
    takeRecord(reading, record, bytes);
    return true;
  } catch (error) {
    if (error instanceof ProtoError) return false;
    throw error;
  }
}

interface ContentsState {
  readonly contents: { -readonly [K in keyof Contents]: Contents[K] } & {
    readonly files: Map<string, FileItem>;
    readonly unsent: Map<string, number>;
  };
  readonly internals: Internals;
  readonly console: ConsoleText;
  nextStep: number;
  readonly began: { seconds: number; nanos: number };
}

/** W&B also leaves out longer lines. */
const MAX_LINE = 10_383_360;
/** This program can't send these records. */
const UNSENT: Readonly<Record<number, string>> = {
  8: "artifacts made",
  9: "folders of TensorBoard",
  25: "artifacts used",
};
const STATS = 7, RUN = 17, RUN_START = 17, RUN_TELEMETRY = 19;

function takeRecord(r: ContentsState, record: WandbRecord, bytes: Uint8Array): void {
  const { contents } = r;
  if (contents.exit !== null) return; // W&B drops later records
  if (record.kind === "run") return takeRun(r, record, bytes);
  if (contents.run === null) return; // and earlier records
  switch (record.kind) {
    case "history":
      return takeRow(r, record.items);
    case "summary":
      return change(r, contents.summary, record, setUnlessNull);
    case "config":
      return change(r, contents.config, record, setLeaves);
    case "stats":
      return takeStats(r, messageField(readProto(bytes), STATS) ?? new Map(), record.items);
    case "output":
      r.console.write(record.stream, record.t, record.text);
      return takeOutput(r);
    case "files":
      for (const file of record.files) contents.files.set(file.path, file);
      return;
    case "alert":
      contents.alerts.push(record);
      return;
    case "preempting":
      contents.preempting = true;
      return;
    case "exit":
      contents.exit = record;
      return;
    case "telemetry":
      return r.internals.telemetry(messageField(readProto(bytes), TELEMETRY) ?? new Map());
    case "environment":
      return r.internals.environment(messageField(readProto(bytes), ENVIRONMENT) ?? new Map());
    case "other":
      if (record.field in UNSENT) {
        const what = UNSENT[record.field];
        contents.unsent.set(what, 1 + (contents.unsent.get(what) ?? 0));
      }
      if (record.field === METRIC) r.internals.metric(messageField(readProto(bytes), METRIC) ?? new Map());
  }
}

function takeRun(r: ContentsState, record: RunRecord, bytes: Uint8Array): void {
  const { contents } = r;
  const fields = messageField(readProto(bytes), RUN) ?? new Map();
  const telemetry = messageField(fields, RUN_TELEMETRY);
  if (telemetry) r.internals.telemetry(telemetry);
  if (contents.run === null) {
    r.nextStep = record.startingStep ?? 0;
    const time = messageField(fields, RUN_START) ?? new Map();
    r.began.seconds = wholeOf(time, 1);
    r.began.nanos = wholeOf(time, 2);
  }
  contents.run = record;
  change(r, contents.config, { update: record.config ?? [] }, setLeaves);
}

function takeRow(r: ContentsState, items: readonly HistoryItem[]): void {
  const { contents } = r;
  const row: Tree = new Map();
  for (const { key, json } of items) {
    const value = parsed(r, json);
    if (value !== null) mergeAt(row, key, value);
  }
  const given = Number(row.get("_step") ?? "-1");
  const step = Math.max(Number.isSafeInteger(given) ? given : -1, r.nextStep);
  r.nextStep = step + 1;
  row.set("_step", String(step));
  contents.steps = { first: contents.steps?.first ?? step, last: step };
  const text = textOfJson(row);
  contents.counts.rows++;
  if (text.length > MAX_LINE) return void contents.counts.unreadable++;
  contents.history.rows.push({ step, text });
  contents.pending += text.length;
  contents.summary.set("_step", String(step));
}

function takeStats(r: ContentsState, fields: ProtoFields, items: readonly HistoryItem[]): void {
  const { contents } = r;
  const time = messageField(fields, 2) ?? new Map();
  const seconds = wholeOf(time, 1), nanos = wholeOf(time, 2);
  const row: Tree = new Map([
    ["_wandb", "true"],
    ["_timestamp", floatText(seconds + nanos / 1e9)],
    ["_runtime", floatText(since(r.began, seconds, nanos))],
  ]);
  for (const { key, json } of items) {
    const value = parsed(r, json);
    if (value === null) continue;
    row.set(`system.${key.join(".")}`, value);
    contents.system.set(key.join("."), value);
  }
  const text = textOfJson(row);
  contents.counts.events++;
  if (text.length > MAX_LINE) return void contents.counts.unreadable++;
  contents.events.texts.push(text);
  contents.pending += text.length;
}

function takeOutput(r: ContentsState): void {
  const { contents } = r;
  for (const { stream, t, text } of r.console.take()) {
    const line = `${stream === "stderr" ? "ERROR " : ""}${isoTime(t)} ${text}`;
    contents.output.texts.push(line);
    contents.printed.push(text);
    contents.counts.output++;
    contents.pending += line.length;
  }
}

function parsed(r: ContentsState, json: string): JsonValue | null {
  const { contents } = r;
  const value = parseJson(json);
  if (value === null) contents.counts.unreadable++;
  return value;
}

function change(
  r: ContentsState,
  tree: Tree,
  { update, remove }: { update: readonly HistoryItem[]; remove?: readonly HistoryItem[] },
  set: typeof setAt,
): void {
  for (const { key, json } of update) {
    const value = parsed(r, json);
    if (value !== null) set(tree, key, value);
  }
  for (const { key } of remove ?? []) removeAt(tree, key);
}

/** A new object replaces the old one; W&B ignores an empty one. */
const setLeaves: typeof setAt = (tree, path, value) => {
  removeAt(tree, path);
  mergeAt(tree, path, value);
};

/** W&B's summaries have no null. */
const setUnlessNull: typeof setAt = (tree, path, value) =>
  value === "null" ? removeAt(tree, path) : setAt(tree, path, value);

function wholeOf(fields: ProtoFields, field: number): number {
  const value = numberField(fields, field);
  return Number.isSafeInteger(value) ? value : 0;
}

/** Go counts durations in whole nanoseconds. */
function since(began: { seconds: number; nanos: number }, seconds: number, nanos: number): number {
  const total = BigInt(seconds - began.seconds) * 1_000_000_000n + BigInt(nanos - began.nanos);
  return Number(total / 1_000_000_000n) + Number(total % 1_000_000_000n) / 1e9;
}

/** "2026-11-22T00:25:15.839332" is UTC without a zone. */
function isoTime(t: number): string {
  const micros = Math.round(t * 1e6);
  const date = new Date(Math.floor(micros / 1000));
  if (!Number.isFinite(date.getTime())) return "1970-01-01T00:00:00.000000";
  return `${date.toISOString().slice(0, 23)}${String(micros % 1000).padStart(3, "0")}`;
}

type OutputStream = "stdout" | "stderr";

interface ConsoleLine {
  readonly stream: OutputStream;
  /** The first piece of the line has this time in Unix seconds. */
  readonly t: number;
  text: string;
  whole: boolean;
}

interface ConsoleText {
  write(stream: OutputStream, t: number, text: string): void;
  /** Returns each line once, when it can't change any more. */
  take(): ConsoleLine[];
  end(): void;
}

/** W&B has this limit. */
const MAX_COLUMNS = 4096;

export function openConsoleText(): ConsoleText {
  let lines: ConsoleLine[] = [];
  const open: Partial<Record<OutputStream, { line: ConsoleLine; cells: string[]; column: number }>> = {};

  function close(stream: OutputStream, t: number): void {
    const at = open[stream];
    if (at) at.line.whole = true;
    else lines.push({ stream, t, text: "", whole: true });
    delete open[stream];
  }

  function put(stream: OutputStream, t: number, cell: string): void {
    let at = open[stream];
    if (!at) {
      at = { line: { stream, t, text: "", whole: false }, cells: [], column: 0 };
      open[stream] = at;
      lines.push(at.line);
    }
    if (at.column < MAX_COLUMNS) at.cells[at.column++] = cell;
  }

  return {
    write(stream, t, text) {
      for (const [cell] of text.matchAll(CELLS)) {
        if (cell === "\n") finish(stream, t);
        else if (cell === "\r") rewind(stream);
        else if (ERASE.test(cell)) erase(stream);
        else put(stream, t, cell);
      }
      const at = open[stream];
      if (at) at.line.text = at.cells.join("");
    },
    take() {
      const count = lines.findIndex(({ whole }) => !whole);
      const whole = count < 0 ? lines : lines.slice(0, count);
      lines = count < 0 ? [] : lines.slice(count);
      return whole;
    },
    end() {
      for (const stream of ["stdout", "stderr"] as const) if (open[stream]) close(stream, 0);
    },
  };

  function finish(stream: OutputStream, t: number): void {
    const at = open[stream];
    if (at) at.line.text = at.cells.join("");
    close(stream, t);
  }

  function rewind(stream: OutputStream): void {
    const at = open[stream];
    if (at) at.column = 0;
  }

  function erase(stream: OutputStream): void {
    const at = open[stream];
    if (at) at.cells.length = at.column;
  }
}

/** One character with the escape sequences before it, which have no width. */
// deno-lint-ignore no-control-regex
const CELLS = /\n|\r|\x1b\[[0-2]?K|(?:\x1b\[[0-9;]*m)*[^\n\r\x1b]|(?:\x1b\[[0-9;]*m)+/gu;
// deno-lint-ignore no-control-regex
const ERASE = /^\x1b\[[0-2]?K$/;

export type Damage = NonNullable<FrameEnd["damage"]>;

export interface WandbReader {
  /** Returns false when `enough` stops it, and true at the end. */
  read(into: Contents, enough: () => boolean): boolean;
  /** After it nothing is waited for, and damage is skipped. */
  last(): void;
  replaced(): boolean;
  grew(): boolean;
  readonly damages: readonly Damage[];
  readonly stuck: Damage | null;
  readonly at: number;
  readonly size: number;
  quietFor(): number;
  close(): void;
}

export function openWandbReader(path: string, growing: boolean): WandbReader {
  const file = Deno.openSync(path);
  const { ino, dev } = file.statSync();
  const readAt = readAtOf(file);
  const damages: Damage[] = [];
  let at: number | undefined, lastSize = 0;
  let waits = growing;
  let stuck: Damage | null = null;

  return {
    damages,
    get stuck() {
      return stuck;
    },
    get at() {
      return at ?? 0;
    },
    get size() {
      return file.statSync().size;
    },
    read(into, enough) {
      const frames = readFrames(readAt, {
        from: at,
        resync: waits ? undefined : (damage) => damages.push(damage),
      });
      for (;;) {
        if (enough()) return false;
        const next = frames.next();
        if (next.done) {
          const { damage } = next.value;
          if (damage && !waits) damages.push(damage);
          stuck = waits && damage?.kind === "damaged" ? damage : null;
          return true;
        }
        const { record, start, end } = next.value;
        if (!into.take(record)) {
          damages.push({ kind: "damaged", at: start, why: "a record can't be read" });
        }
        at = end;
      }
    },
    last: () => void (waits = false),
    replaced() {
      try {
        const now = Deno.statSync(path);
        return now.ino !== ino || now.dev !== dev;
      } catch {
        return false; // the open file can still be read
      }
    },
    grew() {
      const { size } = file.statSync();
      const more = size > lastSize;
      lastSize = size;
      return more;
    },
    quietFor: () => Date.now() - (file.statSync().mtime?.getTime() ?? 0),
    close: () => file.close(),
  };
}
