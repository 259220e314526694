// Columns of Parquet tables, of one file or of all below a folder, are read one by one, row group by row group.
import * as blocks from "./blocks.ts";
import { UserError } from "../../../base/errors.ts";
import type { Column, SideBySide } from "../../arrays/table.ts";
import { openPagedTable, type PagedColumn, type PagedFile, tableOf } from "../../tables/pages.ts";
import type { DataReader, DataRequest, Sources, TableFile } from "../../format.ts";
import { withFiles } from "../../arrays/files.ts";
import { filesIn } from "../../arrays/paths.ts";
import { PARQUET_ENDINGS } from "./format.ts";
import { listPage, type ParquetColumn, type ParquetFile, readFooter } from "./file.ts";
import { pagesOf, type ParquetPage } from "./pages.ts";
import { longLivedUninitialised, memoryBlockOf } from "../../../../ffi/make.ts";
import { bytesAt } from "../../../../ffi/libc.ts";
import { cpuCount } from "../../../base/topology.ts";

export const withParquet = <R>(path: string, use: (table: TableFile) => R): R =>
  withTables(path, (files) => use(wholeTable(path, files)));

const withTables = <R>(path: string, use: (files: readonly ParquetFile[]) => R): R =>
  withFiles((open) => use(pathsOf(path).map((name) => readFooter(open(name)))));

export const openParquet = (request: DataRequest): Sources => {
  const path = request.data.data_path;
  return withTables(path, (files) => openPagedTable(wholeTable(path, files), files.map(pagedFile), request));
};

function wholeTable(path: string, files: readonly ParquetFile[]): TableFile {
  const table = tableOf(path, "Parquet", files.map(pagedFile));
  const together = (chosen: readonly Column[]) => {
    const found = chosen.map(({ name }) => {
      const each = files.flatMap(({ columns }) => columns.filter((column) => column.name === name));
      const optional = each.some(({ optional }) => optional);
      return each.length < files.length || each[0].lists
        ? null
        : blockColumn(each[0], mayMiss(files, { ...each[0], optional }));
    });
    const rows = files.reduce((sum, file) => sum + file.rows, 0);
    return found.every((column) => column !== null) ? sideBySide(files, found, rows) : null;
  };
  return { ...table, sideBySide: together };
}

function pathsOf(path: string): readonly string[] {
  const many = filesIn(path, PARQUET_ENDINGS) ?? [path];
  if (many.length > 0) return many;
  throw new UserError("data", `${path} has no .parquet files in it. Check data.data_path (--data-path).`);
}

/** A writer that counted none says so. */
const mayMiss = (files: readonly ParquetFile[], { name, optional }: ParquetColumn): boolean =>
  optional && files.some(({ chunks }) => chunks.get(name)!.some(({ missing }) => missing !== 0));

const PACKED = "is packed in pages, and only all of it can be unpacked";

const pagedFile = (found: ParquetFile): PagedFile => ({
  path: found.file.path,
  rows: found.rows,
  columns: found.columns.map((column) => pagedColumn(found, column)),
});

function pagedColumn(found: ParquetFile, column: ParquetColumn): PagedColumn {
  const { file, chunks } = found, { name, dtype, physical, optional, unusable } = column;
  if (column.lists) return pagedLists(found, column, column.lists);
  return {
    ...{ name, dtype, unusable, count: 1, type: dtype ?? physical.toLowerCase() },
    missing: mayMiss([found], column),
    rows: () => PACKED,
    eachPage(use) {
      const window = blocks.openChunkWindow();
      for (const { begin, bytes, codec, rows } of chunks.get(name)!) {
        const chunk = blocks.openChunk((into, at) => file.readInto(at, into), begin, bytes, window);
        for (const { codes, count, ...page } of pagesOf(chunk, { physical, codec, optional, rows })) {
          use({ ...page, codes: codesIn(codes, count) });
        }
      }
    },
  };
}

function pagedLists(
  { file, schema, listChunks }: ParquetFile,
  { name, dtype }: ParquetColumn,
  { path, sizes }: NonNullable<ParquetColumn["lists"]>,
): PagedColumn {
  return {
    ...{ name, dtype, type: dtype!, missing: false, sizes },
    count: sizes.reduce((a, b) => a * b, 1),
    rows: () => PACKED,
    eachPage(use) {
      for (const chunk of listChunks.get(name)!) {
        use(listPage(schema, path, chunk, sizes, dtype!, (into, at) => file.readInto(at, into)));
      }
    },
  };
}

function codesIn(packed: ParquetPage["codes"], count: number): Int32Array | null {
  if (packed === null) return null;
  const codes = new Int32Array(count);
  packed.read(codes, count);
  return codes;
}

export const reader: DataReader = { open: openParquet, table: withParquet };

/** With fewer numbers a thread is not worth its start. */
const MANY = 2 ** 21;
/** A thread takes this much for its pages and itself; all of them may take this share of the numbers. */
const THREAD_BYTES = 48 * 2 ** 20, SHARE = 0.15;

export function sideBySide(
  files: readonly ParquetFile[],
  columns: readonly blocks.BlockColumn[],
  rows: number,
): SideBySide {
  const values = longLivedUninitialised([rows, columns.length]);
  const into = memoryBlockOf(values);
  const threads = threadsFor(rows * columns.length);
  const groups = groupsOf(files, columns, threads);
  const words = new Int32Array(new SharedArrayBuffer(4 * (blocks.MARKS + columns.length)));
  if (rows > 0) {
    readAll({ columns, groups, into, words: words.buffer }, Math.min(threads, groups.length), words);
  }
  return { values, marked: [...words.subarray(blocks.MARKS)].map((marks) => marks !== 0) };
}

function threadsFor(numbers: number): number {
  if (numbers < MANY) return 1;
  return Math.min(cpuCount(), 1 + Math.floor(SHARE * 4 * numbers / THREAD_BYTES));
}

function readAll(orders: blocks.BlockOrders, threads: number, words: Int32Array): void {
  const workers = Array.from({ length: threads - 1 }, (_, i) => {
    const worker = new Worker(new URL("./thread.ts", import.meta.url), {
      type: "module",
      name: `table ${i + 1}`,
    });
    worker.onerror = (event) => event.preventDefault(); // what it did not take, this thread does
    worker.postMessage(orders);
    return worker;
  });
  try {
    blocks.readGroups(orders);
    for (let done; (done = Atomics.load(words, blocks.DONE)) < orders.groups.length;) {
      const failed = Atomics.load(words, blocks.FAILED);
      if (failed > 0) throw failureOf(orders, orders.groups[failed - 1], words);
      Atomics.wait(words, blocks.DONE, done, 1000);
    }
    const failed = Atomics.load(words, blocks.FAILED);
    if (failed > 0) throw failureOf(orders, orders.groups[failed - 1], words);
  } finally {
    for (const worker of workers) worker.terminate();
  }
}

function failureOf(
  { columns, into }: blocks.BlockOrders,
  group: blocks.RowGroupPart,
  words: Int32Array,
): Error {
  try {
    blocks.readGroup(columns, group, bytesAt(into), words);
  } catch (error) {
    if (!(error instanceof blocks.DamagedColumn)) return error as Error;
    const { path } = group.file;
    return new UserError(
      "data",
      `${path}: the column "${error.column}" ${error.message}. Copy it again from where it came from.`,
      { cause: error },
    );
  }
  return new Error("internal: a row group was read the second time, and not the first.");
}

/** So many groups for each thread that none waits long for the last one. */
const GROUPS = 3;

/** Where row groups are few, parts of their columns are groups of their own. */
function groupsOf(
  files: readonly ParquetFile[],
  columns: readonly blocks.BlockColumn[],
  threads: number,
): blocks.RowGroupPart[] {
  const groups: blocks.RowGroupPart[] = [];
  let first = 0;
  for (const { mark, chunks, columns: own } of files) {
    const optional = columns.map(({ name }) => own.find((column) => column.name === name)!.optional);
    const lists = columns.map(({ name }) => chunks.get(name)!);
    for (let i = 0; i < lists[0].length; i++) {
      const { rows } = lists[0][i];
      groups.push({
        file: mark,
        first,
        rows,
        columns: lists.map((list, at) => ({ ...list[i], at, optional: optional[at] })),
      });
      first += rows;
    }
  }
  const parts = threads === 1 ? 1 : Math.min(columns.length, Math.ceil(GROUPS * threads / groups.length));
  return parts === 1 ? groups : groups.flatMap((group) => partsOf(group, parts));
}

function partsOf(group: blocks.RowGroupPart, parts: number): blocks.RowGroupPart[] {
  const { columns } = group;
  return Array.from({ length: parts }, (_, i) => ({
    ...group,
    columns: columns.slice(
      Math.floor(i * columns.length / parts),
      Math.floor((i + 1) * columns.length / parts),
    ),
  }));
}

/** Null where a column has numbers that only its own way reads. */
function blockColumn(column: ParquetColumn, missing: boolean): blocks.BlockColumn | null {
  const { name, physical, dtype, unusable } = column;
  if (unusable || dtype === null || dtype === "u64") return null;
  return { name, physical, dtype, missing };
}
