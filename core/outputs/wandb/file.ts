// The .wandb file: LevelDB's log with CRC-32, written so that a kill loses at most the last record.
import { crc32 } from "node:zlib";
import { type AppendedFile, openAppended } from "../append.ts";
import {
  decodeRecord,
  encodeRecord,
  type HistoryItem,
  type ResumedRun,
  type WandbRecord,
  type WandbSetup,
} from "./records.ts";
import { writeAll, writeAtomically } from "../../base/atomic.ts";
import { METADATA } from "./media.ts";
import { type HistoryRow, type RowValues, waitsForEvaluation } from "../rows.ts";

/** ":W&B", a magic number, version 0. */
export const HEADER = Uint8Array.of(0x3a, 0x57, 0x26, 0x42, 0xe1, 0xbe, 0x00);

/** Offsets count from the start of the file: the header belongs to the first block. */
const BLOCK = 32768;
/** Checksum (4 bytes), length (2) and type (1). */
const CHUNK_HEAD = 7;
const FULL = 1, FIRST = 2, MIDDLE = 3, LAST = 4;

/** The next call reuses the bytes. */
export function encodeFrame(record: Uint8Array, offset: number): Uint8Array<ArrayBuffer> {
  const length = framedLength(record.length, offset);
  if (length > buffer.length) buffer = new Uint8Array(2 * length);
  let at = 0, left = BLOCK - offset % BLOCK;
  if (left < CHUNK_HEAD) {
    buffer.fill(0, 0, left);
    at = left;
    left = BLOCK;
  }
  for (let done = 0, first = true;; first = false, left = BLOCK) {
    const piece = Math.min(record.length - done, left - CHUNK_HEAD), from = at + CHUNK_HEAD;
    const last = done + piece === record.length;
    buffer[at + 6] = first ? last ? FULL : FIRST : last ? LAST : MIDDLE;
    buffer.set(first && last ? record : record.subarray(done, done + piece), from);
    at = putHead(at, crc32(buffer.subarray(at + 6, from + piece)), piece);
    done += piece;
    if (last) return buffer.subarray(0, at);
  }
}

let buffer = new Uint8Array(1024);

/** A DataView would be allocated for each record. Returns the end of the piece. */
function putHead(at: number, sum: number, length: number): number {
  buffer[at] = sum;
  buffer[at + 1] = sum >>> 8;
  buffer[at + 2] = sum >>> 16;
  buffer[at + 3] = sum >>> 24;
  buffer[at + 4] = length;
  buffer[at + 5] = length >>> 8;
  return at + CHUNK_HEAD + length;
}

function framedLength(length: number, offset: number): number {
  const left = BLOCK - offset % BLOCK;
  const fill = left < CHUNK_HEAD ? left : 0;
  const inFirst = (fill > 0 ? BLOCK : left) - CHUNK_HEAD;
  const more = Math.max(0, Math.ceil((length - inFirst) / (BLOCK - CHUNK_HEAD)));
  return fill + length + CHUNK_HEAD * (1 + more);
}

export interface WandbFrame {
  readonly record: Uint8Array;
  readonly start: number;
  readonly end: number;
}

export interface FrameEnd {
  /** A writer may keep the file up to here, the end of the last whole record. */
  readonly end: number;
  /** A cut record may still be written. */
  readonly damage: { readonly kind: "cut" | "damaged"; readonly at: number; readonly why: string } | null;
}

export type ReadAt = (into: Uint8Array, at: number) => number;

export function readAtOf(file: Deno.FsFile): ReadAt {
  return (into, at) => {
    file.seekSync(at, Deno.SeekMode.Start);
    let done = 0;
    while (done < into.length) {
      const got = file.readSync(into.subarray(done));
      if (got === null || got === 0) break;
      done += got;
    }
    return done;
  };
}

export interface ReadOptions {
  readonly from?: number;
  /** With it, reading continues after damage at the next block that starts a record. */
  readonly resync?: (damage: NonNullable<FrameEnd["damage"]>) => void;
}

/** Stops at the first damage. One block is in memory. */
export function* readFrames(
  read: ReadAt,
  { from, resync }: ReadOptions = {},
): Generator<WandbFrame, FrameEnd> {
  const block = new Uint8Array(BLOCK);
  const view = new DataView(block.buffer);
  let loaded = -1, size = 0; // which block is in memory, and how much of it there is
  let at = from ?? HEADER.length;
  let end = at; // the end of the last whole record
  let start = at; // of the record under way
  let pieces: Uint8Array[] | null = null;

  if (from === undefined || from < HEADER.length) {
    const found = read(block.subarray(0, HEADER.length), 0);
    const wrong = HEADER.findIndex((byte, i) => i < found && block[i] !== byte);
    if (wrong >= 0) return { end: 0, damage: { kind: "damaged", at: wrong, why: "it is not a .wandb file" } };
    if (found < HEADER.length) {
      return { end: 0, damage: { kind: "cut", at: found, why: "its header is cut" } };
    }
    at = end = start = HEADER.length;
  }
  for (;;) {
    const base = at - at % BLOCK;
    if (loaded !== base) {
      size = read(block, base);
      loaded = base;
    }
    const position = at - base;
    const found = chunkAt(block, view, position, size);
    if (found.is === "end") {
      const open = pieces !== null;
      return {
        end,
        damage: open || found.cut ? { kind: "cut", at: end, why: "the file ends within a record" } : null,
      };
    }
    if (found.is === "fill") {
      at = base + BLOCK;
      if (pieces === null) start = at;
      continue;
    }
    const order = found.is === "chunk" && (found.type === FULL || found.type === FIRST) !== (pieces === null);
    if (found.is === "damaged" || order) {
      const why = found.is === "damaged" ? found.why : "pieces of a record are missing";
      const damage = { kind: "damaged" as const, at, why };
      if (!resync) return { end, damage };
      resync(damage);
      pieces = null;
      // After a wrong order this piece may begin a record; in a damaged block nothing is certain.
      if (order && (found.type === FULL || found.type === FIRST)) continue;
      at = order ? at + CHUNK_HEAD + found.length : base + BLOCK;
      start = at;
      continue;
    }
    const { type, length } = found;
    if (pieces === null) start = at;
    const piece = block.slice(position + CHUNK_HEAD, position + CHUNK_HEAD + length);
    at += CHUNK_HEAD + length;
    if (type === FIRST || type === MIDDLE) {
      (pieces ??= []).push(piece);
      continue;
    }
    end = at;
    const record = pieces === null ? piece : joined([...pieces, piece]);
    pieces = null;
    yield { record, start, end };
  }
}

type Found =
  | { is: "end"; cut: boolean }
  | { is: "fill" }
  | { is: "damaged"; why: string }
  | { is: "chunk"; type: number; length: number };

function chunkAt(block: Uint8Array, view: DataView, at: number, size: number): Found {
  if (at >= size) return { is: "end", cut: false };
  if (BLOCK - at < CHUNK_HEAD) {
    if (block.subarray(at, size).some((byte) => byte !== 0)) {
      return { is: "damaged", why: "a block's end is not empty" };
    }
    return size < BLOCK ? { is: "end", cut: false } : { is: "fill" };
  }
  if (size - at < CHUNK_HEAD) return { is: "end", cut: true };
  const sum = view.getUint32(at, true), length = view.getUint16(at + 4, true), type = block[at + 6];
  if (sum === 0 && length === 0 && type === 0) {
    // Zeros after the last record are reserved space, or come from a crash of the machine.
    if (block.subarray(at, size).some((byte) => byte !== 0)) {
      return { is: "damaged", why: "zeros lie where a record is" };
    }
    return size < BLOCK ? { is: "end", cut: false } : { is: "fill" };
  }
  if (type < FULL || type > LAST || at + CHUNK_HEAD + length > BLOCK) {
    return { is: "damaged", why: "a piece's head makes no sense" };
  }
  if (at + CHUNK_HEAD + length > size) return { is: "end", cut: true };
  if (crc32(block.subarray(at + 6, at + CHUNK_HEAD + length)) !== sum) {
    return { is: "damaged", why: "a checksum does not match" };
  }
  return { is: "chunk", type, length };
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

export interface WandbFile {
  /**
   * Throws where the disk refuses; the file ends with the last whole record as soon as the disk allows it.
   */
  append(record: WandbRecord): void;
  readonly gone: boolean;
  close(): void;
}

export function createWandbFile(path: string): WandbFile {
  const file = openAppended(path, 0);
  file.append(HEADER);
  return writer(file, 0);
}

/** Continues after the last whole record, the `count`-th, which ends at `end`. */
export const continueWandbFile = (path: string, end: number, count: number): WandbFile =>
  writer(openAppended(path, end), count);

function writer(file: AppendedFile, count: number): WandbFile {
  return {
    append(record) {
      file.append(encodeFrame(encodeRecord(record, count + 1), file.end));
      count++;
    },
    get gone() {
      return file.gone;
    },
    close: () => file.close(),
  };
}

// Continues .wandb files on resume, without the steps that are repeated.

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
