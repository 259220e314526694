// Columns of Parquet tables, of one file or of all in a folder, are read one by one, row group by row group.
import { basename, join } from "../../../../deps/path.ts";
import type { DType } from "../../../../ffi/dtype.ts";
import { dtypeBytes, isFloating } from "../../../../ffi/dtype.ts";
import { UserError } from "../../../base/errors.ts";
import type { FileBytes } from "../../../base/file_bytes.ts";
import { type Column, fromColumns } from "../../columns/columns.ts";
import { fileVariable, withFile } from "../../columns/file_column.ts";
import { toColumn } from "../../columns/variables.ts";
import type { DataRequest, Sources, TableFile } from "../../format.ts";
import { isFolder, namesIn, withFiles } from "../../files.ts";
import { filesNamed } from "../../paths.ts";
import { type ParquetColumn, type ParquetFile, readFooter } from "./file.ts";
import type { BlockColumn } from "./blocks.ts";
import { blockColumn, sideBySide } from "./side_by_side.ts";
import { openChunk, openWindow } from "./chunk.ts";
import { Damaged, damaged, type Page, pagesOf } from "./pages.ts";

export const ENDINGS = [".parquet", ".pq"];
const ENDING = /\.(parquet|pq)$/i;

export const hasTables = (path: string): boolean =>
  isFolder(path) && namesIn(path).some((name) => ENDING.test(name));

export const withParquet = <R>(path: string, use: (table: TableFile) => R): R =>
  withTables(path, (files) => use(tableOf(path, files)));

const withTables = <R>(path: string, use: (files: readonly ParquetFile[]) => R): R =>
  withFiles((open) => use(pathsOf(path).map((name) => readFooter(open(name)))));

function tableOf(path: string, files: readonly ParquetFile[]): TableFile {
  const kind = files.length > 1 ? `${files.length} Parquet files` : "Parquet file";
  const rows = files.reduce((sum, file) => sum + file.rows, 0);
  const { columns, blocks } = columnsOf(files, rows);
  const together = (chosen: readonly Column[]) => {
    const found = chosen.map((column) => blocks.get(column));
    return found.every((column) => column !== undefined) ? sideBySide(files, found, rows) : null;
  };
  return { path, kind, noun: "column", columns, sideBySide: together };
}

export const openParquet = (request: DataRequest): Sources => {
  const path = request.data.data_path;
  return withTables(path, (files) => {
    const table = tableOf(path, files);
    const counted = files.map(({ file, rows }) => ({ path: file.path, samples: rows }));
    const file = files.length > 1 ? toColumn(fileVariable(counted, null), false) : null;
    return fromColumns({ ...table, columns: withFile<Column>(table.columns, file) }, request);
  });
};

function pathsOf(path: string): readonly string[] {
  const many = filesNamed(path, ENDINGS);
  if (many) return many;
  if (!isFolder(path)) return [path];
  const names = namesIn(path).filter((name) => ENDING.test(name));
  if (names.length > 0) return names.map((name) => join(path, name));
  throw new UserError("data", `${path} has no .parquet files in it. Check data.data_path (--data-path).`);
}

function columnsOf(files: readonly ParquetFile[], rows: number) {
  const [first, ...others] = files;
  for (const { file, columns } of others) assertAlike(first, file, columns);
  const whole = first.columns.map(({ name }): ParquetColumn => {
    const each = files.map((file) => file.columns.find((column) => column.name === name)!);
    return { ...each[0], optional: each.some(({ optional }) => optional) };
  });
  const blocks = new Map<Column, BlockColumn>();
  const columns = whole.map((column) => {
    const made = columnOf(files, column, rows), block = blockColumn(column, mayMiss(files, column));
    if (block) blocks.set(made, block);
    return made;
  });
  return { columns, blocks };
}

/** A writer that counted none says so. */
const mayMiss = (files: readonly ParquetFile[], { name, optional }: ParquetColumn): boolean =>
  optional && files.some(({ chunks }) => chunks.get(name)!.some(({ missing }) => missing !== 0));

function assertAlike(first: ParquetFile, file: FileBytes, columns: readonly ParquetColumn[]): void {
  const text = ({ physical, dtype }: ParquetColumn) => dtype ?? physical.toLowerCase();
  for (const column of first.columns) {
    const other = columns.find(({ name }) => name === column.name);
    if (other && text(other) === text(column)) continue;
    throw new UserError(
      "data",
      `${file.path} has ${
        other ? `the column "${column.name}" as ${text(other)}` : `no column "${column.name}"`
      }, but ` +
        `${basename(first.file.path)} has it${
          other ? ` as ${text(column)}` : ""
        }: files of one folder are one table. ` +
        "Move it elsewhere, or write it again like the others.",
    );
  }
}

/** pandas writes the names of rows into such a column. */
const INDEX = /^__index_level_\d+__$/;
const PACKED = "is packed in pages, and only all of it can be unpacked";

function columnOf(files: readonly ParquetFile[], column: ParquetColumn, rows: number): Column {
  const { name, dtype: raw, physical, unusable } = column;
  const plain = { name, shape: [rows], onlyByName: unusable !== undefined || INDEX.test(name) };
  if (unusable) return { ...plain, dtype: "f32", unusable, read: unreachable };
  if (physical === "TEXT" || raw === null) {
    let found: Texts | undefined;
    const all = () => found ??= readTexts(files, column, rows);
    return {
      ...plain,
      dtype: "f32",
      read: () => all().codes,
      text: {
        get example() {
          return `"${firstText(files, column)}"`;
        },
        classes: () => all().classes,
      },
    };
  }
  const missing = mayMiss(files, column);
  // A float of the same or twice the size holds each value and NaN; i64 and u64 beyond 2^53 are rounded.
  const dtype = !missing || isFloating(raw) && raw !== "f16" ? raw : dtypeBytes(raw) <= 2 ? "f32" : "f64";
  return {
    ...plain,
    dtype,
    whole: missing && !isFloating(raw),
    read: () => readNumbers(files, column, dtype, rows),
    stream: { rows: () => PACKED, raw, rule: null },
  };
}

function unreachable(): never {
  throw new Error("internal: something unusable is read");
}

const ARRAYS = {
  bool: Uint8Array,
  u8: Uint8Array,
  i8: Int8Array,
  u16: Uint16Array,
  i16: Int16Array,
  u32: Uint32Array,
  i32: Int32Array,
  u64: BigUint64Array,
  i64: BigInt64Array,
  f16: Float16Array,
  f32: Float32Array,
  f64: Float64Array,
} as const;

/** Beside the column no more is held than one chunk as it is stored, and a page of it. */
function readNumbers(
  files: readonly ParquetFile[],
  column: ParquetColumn,
  dtype: DType,
  rows: number,
): ArrayBufferView {
  const array = ARRAYS[dtype as keyof typeof ARRAYS] as Float64ArrayConstructor;
  const whole = new array(rows), width = array.BYTES_PER_ELEMENT;
  // Missing values keep it.
  if (isFloating(dtype)) whole.fill(NaN);
  let at = 0, last: Page["values"] | null = null, numbers: Float64Array = new array(0);
  eachPage(files, column, ({ rows, present, values, codes: packed, count }) => {
    const codes = codesIn(packed, count);
    if (present && !isFloating(dtype)) damaged("has missing values, and its footer says that it has none");
    // All pages of a chunk share its dictionary.
    if (values !== last) numbers = convertedTo(array, last = values, column);
    if (!present && !codes) whole.set(numbers, at);
    else if (width >= 4) scatter(asWords(numbers), asWords(whole), width / 4, at, rows, present, codes);
    else scatter(asBytes(numbers), asBytes(whole), width, at, rows, present, codes);
    at += rows;
  });
  return whole;
}

/** The types of a column and its pages differ where a float stands for a whole number, or a sign is another. */
function convertedTo(
  array: Float64ArrayConstructor,
  values: Page["values"],
  { dtype }: ParquetColumn,
): Float64Array {
  if (values instanceof array) return values;
  const floats = (array as unknown) !== BigUint64Array;
  if (values instanceof BigInt64Array && floats) {
    return array.from(values, (value) => Number(dtype === "u64" ? BigInt.asUintN(64, value) : value));
  }
  if (dtype === "u32" && (array as unknown) !== Uint32Array) {
    return array.from(values as Int32Array, (value) => value >>> 0);
  }
  return new array(values as Int32Array);
}

const asWords = ({ buffer, byteOffset, byteLength }: ArrayBufferView) =>
  new Int32Array(buffer, byteOffset, byteLength / 4);
const asBytes = ({ buffer, byteOffset, byteLength }: ArrayBufferView) =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** Elements are moved as `units` words or bytes each: that is several times as fast as by numbers of many types. */
function scatter<T extends Int32Array | Uint8Array>(
  from: T,
  to: T,
  units: number,
  at: number,
  rows: number,
  present: Uint8Array | null,
  codes: Int32Array | null,
): void {
  for (let row = 0, next = 0, into = at * units; row < rows; row++, into += units) {
    if (present !== null && present[row] === 0) continue;
    const source = (codes === null ? next : codes[next]) * units;
    to[into] = from[source];
    if (units === 2) to[into + 1] = from[source + 1];
    next++;
  }
}

interface Texts {
  readonly classes: readonly string[];
  /** Each row's code is its text's place among the sorted classes. */
  readonly codes: Float32Array;
}

/** So many classes no model has: such texts are names of rows. */
const MOST_TEXTS = 1e6;

function readTexts(files: readonly ParquetFile[], column: ParquetColumn, rows: number): Texts {
  const seen = new Map<string, number>(), found = new Float32Array(rows);
  const decoder = new TextDecoder();
  const codeOf = (bytes: Uint8Array): number => {
    const text = decoder.decode(bytes), known = seen.get(text);
    if (known !== undefined) return known;
    if (seen.size === MOST_TEXTS) {
      throw new UserError(
        "data",
        `${
          files[0].file.path
        }: the column "${column.name}" has more than ${MOST_TEXTS} different texts, which are no ` +
          "classes. Leave it out by naming the others with --features and --targets.",
      );
    }
    seen.set(text, seen.size);
    return seen.size - 1;
  };
  let at = 0, last: Page["values"] | null = null, known = new Float32Array(0);
  eachPage(files, column, ({ rows, present, values, codes: packed, count }) => {
    const codes = codesIn(packed, count);
    const texts = values as readonly Uint8Array[];
    // All pages of a chunk share its dictionary.
    if (!codes || texts !== last) known = Float32Array.from(texts, codeOf);
    last = codes ? texts : null;
    for (let row = 0, next = 0; row < rows; row++) {
      if (present && present[row] === 0) found[at + row] = NaN;
      else {
        found[at + row] = known[codes ? codes[next] : next];
        next++;
      }
    }
    at += rows;
  });
  const classes = [...seen.keys()].sort();
  const place = new Float32Array(classes.length);
  classes.forEach((text, i) => place[seen.get(text)!] = i);
  return { classes, codes: found.map((code) => Number.isNaN(code) ? NaN : place[code]) };
}

function codesIn(packed: Page["codes"], count: number): Int32Array | null {
  if (packed === null) return null;
  const codes = new Int32Array(count);
  packed.read(codes, count);
  return codes;
}

class Found extends Error {}

function firstText(files: readonly ParquetFile[], column: ParquetColumn): string {
  let text = "";
  try {
    eachPage(files, column, ({ values, codes: packed, count }) => {
      const codes = codesIn(packed, Math.min(count, 1));
      const [first] = codes ? [(values as Uint8Array[])[codes[0]]] : values as Uint8Array[];
      if (!first) return;
      text = new TextDecoder().decode(first.subarray(0, 60));
      throw new Found();
    });
  } catch (error) {
    if (!(error instanceof Found)) throw error;
  }
  return text;
}

function eachPage(
  files: readonly ParquetFile[],
  { name, physical, optional }: ParquetColumn,
  use: (page: Page) => void,
): void {
  const window = openWindow();
  for (const { file, chunks, columns } of files) {
    // A file without a missing value may say so in its schema.
    const own = columns.find((column) => column.name === name)?.optional ?? optional;
    for (const { begin, bytes, codec, rows } of chunks.get(name)!) {
      try {
        const chunk = openChunk((into, at) => file.readInto(at, into), begin, bytes, window);
        for (const page of pagesOf(chunk, { physical, codec, optional: own, rows })) use(page);
      } catch (error) {
        if (!(error instanceof Damaged)) throw error;
        throw new UserError(
          "data",
          `${file.path}: the column "${name}" ${error.message}. Copy it again from where it came from.`,
          { cause: error },
        );
      }
    }
  }
}
