// Arrow files and streams (Feather) become tables, of one file or of all in a folder.
import { dtypeBytes } from "../../../../ffi/dtype.ts";
import { UserError } from "../../../base/errors.ts";
import { openTable, type PagedColumn, type PagedFile, tableOf } from "../../columns/pages.ts";
import type { Rows } from "../../columns/rows.ts";
import type { DataRequest, Sources, TableFile } from "../../format.ts";
import { isFolder, markOf, withFiles } from "../../files.ts";
import { filesBelow, filesNamed } from "../../paths.ts";
import { damaged } from "../../columns/chunks.ts";
import { pageOf, textsOf } from "./buffers.ts";
import { type ArrowColumn, type ArrowFile, readArrow } from "./file.ts";

export const ENDINGS = [".arrow", ".feather", ".ipc", ".arrows"];

const withFilesOf = <R>(path: string, use: (files: readonly PagedFile[]) => R): R =>
  withFiles((open) => use(pathsOf(path).map((name) => pagedFile(readArrow(open(name))))));

export const withArrow = <R>(path: string, use: (table: TableFile) => R): R =>
  withFilesOf(path, (files) => use(tableOf(path, "Arrow", files)));

export const openArrow = (request: DataRequest): Sources =>
  withFilesOf(
    request.data.data_path,
    (files) => openTable(tableOf(request.data.data_path, "Arrow", files), files, request),
  );

function pathsOf(path: string): readonly string[] {
  const many = filesNamed(path, ENDINGS) ?? (isFolder(path) ? filesBelow(path, ENDINGS) : [path]);
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

function pagedColumn(arrow: ArrowFile, column: ArrowColumn): PagedColumn {
  const { name, kind, dtype, count, unusable, dictionary, node } = column, isText = kind === "text";
  let texts: readonly Uint8Array[] | undefined;
  const dictionaryOf = () => {
    if (!dictionary) return [];
    const parts = arrow.dictionaries.get(dictionary.id) ?? damaged("has no dictionary");
    return texts ??= parts.flatMap((part) => textsOf(arrow, part, 1, part.rows, dictionary.wide));
  };
  return {
    ...{ name, count, unusable, dtype: isText ? null : dtype, type: isText ? "text" : dtype },
    missing: arrow.batches.some(({ nodes }) => nodes[node]?.[1] !== 0),
    rows: () => rowsOf(arrow, column),
    eachPage(use) {
      for (const batch of arrow.batches) {
        if (batch.nodes[node]?.[0] !== batch.rows) damaged("has another number of rows than its batch");
        use(pageOf(arrow, batch, column, dictionaryOf()));
      }
    },
  };
}

/** Plain numbers lie in the file row by row, batch after batch. */
function rowsOf(
  { file, batches }: ArrowFile,
  { kind, dtype, count, buffer, node }: ArrowColumn,
): Rows | string {
  if (kind !== "number") return "has no bytes of its own for a row";
  if (batches.some(({ codec }) => codec !== "none")) {
    return "is packed batch by batch, and only all of it can be unpacked";
  }
  if (batches.some(({ nodes }) => nodes[node]?.[1] !== 0)) return "misses values, which bits elsewhere mark";
  const mark = markOf(file.path), bytes = count * dtypeBytes(dtype), starts = [0];
  const parts = batches.map(({ rows, buffers }): Rows => {
    const [begin, length] = buffers[count > 1 ? buffer + 2 : buffer + 1] ?? [0, -1];
    if (length < rows * bytes) damaged("has a buffer that is cut off");
    starts.push(starts.at(-1)! + rows);
    return { layout: "file", file: mark, begin, bytes, step: bytes, swapped: false };
  });
  return parts.length === 1 ? parts[0] : { layout: "parts", starts, parts };
}
