// Continues .wandb files on resume, without the steps that are repeated.
import { writeAll, writeAtomically } from "../../base/atomic.ts";
import { encodeFrame, HEADER, readAtOf, readFrames } from "./file.ts";
import { METADATA } from "./media.ts";
import { decodeRecord, encodeRecord, type HistoryItem, type WandbRecord } from "./records.ts";
import { type HistoryRow, type RowValues, waitsForEvaluation } from "../rows.ts";
import type { ResumedRun, WandbSetup } from "./types.ts";

export interface KeptRecords {
  readonly step: number;
  readonly runtime: number;
  /** The last row waits for its evaluation and is not in the file. */
  readonly held: HistoryRow | null;
  /** The end of the file and its number of records; null without a file to continue. */
  readonly file: { readonly end: number; readonly count: number } | null;
}

type Head = (before: WandbRecord & { kind: "run" } | null) => WandbRecord[];

/** Rows of uploaded files stay at the server. */
export function readUploaded(
  setup: WandbSetup,
  seen: (row: HistoryRow) => void,
): { step: number; runtime: number } {
  let step = setup.after, runtime = 0;
  for (const path of setup.uploaded) {
    for (const record of recordsIn(path)) {
      if (record.kind !== "history") continue;
      const row = rowOf(record);
      seen(row);
      step = Math.max(step, row.step);
      runtime = Math.max(runtime, seconds(row));
    }
  }
  return { step, runtime };
}

/**
 * The new file begins with `head`, without end, summaries and repeated rows. A kill leaves the old file or
 * the new one.
 */
export function rewrite(
  { path, pace, after }: WandbSetup,
  { step }: ResumedRun,
  head: Head,
  seen: (row: HistoryRow) => void,
): KeptRecords {
  const state = { end: HEADER.length, count: 0 };
  let last: HistoryRow | null = null, runtime = 0, held: HistoryRow | null = null;
  const open = step > after && waitsForEvaluation(step, pace);
  writeAtomically(path, (out) => {
    const batch = openBatch(out);
    const put = (record: Uint8Array) => {
      const bytes = encodeFrame(record, state.end);
      batch.write(bytes);
      state.end += bytes.length;
      state.count++;
    };
    batch.write(HEADER);
    const first = recordsIn(path).find((record) => record.kind === "run");
    for (const record of head(first?.kind === "run" ? first : null)) {
      put(encodeRecord(record, state.count + 1));
    }
    for (const { record: bytes } of framesIn(path)) {
      const record = decodeRecord(bytes);
      if (!KEPT.has(record.kind) || isRewritten(record)) continue;
      if (record.kind === "history") {
        const row = rowOf(record);
        if (row.step > Math.max(step, after) || (last !== null && row.step <= last.step)) continue;
        if (open && row.step === step) {
          held = row;
          continue;
        }
        seen(row);
        last = row;
        runtime = Math.max(runtime, seconds(row));
      }
      put(bytes);
    }
    batch.end();
  }, { sync: false });
  return { step: (last as HistoryRow | null)?.step ?? -1, runtime, held, file: state };
}

const isRewritten = (record: WandbRecord) =>
  record.kind === "files" && record.files.every(({ path }) => path === METADATA);

const KEPT = new Set(["history", "files", "stats", "output", "alert", "other"]);

function* framesIn(path: string) {
  using file = Deno.openSync(path);
  yield* readFrames(readAtOf(file));
}

/** Stops at the first damage. */
export function* recordsIn(path: string): Generator<WandbRecord, undefined> {
  for (const { record } of framesIn(path)) yield decodeRecord(record);
}

function rowOf({ items, step }: { items: readonly HistoryItem[]; step?: number }): HistoryRow {
  const values: RowValues = new Map(items.map(({ key, json }) => [key.join("."), json]));
  return { step: Number(values.get("_step") ?? step ?? 0), values };
}

const seconds = ({ values }: HistoryRow): number => Number(values.get("_runtime") ?? 0) || 0;

const BATCH_BYTES = 1 << 18;

function openBatch(out: Deno.FsFile) {
  const buffer = new Uint8Array(BATCH_BYTES);
  let used = 0;
  const end = () => {
    writeAll(out, buffer.subarray(0, used));
    used = 0;
  };
  return {
    write(bytes: Uint8Array): void {
      if (used + bytes.length > buffer.length) end();
      if (bytes.length > buffer.length) return writeAll(out, bytes);
      buffer.set(bytes, used);
      used += bytes.length;
    },
    end,
  };
}
