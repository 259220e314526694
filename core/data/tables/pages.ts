// Tables whose columns come page by page, such as Parquet's and Arrow's, from one file or from several.
import { basename } from "../../../deps/path.ts";
import { type DType, dtypeBytes, isFloating } from "../../../ffi/dtype.ts";
import { UserError } from "../../base/errors.ts";
import { Damaged, refuseDamaged } from "../codecs/bytes.ts";
import { ARRAYS, bytesOf, type SampleNumbers as ReadNumbers } from "../arrays/numbers.ts";
import type { DataRequest, Sources, TableFile } from "../format.ts";
import { type Column, unreachable } from "../arrays/table.ts";
import { fromColumns } from "./columns.ts";
import { fileVariable, toColumn, withFile } from "../arrays/variables.ts";
import type { Rows } from "../arrays/rows.ts";

export type PageNumbers = ReadNumbers | Float16Array;

/** Values are what is stored; `codes` say which of them the rows have that are there, or all in turn. */
export interface ColumnPage {
  readonly rows: number;
  /** 1 marks a value that is there; null means that all are. */
  readonly present: Uint8Array | null;
  readonly values: PageNumbers | readonly Uint8Array[];
  readonly codes: Int32Array | null;
}

export interface PagedColumn {
  readonly name: string;
  /** Messages say so. */
  readonly type: string;
  /** Texts have none. */
  readonly dtype: DType | null;
  /** Numbers in each row. */
  readonly count: number;
  /** The sizes of a row that is a list of lists; other rows have one size, or none. */
  readonly sizes?: readonly number[];
  /** Some values may be missing. */
  readonly missing: boolean;
  readonly unusable?: string;
  /** Single rows, or why they have no place of their own. */
  rows(): Rows | string;
  eachPage(use: (page: ColumnPage) => void): void;
}

export interface PagedFile {
  readonly path: string;
  readonly rows: number;
  readonly columns: readonly PagedColumn[];
}

/** `name` is the format's. */
export const tableOf = (path: string, name: string, files: readonly PagedFile[]): TableFile => ({
  path,
  kind: files.length > 1 ? `${files.length} ${name} files` : `${name} file`,
  noun: "column",
  columns: tableColumns(files),
});

export function openPagedTable(table: TableFile, files: readonly PagedFile[], request: DataRequest): Sources {
  const counted = files.map(({ path, rows }) => ({ path, samples: rows }));
  const file = files.length > 1 ? toColumn(fileVariable(counted, null), false) : null;
  return fromColumns({ ...table, columns: withFile<Column>(table.columns, file) }, request);
}

/** The rows of each file follow those of the file before. */
function tableColumns(files: readonly PagedFile[]): Column[] {
  const [first, ...others] = files;
  for (const other of others) assertAlike(first, other);
  const rows = files.reduce((sum, file) => sum + file.rows, 0);
  return first.columns.map(({ name }) => {
    const parts = files.map(({ path, rows, columns }) => ({
      path,
      rows,
      column: columns.find((column) => column.name === name)!,
    }));
    return columnOf(parts, rows);
  });
}

function assertAlike(first: PagedFile, { path, columns }: PagedFile): void {
  for (const column of first.columns) {
    const other = columns.find(({ name }) => name === column.name);
    const same = other && other.type === column.type && other.count === column.count;
    if (same && `${other.sizes}` === `${column.sizes}`) continue;
    throw new UserError(
      "data",
      `${path} has ${
        other ? `the column "${column.name}" as ${typeText(other)}` : `no column "${column.name}"`
      }, but ` +
        `${basename(first.path)} has it${
          other ? ` as ${typeText(column)}` : ""
        }: files of one folder are one table. ` +
        "Move it elsewhere, or write it again like the others.",
    );
  }
}

const typeText = ({ type, count, sizes = [count] }: PagedColumn): string =>
  count === 1 ? type : `${sizes.join(" x ")} of ${type}`;

interface Part {
  readonly path: string;
  readonly rows: number;
  readonly column: PagedColumn;
}

/** pandas writes the names of rows into such a column. */
const INDEX = /^__index_level_\d+__$/;

function columnOf(parts: readonly Part[], rows: number): Column {
  const [{ column: { name, dtype: raw, count, sizes } }] = parts;
  const unusable = parts.find(({ column }) => column.unusable)?.column.unusable;
  const shape = [rows, ...sizes ?? (count === 1 ? [] : [count])];
  const plain = { name, shape, onlyByName: unusable !== undefined || INDEX.test(name) };
  if (unusable) return { ...plain, dtype: "f32", unusable, read: unreachable };
  if (raw === null) {
    let found: Texts | undefined;
    const all = () => found ??= readTexts(parts, rows);
    return {
      ...plain,
      dtype: "f32",
      read: () => all().codes,
      text: {
        get example() {
          return `"${firstText(parts)}"`;
        },
        classes: () => all().classes,
      },
    };
  }
  const missing = parts.some(({ column }) => column.missing);
  // A float of the same or twice the size holds each value and NaN; i64 and u64 beyond 2^53 are rounded.
  const dtype = !missing || isFloating(raw) && raw !== "f16" ? raw : dtypeBytes(raw) <= 2 ? "f32" : "f64";
  return {
    ...plain,
    dtype,
    whole: !isFloating(raw),
    read: () => readNumbers(parts, raw, dtype, rows * count),
    stream: { rows: () => rowsOf(parts), raw, rule: null },
  };
}

function rowsOf(parts: readonly Part[]): Rows | string {
  const starts = [0], found: Rows[] = [];
  for (const { rows, column } of parts) {
    const own = column.rows();
    if (typeof own === "string") return own;
    found.push(own);
    starts.push(starts.at(-1)! + rows);
  }
  return found.length === 1 ? found[0] : { layout: "parts", starts, parts: found };
}

/** Beside the column no more is held than one chunk as it is stored, and a page of it. */
function readNumbers(parts: readonly Part[], raw: DType, dtype: DType, total: number): ArrayBufferView {
  const array = ARRAYS[dtype as keyof typeof ARRAYS] as Float64ArrayConstructor;
  const whole = new array(total), width = array.BYTES_PER_ELEMENT;
  // Missing values keep it.
  if (isFloating(dtype)) whole.fill(NaN);
  let at = 0, last: ColumnPage["values"] | null = null, numbers: Float64Array = new array(0);
  eachPage(parts, ({ rows, present, values, codes }, { count }) => {
    if (present && !isFloating(dtype)) {
      refuseDamaged("has missing values, and its footer says that it has none");
    }
    // All pages of a chunk share its dictionary.
    if (values !== last) numbers = convertedTo(array, last = values, raw);
    if (!present && !codes) whole.set(numbers, at);
    else if (width >= 4) scatter(asWords(numbers), asWords(whole), width / 4, at, rows, present, codes);
    else scatter(bytesOf(numbers), bytesOf(whole), width, at, rows, present, codes);
    at += rows * count;
  });
  return whole;
}

/** The types of a column and its pages differ where a float stands for a whole number, or a sign is another. */
function convertedTo(
  array: Float64ArrayConstructor,
  values: ColumnPage["values"],
  raw: DType,
): Float64Array {
  if (values instanceof array) return values;
  const floats = (array as unknown) !== BigUint64Array;
  if ((values instanceof BigInt64Array || values instanceof BigUint64Array) && floats) {
    return array.from(
      values as BigInt64Array,
      (value) => Number(raw === "u64" ? BigInt.asUintN(64, value) : value),
    );
  }
  if (raw === "u32" && values instanceof Int32Array && (array as unknown) !== Uint32Array) {
    return array.from(values, (value) => value >>> 0);
  }
  return new array(values as Int32Array);
}

const asWords = ({ buffer, byteOffset, byteLength }: ArrayBufferView) =>
  new Int32Array(buffer, byteOffset, byteLength / 4);

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

function readTexts(parts: readonly Part[], rows: number): Texts {
  const seen = new Map<string, number>(), found = new Float32Array(rows);
  const decoder = new TextDecoder();
  const codeOf = (bytes: Uint8Array): number => {
    const text = decoder.decode(bytes), known = seen.get(text);
    if (known !== undefined) return known;
    if (seen.size === MOST_TEXTS) {
      throw new UserError(
        "data",
        `${parts[0].path}: the column "${
          parts[0].column.name
        }" has more than ${MOST_TEXTS} different texts, which are no ` +
          "classes. Leave it out by naming the others with --features and --targets.",
      );
    }
    seen.set(text, seen.size);
    return seen.size - 1;
  };
  let at = 0, last: ColumnPage["values"] | null = null, known = new Float32Array(0);
  eachPage(parts, ({ rows, present, values, codes }) => {
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

class Found extends Error {}

function firstText(parts: readonly Part[]): string {
  let text = "";
  try {
    eachPage(parts, ({ values, codes }) => {
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

function eachPage(parts: readonly Part[], use: (page: ColumnPage, column: PagedColumn) => void): void {
  for (const { path, column } of parts) {
    try {
      column.eachPage((page) => use(page, column));
    } catch (error) {
      if (!(error instanceof Damaged)) throw error;
      throw new UserError(
        "data",
        `${path}: the column "${column.name}" ${error.message}. Copy it again from where it came from.`,
        { cause: error },
      );
    }
  }
}

/** The line makes a column of each field. */
export const OF_RECORDS =
  "holds records: make a column of each field, df = df.drop(columns='x').join(pd.json_normalize(df['x']))";

export const OTHER_LISTS =
  "holds lists of other things than numbers: leave it out, or write numbers in their place";

export const unevenLists = (name: string): string =>
  "holds lists of several lengths, or empty ones: give all one length, " +
  `n = df['${name}'].map(len).max(); df['${name}'] = df['${name}'].map(lambda v: list(v) + [0] * (n - len(v)))`;
