// The footer of a Parquet file: which columns it has, of which types, and where their chunks lie.
import {
  type ColumnMetaData,
  type FileMetaData,
  getSchemaPath,
  parquetMetadata,
  readColumn,
  type SchemaElement,
} from "../../../../deps/hyparquet.ts";
import type { DType } from "../../../../ffi/dtype.ts";
import { UserError } from "../../../base/errors.ts";
import type { FileBytes } from "../../../base/file_bytes.ts";
import type { FileMark } from "../../arrays/rows.ts";
import { markOf } from "../../arrays/files.ts";
import { type ChunkBytes, Damaged, refuseDamaged } from "../../codecs/bytes.ts";
import { type ColumnPage, OF_RECORDS, OTHER_LISTS, unevenLists } from "../../tables/pages.ts";
import { isKnownCodec, unpackPage } from "./packed.ts";
import { headerAt, type Physical, type StoredChunk } from "./pages.ts";

export interface ParquetColumn {
  readonly name: string;
  readonly physical: Physical;
  /** Texts have none. */
  readonly dtype: DType | null;
  readonly optional: boolean;
  /** The path of the numbers, and the sizes of each row's list. */
  readonly lists?: { readonly path: string[]; readonly sizes: readonly number[] };
  /** The reason follows the column's name. */
  readonly unusable?: string;
}

interface ParquetChunk {
  readonly rows: number;
  readonly begin: number;
  readonly bytes: number;
  readonly codec: string;
  /** Null where the writer did not count. */
  readonly missing: number | null;
}

export interface ParquetFile {
  readonly file: FileBytes;
  readonly mark: FileMark;
  readonly rows: number;
  readonly columns: readonly ParquetColumn[];
  /** By the column's name, a chunk for each row group. */
  readonly chunks: ReadonlyMap<string, readonly ParquetChunk[]>;
  readonly listChunks: ReadonlyMap<string, readonly ListChunk[]>;
  readonly schema: readonly SchemaElement[];
}

const MAGIC = 0x31524150, TAIL = 8, MOST_FOOTER = 256 * 2 ** 20;

export function readFooter(file: FileBytes): ParquetFile {
  const { path, size } = file;
  const tail = size >= TAIL + 4 ? file.read(size - TAIL, TAIL) : new Uint8Array(TAIL);
  const view = new DataView(tail.buffer), length = view.getUint32(0, true);
  if (view.getUint32(4, true) !== MAGIC) {
    throw new UserError(
      "data",
      `${path} is no Parquet file, or is cut off: it doesn't end with PAR1. Copy it again from where it came from.`,
    );
  }
  if (length > size - TAIL || length > MOST_FOOTER) throw damagedFooter(path);
  let found: FileMetaData;
  try {
    found = parquetMetadata(file.read(size - TAIL - length, length + TAIL), { geoparquet: false });
  } catch {
    throw damagedFooter(path);
  }
  return contentOf(file, found);
}

const damagedFooter = (path: string) =>
  new UserError(
    "data",
    `${path} is damaged: its footer can't be read. Copy it again from where it came from.`,
  );

function contentOf(file: FileBytes, { schema, row_groups }: FileMetaData): ParquetFile {
  const columns: ParquetColumn[] = [];
  // The root is first; what has children is followed by them.
  const skip = (at: number): number => {
    let next = at + 1;
    for (let i = 0; i < (schema[at]?.num_children ?? 0) && next < schema.length; i++) next = skip(next);
    return next;
  };
  const paths = new Map<string, string[]>();
  for (let at = 1; at < schema.length; at = skip(at)) {
    const path = pathOfLists(schema, at);
    if (path) paths.set(schema[at].name, path);
    columns.push(columnOf(schema[at]));
  }
  const listChunks = new Map<string, ListChunk[]>([...paths.keys()].map((name) => [name, []]));
  const chunks = new Map<string, ParquetChunk[]>(columns.map(({ name }) => [name, []]));
  let rows = 0;
  for (const group of row_groups) {
    const count = Number(group.num_rows);
    if (!(count >= 0 && Number.isSafeInteger(rows += count))) throw damagedFooter(file.path);
    for (const { meta_data, file_path } of group.columns) {
      if (!meta_data || file_path) throw damagedFooter(file.path);
      const { path_in_schema: [name, ...inside] } = meta_data;
      const lists = listChunks.get(name);
      if (lists) lists.push({ rows: count, ...placeOf(file, meta_data), about: meta_data });
      else if (inside.length === 0) chunks.get(name)?.push(chunkOf(file, meta_data, count));
    }
  }
  // Each row group has a chunk of each column.
  const whole = columns.every(({ name, unusable }) =>
    unusable || chunks.get(name)!.length === row_groups.length
  );
  if (!whole || chunks.size < columns.length) throw damagedFooter(file.path);
  return {
    file,
    mark: markOf(file.path),
    rows,
    chunks,
    listChunks,
    schema,
    columns: columns.map((column) => {
      const path = paths.get(column.name);
      if (path) return listColumn(file, schema, column.name, path, listChunks.get(column.name)!);
      const codec = chunks.get(column.name)!.find(({ codec }) => !isKnownCodec(codec))?.codec;
      return column.unusable || codec === undefined ? column : {
        ...column,
        unusable: unknownCodec(codec),
      };
    }),
  };
}

/** All rows have lists of the first one's sizes, or the column can't be used. */
function listColumn(
  file: FileBytes,
  schema: readonly SchemaElement[],
  name: string,
  path: string[],
  chunks: readonly ListChunk[],
): ParquetColumn {
  const leaf = getSchemaPath(schema as SchemaElement[], path).at(-1)!.element;
  const column = columnOf({ ...leaf, name, repetition_type: "OPTIONAL" });
  const not = (unusable: string): ParquetColumn => ({ ...column, dtype: null, unusable });
  if (column.unusable || column.dtype === null) return not(OTHER_LISTS);
  const [first] = chunks.filter(({ rows }) => rows > 0);
  if (!first) return not("holds lists, and has no row");
  const odd = chunks.find(({ about: { codec } }) => !isKnownCodec(codec))?.about.codec;
  if (odd !== undefined) return not(unknownCodec(odd));
  let sizes: number[];
  try {
    sizes = firstSizes(schema, path, first, (into, at) => file.readInto(at, into));
  } catch (error) {
    if (!(error instanceof Damaged)) throw error;
    return not(error.message);
  }
  const each = sizes.reduce((a, b) => a * b, 1);
  const uneven = each === 0 || chunks.some(({ rows, about }) => Number(about.num_values) !== rows * each);
  return uneven ? not(unevenLists(name)) : { ...column, lists: { path, sizes } };
}

const unknownCodec = (codec: string): string =>
  `is packed by ${codec}, which can't be read here: write it with compression="zstd"`;

function placeOf({ path, size }: FileBytes, about: ColumnMetaData): { begin: number; bytes: number } {
  const data = Number(about.data_page_offset), dictionary = Number(about.dictionary_page_offset ?? 0);
  const begin = dictionary > 0 ? Math.min(data, dictionary) : data,
    bytes = Number(about.total_compressed_size);
  if (!(begin >= 0 && bytes >= 0 && begin + bytes <= size)) {
    throw new UserError(
      "data",
      `${path} is damaged or cut off: its column "${about.path_in_schema[0]}" should lie at ${begin} to ` +
        `${begin + bytes}, and the file ends at ${size}. Copy it again from where it came from.`,
    );
  }
  return { begin, bytes };
}

function chunkOf(file: FileBytes, about: ColumnMetaData, rows: number): ParquetChunk {
  const { begin, bytes } = placeOf(file, about), { path } = file;
  if (Number(about.num_values) !== rows) throw damagedFooter(path);
  const { null_count } = about.statistics ?? {};
  return {
    rows,
    begin,
    bytes,
    codec: about.codec ?? "an unknown codec",
    missing: null_count === undefined ? null : Number(null_count),
  };
}

const DATES = "holds dates or times: write them as numbers, df['x'].astype('int64')";

function columnOf(element: SchemaElement): ParquetColumn {
  const { name, type, converted_type: old, logical_type: kind, repetition_type } = element;
  const column = (physical: Physical, dtype: DType | null) => ({
    name,
    physical,
    dtype,
    optional: repetition_type !== "REQUIRED",
  });
  const not = (unusable: string): ParquetColumn => ({ ...column("INT32", null), unusable });
  if (type === undefined || repetition_type === "REPEATED") {
    return not(OF_RECORDS);
  }
  const time = kind?.type === "DATE" || kind?.type === "TIME" || kind?.type === "TIMESTAMP";
  if (time || type === "INT96" || /^(DATE|TIME)/.test(old ?? "")) return not(DATES);
  if (old === "DECIMAL" || kind?.type === "DECIMAL") {
    return not("holds decimals: write it as floats, df['x'].astype('float64')");
  }
  const bits = kind?.type === "INTEGER" ? kind.bitWidth : Number(/^U?INT_(\d+)$/.exec(old ?? "")?.[1] ?? NaN);
  const sign = (kind?.type === "INTEGER" ? kind.isSigned : !old?.startsWith("UINT")) ? "i" : "u";
  switch (type) {
    case "BOOLEAN":
      return column("BOOLEAN", "bool");
    case "INT32":
      return column("INT32", `${sign}${bits || 32}` as DType);
    case "INT64":
      return column("INT64", `${sign}64` as DType);
    case "FLOAT":
      return column("FLOAT", "f32");
    case "DOUBLE":
      return column("DOUBLE", "f64");
    case "FIXED_LEN_BYTE_ARRAY":
      return kind?.type === "FLOAT16" && element.type_length === 2
        ? column("HALF", "f16")
        : not("holds bytes, not numbers");
    default:
      return old === "UTF8" || old === "ENUM" || kind?.type === "STRING" || kind?.type === "ENUM"
        ? column("TEXT", null)
        : not("holds bytes, not numbers");
  }
}

interface ListChunk {
  readonly rows: number;
  readonly begin: number;
  readonly bytes: number;
  readonly about: ColumnMetaData;
}

/** A list of lists is the deepest. */
const MOST_LEVELS = 2;

/** The path of the numbers inside; null where there are none, or several columns of them. */
function pathOfLists(schema: readonly SchemaElement[], at: number): string[] | null {
  const path: string[] = [];
  let repeated = 0;
  for (let element = schema[at]; element; element = schema[++at]) {
    path.push(element.name);
    if (element.repetition_type === "REPEATED") repeated++;
    const children = element.num_children ?? 0;
    if (children > 1 || repeated > MOST_LEVELS) return null;
    // Each list is two steps below what it is in, or one as old writers have it; a record is none.
    if (children === 0) {
      return repeated > 0 && [2 * repeated, repeated].includes(path.length - 1) ? path : null;
    }
  }
  return null;
}

type Read = (into: Uint8Array, at: number) => void;

/** The sizes of the first row's lists. `read` fills bytes from a place of the file on. */
function firstSizes(
  schema: readonly SchemaElement[],
  path: string[],
  chunk: ListChunk,
  read: Read,
): number[] {
  const stored: StoredChunk = {
    length: chunk.bytes,
    bytes(at, count) {
      const into = new Uint8Array(count);
      read(into, chunk.begin + at);
      return into;
    },
  };
  // A row ends where the next one begins, so pages are read until there are two, or no more.
  for (let at = 0; at < chunk.bytes;) {
    at = pageEnd(stored, at, chunk);
    const rows = rowsIn(schema, path, chunk, stored.bytes(0, Math.min(at, chunk.bytes)));
    if (rows.length > 1 || (rows.length === 1 && at >= chunk.bytes)) {
      return sizesOf(rows[0], stepsOf(schema, path));
    }
  }
  return [];
}

/** A damaged header must cost neither memory nor time: hyparquet believes what it says. */
function pageEnd(stored: StoredChunk, at: number, { about }: ListChunk): number {
  const { header, bytes } = headerAt(stored, at);
  const values = header.data_page_header?.num_values ?? header.data_page_header_v2?.num_values ??
    header.dictionary_page_header?.num_values ?? 0;
  const end = at + bytes + header.compressed_page_size;
  if (!(header.compressed_page_size >= 0 && end <= stored.length)) {
    refuseDamaged("has a page that is cut off");
  }
  if (!(values >= 0 && values <= Number(about.num_values))) {
    refuseDamaged("has a page of more values than it has");
  }
  return end;
}

/** Around a number lie, from the outside, lists and arrays of one that stand for what may be missing. */
type Step = "list" | "one";

const stepsOf = (schema: readonly SchemaElement[], path: string[]): Step[] =>
  getSchemaPath(schema as SchemaElement[], path).slice(1).flatMap(({ element, children }): Step[] =>
    element.repetition_type === "REPEATED"
      ? ["list"]
      : element.repetition_type === "OPTIONAL" && children.length > 0
      ? ["one"]
      : []
  );

function sizesOf(row: unknown, steps: readonly Step[]): number[] {
  const sizes: number[] = [];
  let inside = row;
  for (const step of steps) {
    if (!Array.isArray(inside)) return [];
    if (step === "list") sizes.push(inside.length);
    inside = inside[0];
  }
  return sizes;
}

export function listPage(
  schema: readonly SchemaElement[],
  path: string[],
  chunk: ListChunk,
  sizes: readonly number[],
  dtype: DType,
  read: Read,
): ColumnPage {
  const bytes = new Uint8Array(chunk.bytes);
  read(bytes, chunk.begin);
  const rows = rowsIn(schema, path, chunk, bytes), each = sizes.reduce((a, b) => a * b, 1);
  if (rows.length !== chunk.rows) refuseDamaged("has another number of lists than rows");
  const array = dtype === "i64" || dtype === "u64" ? BigInt64Array : Float64Array;
  const values = new (array as Float64ArrayConstructor)(rows.length * each);
  const steps = stepsOf(schema, path);
  let at = 0;
  const put = (inside: unknown, step: number, level: number): void => {
    if (step === steps.length) return void (values[at++] = numberIn(inside, dtype));
    const isList = steps[step] === "list";
    if (!Array.isArray(inside) || inside.length !== (isList ? sizes[level] : 1)) {
      refuseDamaged(`has a row whose list is not as long as the first row's, ${sizes.join(" x ")}`);
    }
    for (const one of inside as unknown[]) put(one, step + 1, isList ? level + 1 : level);
  };
  for (const row of rows) put(row, 0, 0);
  return { rows: rows.length, present: null, values, codes: null };
}

function numberIn(value: unknown, dtype: DType): number {
  if (typeof value === "number" || typeof value === "bigint") return value as number;
  if (typeof value === "boolean") return Number(value);
  return dtype.startsWith("f") ? NaN : refuseDamaged("has gaps in its lists, which whole numbers can't show");
}

function rowsIn(
  schema: readonly SchemaElement[],
  path: string[],
  chunk: ListChunk,
  bytes: Uint8Array<ArrayBuffer>,
): unknown[] {
  const { about, rows } = chunk;
  const stored = { length: bytes.length, bytes: (at: number, count: number) => bytes.slice(at, at + count) };
  for (let at = 0; at < bytes.length;) at = pageEnd(stored, at, chunk);
  const schemaPath = getSchemaPath(schema as SchemaElement[], path), { element } = schemaPath.at(-1)!;
  const codec = about.codec;
  const unpack = (packed: Uint8Array, length: number) => {
    const into = new Uint8Array(length);
    return unpackPage(codec, packed as ChunkBytes, into)
      ? into
      : refuseDamaged("has a page that can't be unpacked");
  };
  const decoder = {
    pathInSchema: path,
    type: element.type!,
    element,
    schemaPath,
    codec,
    parsers: {} as never,
  };
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
  try {
    const compressors = isKnownCodec(codec) && codec !== "UNCOMPRESSED" ? { [codec]: unpack } : {};
    const { data } = readColumn(reader, { groupStart: 0, groupRows: rows, selectStart: 0, selectEnd: rows }, {
      ...decoder,
      compressors,
    });
    return data.flatMap((part) => Array.from(part as ArrayLike<unknown>));
  } catch {
    return refuseDamaged("has lists that can't be read");
  }
}
