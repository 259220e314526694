// One record after the other is put where the server wants what it says. May import ../proto, ../records, contents (types), json_text,
// internals, console_lines (types).
import { messageOf, numberOf, type ProtoFields, readProto } from "../proto.ts";
import type { FileItem, Item, RunRecord, WandbRecord } from "../records.ts";
import type { Console } from "./console_lines.ts";
import type { Contents } from "./contents.ts";
import { ENVIRONMENT, type Internals, METRIC, TELEMETRY } from "./internals.ts";
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

/** A file that is being read. */
export interface Reading {
  /** What it has said so far. */
  readonly told: { -readonly [K in keyof Contents]: Contents[K] };
  readonly internals: Internals;
  readonly console: Console;
  /** The least that the next row's step may be. */
  nextStep: number;
  /** When the run began. */
  readonly began: { seconds: number; nanos: number };
}

/** A longer line is left out, as W&B leaves it out. */
const MAX_LINE = 10_383_360;
/** Records that need more than this program knows how to say. */
const UNSENT: Readonly<Record<number, string>> = {
  8: "artifacts made",
  9: "folders of TensorBoard",
  25: "artifacts used",
};
const STATS = 7, RUN = 17, RUN_START = 17, RUN_TELEMETRY = 19;

export function takeRecord(r: Reading, record: WandbRecord, bytes: Uint8Array): void {
  const { told } = r;
  if (told.exit !== null) return; // W&B drops what comes after it
  if (record.kind === "run") return takeRun(r, record, bytes);
  if (told.run === null) return; // and what comes before this one
  switch (record.kind) {
    case "history":
      return takeRow(r, record.items);
    case "summary":
      return change(r, told.summary, record, setUnlessNull);
    case "config":
      return change(r, told.config, record, setLeaves);
    case "stats":
      return takeStats(r, messageOf(readProto(bytes), STATS) ?? new Map(), record.items);
    case "output":
      r.console.write(record.stream, record.t, record.text);
      return takeOutput(r);
    case "files":
      for (const file of record.files) (told.files as Map<string, FileItem>).set(file.path, file);
      return;
    case "alert":
      told.alerts.push(record);
      return;
    case "preempting":
      told.preempting = true;
      return;
    case "exit":
      told.exit = record;
      return;
    case "telemetry":
      return r.internals.telemetry(messageOf(readProto(bytes), TELEMETRY) ?? new Map());
    case "environment":
      return r.internals.environment(messageOf(readProto(bytes), ENVIRONMENT) ?? new Map());
    case "other":
      if (record.field in UNSENT) {
        const what = UNSENT[record.field];
        (told.unsent as Map<string, number>).set(what, 1 + (told.unsent.get(what) ?? 0));
      }
      if (record.field === METRIC) r.internals.metric(messageOf(readProto(bytes), METRIC) ?? new Map());
  }
}

function takeRun(r: Reading, record: RunRecord, bytes: Uint8Array): void {
  const { told } = r;
  const fields = messageOf(readProto(bytes), RUN) ?? new Map();
  const telemetry = messageOf(fields, RUN_TELEMETRY);
  if (telemetry) r.internals.telemetry(telemetry);
  if (told.run === null) {
    r.nextStep = record.startingStep ?? 0;
    const time = messageOf(fields, RUN_START) ?? new Map();
    r.began.seconds = wholeOf(time, 1);
    r.began.nanos = wholeOf(time, 2);
  }
  told.run = record;
  change(r, told.config, { update: record.config ?? [] }, setLeaves);
}

function takeRow(r: Reading, items: readonly Item[]): void {
  const { told } = r;
  const row: Tree = new Map();
  for (const { key, json } of items) {
    const value = parsed(r, json);
    if (value !== null) mergeAt(row, key, value);
  }
  const said = Number(row.get("_step") ?? "-1");
  const step = Math.max(Number.isSafeInteger(said) ? said : -1, r.nextStep);
  r.nextStep = step + 1;
  row.set("_step", String(step));
  told.steps = { first: told.steps?.first ?? step, last: step };
  const text = textOfJson(row);
  told.counts.rows++;
  if (text.length > MAX_LINE) return void told.counts.unreadable++;
  told.history.rows.push({ step, text });
  told.pending += text.length;
  told.summary.set("_step", String(step));
}

function takeStats(r: Reading, fields: ProtoFields, items: readonly Item[]): void {
  const { told } = r;
  const time = messageOf(fields, 2) ?? new Map();
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
    told.system.set(key.join("."), value);
  }
  const text = textOfJson(row);
  told.counts.events++;
  if (text.length > MAX_LINE) return void told.counts.unreadable++;
  told.events.texts.push(text);
  told.pending += text.length;
}

export function takeOutput(r: Reading): void {
  const { told } = r;
  for (const { stream, t, text } of r.console.take()) {
    const line = `${stream === "stderr" ? "ERROR " : ""}${isoTime(t)} ${text}`;
    told.output.texts.push(line);
    told.printed.push(text);
    told.counts.output++;
    told.pending += line.length;
  }
}

function parsed(r: Reading, json: string): Json | null {
  const { told } = r;
  const value = parseJson(json);
  if (value === null) told.counts.unreadable++;
  return value;
}

function change(
  r: Reading,
  tree: Tree,
  { update, remove }: { update: readonly Item[]; remove?: readonly Item[] },
  set: typeof setAt,
): void {
  for (const { key, json } of update) {
    const value = parsed(r, json);
    if (value !== null) set(tree, key, value);
  }
  for (const { key } of remove ?? []) removeAt(tree, key);
}

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
