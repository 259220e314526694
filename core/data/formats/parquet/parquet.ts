// Columns of Parquet tables, of one file or of all in a folder, are read one by one, row group by row group.
import { join } from "../../../../deps/path.ts";
import { UserError } from "../../../base/errors.ts";
import type { Column } from "../../arrays/table.ts";
import { openTable, type PagedColumn, type PagedFile, tableOf } from "../../tables/pages.ts";
import type { DataRequest, Format, Sources, TableFile } from "../../format.ts";
import { isFolder, namesIn, withFiles } from "../../arrays/files.ts";
import { filesNamed } from "../../arrays/paths.ts";
import { type ParquetColumn, type ParquetFile, readFooter } from "./file.ts";
import { blockColumn, sideBySide } from "./side_by_side.ts";
import { listPage } from "./lists.ts";
import { openChunk, openWindow } from "./chunk.ts";
import { type Page, pagesOf } from "./pages.ts";

export const ENDINGS = [".parquet", ".pq"];
const ENDING = /\.(parquet|pq)$/i;

export const hasTables = (path: string): boolean =>
  isFolder(path) && namesIn(path).some((name) => ENDING.test(name));

export const withParquet = <R>(path: string, use: (table: TableFile) => R): R =>
  withTables(path, (files) => use(wholeTable(path, files)));

const withTables = <R>(path: string, use: (files: readonly ParquetFile[]) => R): R =>
  withFiles((open) => use(pathsOf(path).map((name) => readFooter(open(name)))));

export const openParquet = (request: DataRequest): Sources => {
  const path = request.data.data_path;
  return withTables(path, (files) => openTable(wholeTable(path, files), files.map(pagedFile), request));
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
  const many = filesNamed(path, ENDINGS);
  if (many) return many;
  if (!isFolder(path)) return [path];
  const names = namesIn(path).filter((name) => ENDING.test(name));
  if (names.length > 0) return names.map((name) => join(path, name));
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
      const window = openWindow();
      for (const { begin, bytes, codec, rows } of chunks.get(name)!) {
        const chunk = openChunk((into, at) => file.readInto(at, into), begin, bytes, window);
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

function codesIn(packed: Page["codes"], count: number): Int32Array | null {
  if (packed === null) return null;
  const codes = new Int32Array(count);
  packed.read(codes, count);
  return codes;
}

export const parquet: Format = {
  endings: ENDINGS,
  folder: { has: ".parquet files", detect: hasTables },
  path: "the file, folder or files to read",
  many: true,
  open: openParquet,
  table: withParquet,
};
