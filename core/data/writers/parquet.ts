// Writes a table as Parquet: required columns without nesting, plain values, a page for each column of a row
// group, packed by zstd. The footer is Thrift's compact protocol.
import { zstdCompressSync } from "node:zlib";
import { writeAll } from "../../base/atomic.ts";
import { VERSION } from "../../base/version.ts";

export interface ColumnToWrite {
  readonly name: string;
  readonly type: "i32" | "f32" | "f64" | "text";
  /** Callers read in rising order. */
  read(from: number, count: number): Int32Array | Float32Array | Float64Array | readonly string[];
}

interface ParquetTable {
  readonly rows: number;
  readonly columns: readonly ColumnToWrite[];
  /** Texts about the table, by name. */
  readonly about: Readonly<Record<string, string>>;
}

/** One row group has so many cells, and so many rows at most. */
const CELLS = 1 << 20, MOST_ROWS = 1 << 17;

const MAGIC = new TextEncoder().encode("PAR1");

export function writeParquet(file: Deno.FsFile, { rows, columns, about }: ParquetTable): void {
  let at = 0;
  const write = (bytes: Uint8Array) => {
    writeAll(file, bytes);
    at += bytes.length;
  };
  write(MAGIC);
  const each = Math.max(1, Math.min(MOST_ROWS, Math.floor(CELLS / columns.length)));
  const groups: Group[] = [];
  for (let from = 0; from < rows; from += each) {
    const count = Math.min(each, rows - from);
    const chunks = columns.map((column): Chunk => {
      const plain = plainBytes(column, from, count), packed = zstdCompressSync(plain);
      const header = pageHeader(count, plain.length, packed.length), begin = at;
      write(header);
      write(packed);
      return { column, begin, values: count, plain: header.length + plain.length, packed: at - begin };
    });
    groups.push({ rows: count, chunks });
  }
  const footer = footerOf({ rows, columns, about }, groups);
  write(footer);
  write(new Uint8Array(Uint32Array.of(footer.length).buffer));
  write(MAGIC);
}

function plainBytes({ type, read }: ColumnToWrite, from: number, count: number): Uint8Array {
  const values = read(from, count);
  if (type !== "text") {
    const { buffer, byteOffset, byteLength } = values as Int32Array;
    return new Uint8Array(buffer, byteOffset, byteLength);
  }
  const encoder = new TextEncoder();
  const texts = (values as readonly string[]).map((text) => encoder.encode(text));
  const bytes = new Uint8Array(texts.reduce((sum, { length }) => sum + 4 + length, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const text of texts) {
    view.setUint32(at, text.length, true);
    bytes.set(text, at + 4);
    at += 4 + text.length;
  }
  return bytes;
}

interface Chunk {
  readonly column: ColumnToWrite;
  readonly begin: number;
  readonly values: number;
  /** Both count the page's header. */
  readonly plain: number;
  readonly packed: number;
}

interface Group {
  readonly rows: number;
  readonly chunks: readonly Chunk[];
}

// The numbers of parquet.thrift.

const TYPES = { i32: 1, f32: 4, f64: 5, text: 6 } as const;
const REQUIRED = 0, UTF8 = 0, PLAIN = 0, RLE = 3, ZSTD = 6, DATA_PAGE = 0;

const pageHeader = (values: number, plain: number, packed: number): Uint8Array =>
  bytesOf(struct({
    1: i32(DATA_PAGE),
    2: i32(plain),
    3: i32(packed),
    5: struct({ 1: i32(values), 2: i32(PLAIN), 3: i32(RLE), 4: i32(RLE) }),
  }));

function footerOf({ rows, columns, about }: ParquetTable, groups: readonly Group[]): Uint8Array {
  const root = struct({ 4: text("schema"), 5: i32(columns.length) });
  const element = ({ name, type }: ColumnToWrite) => {
    const plain = { 1: i32(TYPES[type]), 3: i32(REQUIRED), 4: text(name) };
    return struct(type === "text" ? { ...plain, 6: i32(UTF8), 10: struct({ 1: struct({}) }) } : plain);
  };
  const chunkOf = ({ column: { name, type }, begin, values, plain, packed }: Chunk) =>
    struct({
      2: i64(begin),
      3: struct({
        1: i32(TYPES[type]),
        2: list(I32, [i32(PLAIN), i32(RLE)]),
        3: list(BINARY, [text(name)]),
        4: i32(ZSTD),
        5: i64(values),
        6: i64(plain),
        7: i64(packed),
        9: i64(begin),
      }),
    });
  const sum = (chunks: readonly Chunk[]) => chunks.reduce((sum, { plain }) => sum + plain, 0);
  return bytesOf(struct({
    1: i32(1),
    2: list(STRUCT, [root, ...columns.map(element)]),
    3: i64(rows),
    4: list(
      STRUCT,
      groups.map(({ rows, chunks }) =>
        struct({ 1: list(STRUCT, chunks.map(chunkOf)), 2: i64(sum(chunks)), 3: i64(rows) })
      ),
    ),
    5: list(STRUCT, Object.entries(about).map(([key, value]) => struct({ 1: text(key), 2: text(value) }))),
    6: text(`hpctrain version ${VERSION}`),
  }));
}

// Thrift's compact protocol.

const I32 = 5, I64 = 6, BINARY = 8, LIST = 9, STRUCT = 12;

interface Thrift {
  readonly kind: number;
  readonly bytes: readonly (number | Uint8Array)[];
}

/** Small numbers of either sign take few bytes. */
function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = BigInt(value);
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  return [...bytes, Number(rest)];
}

const zigzag = (value: number): number[] => varint(value >= 0 ? 2 * value : -2 * value - 1);

const i32 = (value: number): Thrift => ({ kind: I32, bytes: zigzag(value) });
const i64 = (value: number): Thrift => ({ kind: I64, bytes: zigzag(value) });

function text(value: string): Thrift {
  const bytes = new TextEncoder().encode(value);
  return { kind: BINARY, bytes: [...varint(bytes.length), bytes] };
}

function list(kind: number, items: readonly Thrift[]): Thrift {
  const head = items.length < 15 ? [items.length << 4 | kind] : [0xf0 | kind, ...varint(items.length)];
  return { kind: LIST, bytes: [...head, ...items.flatMap(({ bytes }) => bytes)] };
}

/** Fields come by their numbers, as keys of an object do. */
function struct(fields: Readonly<Record<number, Thrift>>): Thrift {
  let last = 0;
  const bytes = Object.entries(fields).flatMap(([id, { kind, bytes }]) => {
    const delta = Number(id) - last;
    last = Number(id);
    return [delta << 4 | kind, ...bytes];
  });
  return { kind: STRUCT, bytes: [...bytes, 0] };
}

function bytesOf({ bytes }: Thrift): Uint8Array {
  const made = new Uint8Array(
    bytes.reduce<number>((sum, part) => sum + (typeof part === "number" ? 1 : part.length), 0),
  );
  let at = 0;
  for (const part of bytes) {
    if (typeof part === "number") made[at++] = part;
    else {
      made.set(part, at);
      at += part.length;
    }
  }
  return made;
}
