// `hpctrain inspect` of a .wandb file: the run that is in it, and how far it can be read.
import { printable } from "../../core/base/file_bytes.ts";
import { EXIT, messageOf, UserError } from "../../core/base/errors.ts";
import { formatBytes, formatDuration, formatPlural } from "../../core/base/format.ts";
import {
  type Contents,
  type Damage,
  openContents,
  openWandbReader,
  type WandbReader,
} from "../../core/outputs/wandb/sync/contents.ts";
import { textOfJson, type Tree } from "../../core/outputs/wandb/sync/json_text.ts";
import { isBeingWritten, isSynced, uploadedStep } from "../../core/outputs/wandb/sync/state.ts";

/** Bytes of waiting lines that stay in memory; more are counted and dropped. */
const MANY = 4 * 2 ** 20;
/** Entries and characters that are shown; --json has all. */
const SHOWN = 40, WIDTH = 100;

export const isWandb = (path: string): boolean => path.endsWith(".wandb");

interface Read {
  readonly contents: Contents;
  readonly damages: readonly Damage[];
  readonly bytes: number;
}

/** The exit code: what is damaged is told, and is an error. */
export function inspectWandb(path: string, json: boolean): number {
  const read = readWhole(path);
  const synced = isSynced(path);
  if (json) console.log(JSON.stringify(asJson(path, read, synced), null, 2));
  else console.log(render(path, read, synced).join("\n"));
  return read.damages.length > 0 || read.contents.run === null ? EXIT.data : EXIT.done;
}

function readWhole(path: string): Read {
  const contents = openContents("");
  const reading = opened(path);
  try {
    while (!reading.read(contents, () => contents.pending >= MANY)) drop(contents);
    contents.end();
    return { contents, damages: reading.damages, bytes: reading.size };
  } finally {
    reading.close();
  }
}

function opened(path: string): WandbReader {
  try {
    return openWandbReader(path, false);
  } catch (cause) {
    throw new UserError("data", `${path}: ${messageOf(cause)}.`, { cause });
  }
}

function drop(contents: Contents): void {
  contents.history.rows = [];
  contents.events.texts = [];
  contents.output.texts = [];
  contents.pending = 0;
}

function stateOf(path: string, { contents: { exit } }: Read, synced: boolean): string {
  const end = exit !== null
    ? `ended with exit code ${exit.code} after ${formatDuration(exit.runtime)}`
    : isBeingWritten(path)
    ? "being written"
    : "without an end: killed, or still being written elsewhere";
  const step = uploadedStep(path);
  return `${end}; ${synced ? "uploaded" : step === null ? "not uploaded" : `uploaded up to step ${step}`}`;
}

function asJson(path: string, read: Read, synced: boolean): Record<string, unknown> {
  const { contents, damages, bytes } = read;
  const { run, counts, steps, exit } = contents;
  // NaN and infinities are no JSON: they are told as texts.
  const plain = (tree: Tree): unknown => JSON.parse(asPlainJson(tree));
  return {
    path,
    bytes,
    run: run?.id ?? null,
    entity: run?.entity || null,
    project: run?.project || null,
    name: run?.name || null,
    group: run?.group || null,
    job_type: run?.jobType || null,
    tags: run?.tags ?? [],
    notes: run?.notes || null,
    host: run?.host || null,
    started: run?.startTime ?? null,
    resume: run?.resume ?? false,
    config: plain(contents.config),
    rows: counts.rows,
    steps,
    summary: plain(contents.summary),
    system: { samples: counts.events, last: plain(contents.system) },
    output_lines: counts.output,
    files: [...contents.files.keys()],
    exit: exit && { code: exit.code, runtime: exit.runtime },
    records: counts.records,
    unreadable_values: counts.unreadable,
    not_sent_by_sync: Object.fromEntries(contents.unsent),
    damages,
    synced,
    uploaded_step: uploadedStep(path),
  };
}

/** Lists are texts here, in which a bare NaN may stand. */
function asPlainJson(tree: Tree): string {
  const walk = (value: Tree | string): string =>
    typeof value === "string"
      ? value.replaceAll(/"(?:[^"\\]|\\.)*"|\bNaN\b|-?\bInfinity\b/g, (m) => m.startsWith('"') ? m : `"${m}"`)
      : `{${[...value].map(([key, inner]) => `${JSON.stringify(key)}:${walk(inner)}`).join(",")}}`;
  return walk(tree);
}

function render(path: string, read: Read, synced: boolean): string[] {
  const { contents, damages, bytes } = read;
  const { run, counts, steps } = contents;
  const lines = [
    `${printable(path)}: W&B run, ${formatBytes(bytes)}, ${formatPlural(counts.records, "record")}`,
  ];
  if (run !== null) {
    const place = [run.entity, run.project || "uncategorized", run.id].filter((part) => part).join("/");
    const began = run.startTime ? `, begun ${isoOf(run.startTime)}` : "";
    lines.push(
      `  run ${printable(place)}${run.name ? ` (${printable(run.name)})` : ""}${began}${
        run.host ? ` on ${printable(run.host)}` : ""
      }`,
      `  ${stateOf(path, read, synced)}`,
    );
    const facts = { group: run.group, "job type": run.jobType, tags: run.tags?.join(", "), notes: run.notes };
    for (const [name, value] of Object.entries(facts)) if (value) lines.push(`  ${name}: ${cut(value)}`);
    const range = steps ? `, steps ${steps.first} to ${steps.last}` : "";
    lines.push(
      `  ${formatPlural(counts.rows, "row")}${range}; ${
        formatPlural(counts.events, "sample")
      } of the machine; ` +
        `${formatPlural(counts.output, "line")} of output; ${formatPlural(contents.files.size, "file")}`,
      ...section("config", contents.config),
      ...section("summary", contents.summary),
      ...section("machine, last", contents.system),
    );
  } else lines.push("  it has no record of a run: nothing in it can be uploaded");
  for (const [what, count] of contents.unsent) {
    lines.push(`  ${what}: ${count}; sync-wandb leaves them out, wandb sync sends them`);
  }
  if (counts.unreadable > 0) lines.push(`  ${formatPlural(counts.unreadable, "value")} can't be read`);
  for (const { kind, at, why } of damages) {
    const rest = kind === "cut" ? "what comes after is lost" : "what is whole after it was read, too";
    lines.push(`  ${kind} at byte ${at}: ${why}; ${rest}`);
  }
  return lines;
}

function section(title: string, tree: Tree): string[] {
  const entries = flat(tree).filter(([key]) => !key.startsWith("_wandb"));
  if (entries.length === 0) return [];
  const shown = entries.slice(0, SHOWN);
  const width = Math.min(40, Math.max(...shown.map(([key]) => cut(key).length)));
  const rest = entries.length > SHOWN ? [`    ... and ${entries.length - SHOWN} more (--json has all)`] : [];
  return [
    `  ${title}`,
    ...shown.map(([key, value]) => `    ${cut(key).padEnd(width)}  ${cut(value)}`),
    ...rest,
  ];
}

function flat(tree: Tree, before = ""): [string, string][] {
  return [...tree].flatMap(([key, value]): [string, string][] => {
    if (value instanceof Map && value.size > 0 && !value.has("_type")) return flat(value, `${before}${key}.`);
    const text = typeof value === "string" ? value : textOfJson(value);
    return [[before + key, text.startsWith('"') ? String(JSON.parse(text)) : text]];
  });
}

const cut = (text: string): string => {
  const clean = printable(text);
  return clean.length > WIDTH ? `${clean.slice(0, WIDTH - 3)}...` : clean;
};

const isoOf = (t: number): string => {
  const date = new Date(t * 1000);
  return Number.isFinite(date.getTime()) ? `${date.toISOString().slice(0, 19)}Z` : "at no time";
};
