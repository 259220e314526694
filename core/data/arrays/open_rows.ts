// Rows are opened by plain data, in any thread. Rows of a format of their own are opened by its module.
import {
  type ColumnPart,
  type FileMark,
  type FormatRows,
  type ReadsRows,
  type RowReader,
  type Rows,
  storedRows,
} from "./rows.ts";
import { type FilePool, type OpenFile, openFileRows, openPlacedRows, openPool } from "./files.ts";
import { openHeld, openParts, openPicked } from "./composed_rows.ts";
import { dtypeBytes } from "../../../ffi/dtype.ts";

/** How rows of a format of their own are opened; `share` is of the chunks that a reader keeps. */
export interface RowsModule<R extends FormatRows> {
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
