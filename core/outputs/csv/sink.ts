// Writes metrics.csv, in the writing thread: a row for each logged step, with the evaluation in the row of its step.
import { join } from "../../../deps/path.ts";
import { writeAll, writeAtomically } from "../../base/atomic.ts";
import { pathExists } from "../../base/files.ts";
import type { Event } from "../../run/events.ts";
import { readEventLines } from "../../run/event_log.ts";
import type { Sink } from "../../run/output.ts";
import { type AppendedFile, openAppended } from "../append.ts";
import { fillIn, type HistoryRow, type HistoryRows, openHistoryRows, waitsForEvaluation } from "../rows.ts";
import { onceBegun, type TrackedRun } from "../tracked.ts";

export const openSink = (run: unknown): Sink => onceBegun(() => openCsvTable(run as TrackedRun));

/** The names of rows that are not the names of columns. */
const COLUMNS: Readonly<Record<string, string>> = { _step: "step", _timestamp: "time", _runtime: "runtime" };
/** Targets may have any name, but a row is a line. */
const columnOf = (name: string): string => COLUMNS[name] ?? name.replaceAll(/[\r\n]+/g, " ");

function openCsvTable(run: TrackedRun): Sink {
  const { path } = run;
  const table = run.resumed === null || !pathExists(path) ? newTable(path) : continuedTable(path, run);
  const rows: HistoryRows = openHistoryRows({
    put: table.put,
    pace: run.pace,
    after: -1,
    last: table.last,
    held: table.held,
    runtime: table.runtime,
    began: run.began,
  });
  if (run.resumed !== null) {
    fillIn(rows, run.resumed, join(run.folder, "events.jsonl"));
    rows.restart();
  }
  return {
    write: (event: Event) => rows.event(event),
    close() {
      try {
        rows.flush();
      } finally {
        table.close();
      }
    },
  };
}

interface Table {
  put(row: HistoryRow): void;
  readonly last: number;
  readonly held: HistoryRow | null;
  readonly runtime: number;
  close(): void;
}

const newTable = (path: string): Table => tableIn(path, [], 0, { last: -1, held: null, runtime: 0 });

/** Its columns stay, and the steps that are done again go. */
function continuedTable(path: string, { resumed, pace }: TrackedRun): Table {
  const { step } = resumed!, isOpen = waitsForEvaluation(step, pace);
  let columns: string[] = [], last = -1, runtime = 0, held: HistoryRow | null = null;
  rewritten(path, (lines) => {
    columns = cellsOf(lines.next().value ?? "");
    return columns.length === 0 ? null : columns;
  }, (line) => {
    const cells = line.split(","), values = new Map(columns.map((column, i) => [column, cells[i] ?? ""]));
    const at = Number(values.get("step") || NaN);
    if (cells.length !== columns.length || !(at > last && at <= step)) return null; // cut, or done again
    if (isOpen && at === step) {
      held = heldRow(at, values);
      return null;
    }
    last = at;
    runtime = Number(values.get("runtime")) || runtime;
    return line;
  });
  return tableIn(path, columns, Deno.statSync(path).size, { last, held, runtime });
}

function heldRow(step: number, cells: ReadonlyMap<string, string>): HistoryRow {
  const names = Object.fromEntries(Object.entries(COLUMNS).map(([name, column]) => [column, name]));
  const filled = [...cells].filter(([, cell]) => cell !== "");
  return { step, values: new Map(filled.map(([column, cell]) => [names[column] ?? column, cell])) };
}

function tableIn(
  path: string,
  columns: string[],
  end: number,
  found: Pick<Table, "last" | "held" | "runtime">,
): Table {
  const encoder = new TextEncoder();
  let file: AppendedFile = openAppended(path, end);
  const known = new Set(columns);
  /** A new column is the last one, so those before it stay where they are. */
  const widen = (fresh: string[]) => {
    const wide = [...columns, ...fresh], more = ",".repeat(fresh.length);
    file.close();
    try {
      rewritten(path, (lines) => {
        lines.next();
        return wide;
      }, (line) => line + more);
    } finally {
      file = openAppended(path);
    }
    for (const name of fresh) known.add(name);
    columns = wide;
  };
  return {
    ...found,
    put({ values }) {
      const cells = new Map([...values].map(([name, text]) => [columnOf(name), text]));
      const fresh = [...cells.keys()].filter((column) => !known.has(column));
      if (fresh.length > 0) widen(fresh);
      file.append(encoder.encode(columns.map((column) => cells.get(column) ?? "").join(",") + "\n"));
    },
    close: () => file.close(),
  };
}

/** `keep` returns null for a row that goes; without a header nothing is left. */
function rewritten(
  path: string,
  headerOf: (lines: Iterator<string>) => readonly string[] | null,
  keep: (line: string) => string | null,
): void {
  const encoder = new TextEncoder();
  writeAtomically(path, (out) => {
    const lines = readEventLines(path), header = headerOf(lines);
    if (header === null) return;
    let pending = header.map(quoted).join(",") + "\n";
    for (const line of lines) {
      const kept = keep(line);
      if (kept !== null) pending += kept + "\n";
      if (pending.length < 1 << 18) continue;
      writeAll(out, encoder.encode(pending));
      pending = "";
    }
    writeAll(out, encoder.encode(pending));
  }, { sync: false });
}

const quoted = (name: string): string => /[",]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name;

const cellsOf = (header: string): string[] =>
  [...header.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].flatMap(([, inQuotes, plain]) => {
    const name = inQuotes?.replaceAll('""', '"') ?? plain;
    return name === "" ? [] : [name];
  });
