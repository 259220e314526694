// Rows are opened by plain data, in any thread. Rows of a format of their own are opened by its module.
import {
  type ColumnPart,
  type FileMark,
  type FormatRows,
  groupsOf,
  type HeldRows,
  type PartedRows,
  type PickedRows,
  type ReadsRows,
  type RowReader,
  type Rows,
  storedRows,
} from "./rows.ts";
import { type FilePool, type OpenFile, openFileRows, openPlacedRows, openPool } from "./files.ts";
import { dtypeBytes } from "../../../ffi/dtype.ts";
import { bytesAt, type MemoryBlock } from "../../../ffi/libc.ts";
import { finiteWords, partOf } from "./numbers.ts";
import { KEPT_BYTES } from "./chunks.ts";

/** How rows of a format of their own are opened; `share` is of the chunks that a reader keeps. */
interface RowsModule<R extends FormatRows> {
  /** It loads what takes time (WebAssembly) into this thread, before `open`. */
  load?(): Promise<void>;
  open(rows: R, name: string, fileOf: (mark: FileMark) => OpenFile, share: number): ReadsRows;
}

const modules = new Map<string, RowsModule<any>>();

/** A format's module says this of itself when it is imported. */
export function noteRows<R extends FormatRows>(module: string, rows: RowsModule<R>): string {
  modules.set(module, rows);
  return module;
}

/** It must end, in this thread, before rows are opened that came from another one. */
export async function loadRows(all: readonly Rows[]): Promise<void> {
  const own = all.flatMap(storedRows).filter((rows) => rows.layout === "format");
  for (const module of new Set(own.map(({ module }) => module))) {
    if (!modules.has(module)) await import(module);
    await modules.get(module)?.load?.();
  }
}

type ColumnRows = Pick<ColumnPart, "name" | "rows" | "raw">;

export function openRows(part: ColumnRows): RowReader {
  const { readers: [{ read, partOf }], close } = openAll([part]);
  return { read, partOf, close };
}

/** All parts of a file share one descriptor: a process may have about a thousand. */
export function openAll(parts: readonly ColumnRows[]) {
  const pool = openPool(), readers: ReadsRows[] = [];
  const close = () => {
    for (const { close } of readers) close?.();
    pool.close();
  };
  try {
    for (const part of parts) readers.push(readerOf(part, part.rows, pool));
  } catch (error) {
    close();
    throw error;
  }
  return { readers, close };
}

/** Readers of one part of many keep fewer chunks each. */
const SHARE_KEPT = 1 / 8;

function readerOf({ name, raw }: ColumnRows, rows: Rows, pool: FilePool, isPart = false): ReadsRows {
  const fileOf = isPart ? pool.passing : pool.lasting, kept = isPart ? SHARE_KEPT : 1;
  const open = (inner: Rows) => readerOf({ name, rows, raw }, inner, pool, isPart || rows.layout === "parts");
  switch (rows.layout) {
    case "file":
      return openFileRows(rows, dtypeBytes(raw), fileOf(rows.file));
    case "format":
      return modules.get(rows.module)!.open(rows, name, fileOf, kept);
    case "placed":
      return openPlacedRows(rows, dtypeBytes(raw), fileOf(rows.file));
    case "parts":
      return openParts(rows, open);
    case "picked":
      return openPicked(rows, open);
    case "held":
      return openHeld(rows);
  }
}

/** Plain data for a thread. */
export interface RowBlockOrders {
  readonly column: Pick<ColumnPart, "name" | "rows" | "raw">;
  readonly rows: number;
  /** Room for all rows, one after the other. */
  readonly into: MemoryBlock;
  /** Rows that a thread takes at once. */
  readonly block: number;
  /** Bits that stand for missing values among floats of four bytes; null where nobody looks at the values. */
  readonly fills: readonly number[] | null;
  readonly words: SharedArrayBuffer;
}

/**
 * Shared words: the next row that nobody has taken, rows that are there, whether a thread met a row that it can't read,
 * and whether one met a value that is missing or not finite.
 */
export const NEXT_ROW = 0, DONE = 1, FAILED = 2, ODD = 3, WORDS = 4;

export function readBlocks({ column, rows, into, block, fills, words: shared }: RowBlockOrders): void {
  const words = new Int32Array(shared);
  try {
    const all = bytesAt(into), bytes = all.length / rows, reader = openRows(column);
    try {
      while (Atomics.load(words, FAILED) === 0) {
        const first = Atomics.add(words, NEXT_ROW, block), end = Math.min(first + block, rows);
        if (first >= rows) break;
        for (let row = first; row < end; row++) {
          reader.read(row, all.subarray(row * bytes, (row + 1) * bytes));
        }
        // The values are still in the processor's cache.
        if (fills && isOdd(all.subarray(first * bytes, end * bytes), fills)) Atomics.store(words, ODD, 1);
        Atomics.add(words, DONE, end - first);
      }
    } finally {
      reader.close();
    }
  } catch {
    Atomics.store(words, FAILED, 1); // whoever reads the column alone says why
  }
  Atomics.notify(words, DONE);
}

function isOdd(values: Uint8Array, fills: readonly number[]): boolean {
  if (!finiteWords(values)) return true;
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.byteLength / 4);
  return fills.some((fill) => bits.includes(fill));
}

type Open = (rows: Rows) => ReadsRows;

/** A thread keeps the readers that it used last of hundreds of files: some, and more of those that keep few chunks. */
const SOME_OPEN = 8, MOST_OPEN = 64;

/** `open` is called when a part's first row is read. */
export function openParts({ starts, parts }: PartedRows, open: Open): ReadsRows {
  const opened = new Map<number, ReadsRows>();
  let kept = 0;
  const partOf = finder(starts);
  const bytesOf = ({ keeps = KEPT_BYTES / SOME_OPEN }: ReadsRows) => keeps;
  const isFull = () => opened.size >= MOST_OPEN || (opened.size >= SOME_OPEN && kept >= KEPT_BYTES);
  const closeOldest = () => {
    const [[oldest, reader]] = opened;
    reader.close?.();
    opened.delete(oldest);
    kept -= bytesOf(reader);
  };
  const readerOf = (part: number): ReadsRows => {
    const known = opened.get(part);
    if (known) {
      if (parts.length <= SOME_OPEN) return known;
      opened.delete(part); // and in again, as the newest
      opened.set(part, known);
      return known;
    }
    while (isFull()) closeOldest();
    const reader = open(parts[part]);
    opened.set(part, reader);
    kept += bytesOf(reader);
    return reader;
  };
  return {
    read(row, into) {
      const part = partOf(row);
      readerOf(part).read(row - starts[part], into);
    },
    groupOf: groups(starts, parts, partOf),
    partOf,
    close() {
      for (const { close } of opened.values()) close?.();
    },
  };
}

function finder(starts: readonly number[]): (row: number) => number {
  let last = 0;
  return (row) => {
    if (starts[last] <= row && row < starts[last + 1]) return last;
    return last = partOf(starts, row);
  };
}

/** The numbers of a part's groups begin where those of the part before end. */
function groups(
  starts: readonly number[],
  parts: readonly Rows[],
  partOf: (row: number) => number,
): ReadsRows["groupOf"] {
  const own = parts.map((rows) => {
    const stored = storedRows(rows);
    return rows.layout !== "parts" && rows.layout !== "picked" && stored.length === 1
      ? groupsOf(stored[0])
      : undefined;
  });
  if (own.every((group) => group === undefined)) return undefined;
  let next = 0;
  const firsts = own.map((group, i) => {
    const first = next;
    next += group?.count ?? starts[i + 1] - starts[i];
    return first;
  });
  return (row) => {
    const part = partOf(row), inside = row - starts[part];
    return firsts[part] + (own[part]?.groupOf(inside) ?? inside);
  };
}

function openPicked({ rows, outer, inner, bytes, runs }: PickedRows, open: Open): ReadsRows {
  const reader = open(rows);
  const { groupOf, partOf, close } = reader;
  const whole = runs.length === 2 && runs[0] === 0 && runs[1] === bytes;
  const scratch = new Uint8Array(whole ? 0 : bytes);
  const firstOf = (row: number): number => {
    let first = 0, rest = row;
    for (let d = outer.length - 1; d >= 0; d--) {
      const { places, step } = outer[d];
      first += places[rest % places.length] * step;
      rest = Math.floor(rest / places.length);
    }
    return first;
  };
  return {
    read(row, into) {
      const first = firstOf(row);
      let at = 0;
      for (const place of inner) {
        if (whole) {
          reader.read(first + place, inner.length === 1 ? into : into.subarray(at, at += bytes));
          continue;
        }
        reader.read(first + place, scratch);
        for (let i = 0; i < runs.length; i += 2) {
          copy(scratch, runs[i], into, at, runs[i + 1]);
          at += runs[i + 1];
        }
      }
    },
    groupOf: groupOf && ((row) => groupOf(firstOf(row) + inner[0])),
    partOf: partOf && ((row) => partOf(firstOf(row) + inner[0])),
    close,
  };
}

/** Below this many bytes a loop is faster than a view. */
const SHORT = 32;

function copy(from: Uint8Array, at: number, into: Uint8Array, to: number, bytes: number): void {
  if (bytes > SHORT) into.set(from.subarray(at, at + bytes), to);
  else for (let i = 0; i < bytes; i++) into[to + i] = from[at + i];
}

const openHeld = ({ values, bytes }: HeldRows): ReadsRows => ({
  read(row, into) {
    const at = row * bytes % values.length;
    into.set(values.subarray(at, at + bytes));
  },
});
