// Arrow files and streams (Feather) become tables, of one file or of all in a folder.
import { dtypeBytes } from "../../ffi/dtype.ts";
import { UserError } from "../../core/base/errors.ts";
import {
  openPagedTable,
  type PagedColumn,
  type PagedFile,
  tableOf,
  unevenLists,
} from "../../core/data/tables/pages.ts";
import type { Rows } from "../../core/data/arrays/rows.ts";
import type { DataReader, DataRequest, Sources, TableFile } from "../../core/data/format.ts";
import { markOf, withFiles } from "../../core/data/arrays/files.ts";
import { Damaged, refuseDamaged } from "../../core/data/codecs/bytes.ts";
import { arrowTexts, type ListSizes, listSizes, numbersAt, pageOf } from "./buffers.ts";
import { ENDINGS } from "./format.ts";
import { type ArrowColumn, type ArrowFile, readArrow } from "./file.ts";
import { filesIn } from "../../core/data/arrays/paths.ts";

const withFilesOf = <R>(path: string, use: (files: readonly PagedFile[]) => R): R =>
  withFiles((open) => use(pathsOf(path).map((name) => pagedFile(readArrow(open(name))))));

export const withArrow = <R>(path: string, use: (table: TableFile) => R): R =>
  withFilesOf(path, (files) => use(tableOf(path, "Arrow", files)));

const openArrow = (request: DataRequest): Sources =>
  withFilesOf(
    request.data.data_path,
    (files) => openPagedTable(tableOf(request.data.data_path, "Arrow", files), files, request),
  );

function pathsOf(path: string): readonly string[] {
  const many = filesIn(path, ENDINGS) ?? [path];
  if (many.length > 0) return many;
  throw new UserError(
    "data",
    `${path} has no .arrow or .feather files in it. Check data.data_path (--data-path).`,
  );
}

const pagedFile = (found: ArrowFile): PagedFile => ({
  path: found.file.path,
  rows: found.rows,
  columns: found.columns.map((column) => pagedColumn(found, column)),
});

/** All rows have lists of the same sizes, or the column can't be used. */
function listColumn(arrow: ArrowFile, column: ArrowColumn): PagedColumn {
  const { name, dtype, lists, node } = column;
  const plain = {
    name,
    dtype,
    type: dtype,
    count: 1,
    missing: false,
    rows: () => "is no list of one length",
  };
  const eachPage = () => refuseDamaged("holds no lists of one length");
  let found: ListSizes;
  try {
    found = listSizes(arrow, column);
  } catch (error) {
    if (!(error instanceof Damaged)) throw error;
    return { ...plain, eachPage, unusable: error.message };
  }
  const { sizes, starts } = found, count = sizes.reduce((all, size) => all * size, 1);
  if (sizes.length < lists.length || count === 0) return { ...plain, eachPage, unusable: unevenLists(name) };
  const gaps = arrow.batches.some(({ nodes }) =>
    lists.concat({ wide: false }).some((_, i) => nodes[node + i]?.[1] !== 0)
  );
  if (gaps) {
    return { ...plain, eachPage, unusable: "has gaps in its lists: fill them, or leave those rows out" };
  }
  return {
    ...plain,
    ...{ count, sizes },
    rows: () => rowsOf(arrow, { ...column, count }, starts),
    eachPage(use) {
      arrow.batches.forEach((batch, i) => use(pageOf(arrow, batch, { ...column, count }, [], starts[i])));
    },
  };
}

function pagedColumn(arrow: ArrowFile, column: ArrowColumn): PagedColumn {
  if (column.lists.length > 0 && !column.unusable) return listColumn(arrow, column);
  const { name, kind, dtype, count, unusable, dictionary, node } = column, isText = kind === "text";
  let texts: readonly Uint8Array[] | undefined;
  const dictionaryOf = () => {
    if (!dictionary) return [];
    const parts = arrow.dictionaries.get(dictionary.id) ?? refuseDamaged("has no dictionary");
    return texts ??= parts.flatMap((part) => arrowTexts(arrow, part, 1, part.rows, dictionary.wide));
  };
  return {
    ...{ name, count, unusable, dtype: isText ? null : dtype, type: isText ? "text" : dtype },
    missing: arrow.batches.some(({ nodes }) => nodes[node]?.[1] !== 0),
    rows: () => rowsOf(arrow, column),
    eachPage(use) {
      for (const batch of arrow.batches) {
        if (batch.nodes[node]?.[0] !== batch.rows) refuseDamaged("has another number of rows than its batch");
        use(pageOf(arrow, batch, column, dictionaryOf()));
      }
    },
  };
}

/** Plain numbers lie in the file row by row, batch after batch; those of lists may begin later in their buffer. */
function rowsOf(
  { file, batches }: ArrowFile,
  column: ArrowColumn,
  begins: readonly number[] = [],
): Rows | string {
  const { kind, dtype, count, node } = column;
  if (kind !== "number") return "has no bytes of its own for a row";
  if (batches.some(({ codec }) => codec !== "none")) {
    return "is packed batch by batch, and only all of it can be unpacked";
  }
  if (batches.some(({ nodes }) => nodes[node]?.[1] !== 0)) return "misses values, which bits elsewhere mark";
  const mark = markOf(file.path), bytes = count * dtypeBytes(dtype), starts = [0];
  const parts = batches.map(({ rows, buffers }, i): Rows => {
    const [place, length] = buffers[numbersAt(column)] ?? [0, -1],
      before = (begins[i] ?? 0) * dtypeBytes(dtype);
    if (length < before + rows * bytes) refuseDamaged("has a buffer that is cut off");
    starts.push(starts.at(-1)! + rows);
    return { layout: "file", file: mark, begin: place + before, bytes, step: bytes, swapped: false };
  });
  return parts.length === 1 ? parts[0] : { layout: "parts", starts, parts };
}

export const reader: DataReader = { open: openArrow, table: withArrow };
