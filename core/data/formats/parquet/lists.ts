// Columns of lists: a series in each row, [T], or one of several channels, [T, C]. Levels of nesting are put
// together by hyparquet; that all rows have one shape is checked here.
import {
  type ColumnMetaData,
  getSchemaPath,
  readColumn,
  type SchemaElement,
} from "../../../../deps/hyparquet.ts";
import type { DType } from "../../../../ffi/dtype.ts";
import { type ChunkBytes, refuseDamaged } from "../../codecs/bytes.ts";
import type { ColumnPage } from "../../tables/pages.ts";
import { isKnownCodec, unpackPage } from "./packed.ts";
import { headerAt, type StoredChunk } from "./pages.ts";

export interface ListChunk {
  readonly rows: number;
  readonly begin: number;
  readonly bytes: number;
  readonly about: ColumnMetaData;
}

/** A list of lists is the deepest. */
const MOST_LEVELS = 2;

/** The path of the numbers inside; null where there are none, or several columns of them. */
export function pathOfLists(schema: readonly SchemaElement[], at: number): string[] | null {
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
export function firstSizes(
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
