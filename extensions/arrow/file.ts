// An Arrow file or stream: its columns, and where the buffers of each batch of rows lie.
import type { DType } from "../../ffi/dtype.ts";
import { UserError } from "../../core/base/errors.ts";
import type { FileBytes } from "../../core/base/file_bytes.ts";
import { OF_RECORDS, OTHER_LISTS } from "../../core/data/tables/pages.ts";

export interface ArrowColumn {
  readonly name: string;
  /** Numbers in each row; 1 but for lists of one length. */
  readonly count: number;
  readonly kind: "number" | "bool" | "text";
  /** The levels of lists whose sizes their offsets say, from the outside; the numbers lie behind these. */
  readonly lists: readonly { readonly wide: boolean }[];
  /** Bytes of a place in texts. */
  readonly wide: boolean;
  /** The type of the numbers, or of the codes where there is a dictionary. */
  readonly dtype: DType;
  /** Its number, and the texts in it. */
  readonly dictionary: { readonly id: number; readonly wide: boolean } | null;
  /** Its first buffer and node have these places among those of a batch. */
  readonly buffer: number;
  readonly node: number;
  readonly unusable?: string;
}

export interface RecordBatch {
  readonly rows: number;
  readonly nodes: readonly (readonly number[])[];
  /** Places in the file, and bytes. */
  readonly buffers: readonly (readonly number[])[];
  readonly codec: "none" | "lz4" | "zstd";
}

export interface ArrowFile {
  readonly file: FileBytes;
  readonly columns: readonly ArrowColumn[];
  readonly rows: number;
  readonly batches: readonly RecordBatch[];
  /** By number; a dictionary may grow from batch to batch. */
  readonly dictionaries: ReadonlyMap<number, readonly RecordBatch[]>;
}

const MAGIC = "ARROW1", TAIL = 10, OLD = "FEA1";
const MOST_METADATA = 256 * 2 ** 20, MOST_BATCHES = 2 ** 22, CONTINUED = 0xffffffff;
const SCHEMA = 1, DICTIONARY = 2, RECORDS = 3;

export function readArrow(file: FileBytes): ArrowFile {
  try {
    return content(file);
  } catch (error) {
    if (!(error instanceof BadTable)) throw error;
    throw damaged(file.path, "its metadata can't be understood");
  }
}

const damaged = (path: string, what: string) =>
  new UserError("data", `${path} is damaged or cut off: ${what}. Copy it again from where it came from.`);

const textAt = (file: FileBytes, at: number, length: number): string =>
  at < 0 || at + length > file.size ? "" : new TextDecoder("latin1").decode(file.read(at, length));

function content(file: FileBytes): ArrowFile {
  const { path, size } = file, start = textAt(file, 0, 6);
  if (start.startsWith(OLD)) {
    throw new UserError(
      "data",
      `${path} is Feather of version 1, which is no longer written. Convert it: ` +
        `python -c "import pandas as p; p.read_feather('${path}').to_parquet('NEW.parquet')".`,
    );
  }
  if (start !== MAGIC) return streamed(file);
  if (size < 8 + TAIL || textAt(file, size - 6, 6) !== MAGIC) {
    throw damaged(path, "it doesn't end with ARROW1");
  }
  const length = new DataView(file.read(size - TAIL, 4).buffer).getInt32(0, true);
  if (!(length > 0 && length <= Math.min(size - TAIL - 8, MOST_METADATA))) {
    throw damaged(path, "its footer has no place");
  }
  const footer = rootOf(file.read(size - TAIL - length, length));
  const schema = footer.table(1) ?? bad();
  const messagesAt = (field: number) =>
    footer.longs(field, 3).map(([at, metadata]) => messageAt(file, at, metadata % 2 ** 32));
  return assembled(file, schema, [...messagesAt(2), ...messagesAt(3)]);
}

function bad(): never {
  throw new BadTable();
}

interface Message {
  readonly kind: number;
  readonly header: FlatTable;
  readonly body: number;
  readonly end: number;
}

/** `length` has the mark and the size in front of the metadata, and what fills them up. */
function messageAt(file: FileBytes, at: number, length: number): Message {
  if (!(at >= 0 && length >= 8 && length <= MOST_METADATA && at + length <= file.size)) bad();
  const bytes = file.read(at, length), view = new DataView(bytes.buffer);
  const message = rootOf(bytes.subarray(view.getUint32(0, true) === CONTINUED ? 8 : 4));
  const body = at + length, end = body + message.long(3);
  if (!(end >= body && end <= file.size)) {
    throw damaged(file.path, `a batch should end at ${end}, and the file at ${file.size}`);
  }
  return { kind: message.byte(1), header: message.table(2) ?? bad(), body, end };
}

/** A stream has message after message, and no footer. */
function streamed(file: FileBytes): ArrowFile {
  const { path, size } = file, messages: Message[] = [];
  for (let at = 0; at + 8 <= size && messages.length < MOST_BATCHES;) {
    const view = new DataView(file.read(at, 8).buffer);
    if (view.getUint32(0, true) !== CONTINUED) break;
    const length = view.getUint32(4, true);
    if (length === 0) break;
    const message = messageAt(file, at, 8 + length);
    messages.push(message);
    at = message.end;
  }
  const [first, ...others] = messages;
  if (first?.kind !== SCHEMA) {
    throw new UserError(
      "data",
      `${path} is no Arrow file: it begins neither with ARROW1 nor with a schema. Check that it was copied as a whole.`,
    );
  }
  return assembled(file, first.header, others);
}

function assembled(file: FileBytes, schema: FlatTable, messages: readonly Message[]): ArrowFile {
  if (schema.short(0) !== 0) {
    throw new UserError(
      "data",
      `${file.path} has numbers of big-endian machines. Write it again with pyarrow.`,
    );
  }
  const batches: RecordBatch[] = [],
    dictionaries = new Map<number, RecordBatch[]>(),
    changed = new Set<number>();
  for (const { kind, header, body, end } of messages) {
    if (kind === RECORDS) batches.push(batchOf(file.path, header, body, end));
    if (kind !== DICTIONARY) continue;
    const id = header.long(0), known = dictionaries.get(id) ?? [];
    if (known.length > 0 && !header.flag(2)) changed.add(id);
    dictionaries.set(id, [...known, batchOf(file.path, header.table(1) ?? bad(), body, end)]);
  }
  const columns = columnsOf(schema.tables(1)).map((column) =>
    column.dictionary && changed.has(column.dictionary.id)
      ? { ...column, unusable: "has a dictionary that changes on the way: write the file again with pyarrow" }
      : column
  );
  const rows = batches.reduce((sum, batch) => sum + batch.rows, 0);
  if (!Number.isSafeInteger(rows)) bad();
  return { file, columns, rows, batches, dictionaries };
}

function batchOf(path: string, header: FlatTable, body: number, end: number): RecordBatch {
  const rows = header.long(0),
    compression = header.table(3),
    codec = compression ? compression.byte(0) : -1;
  if (!(rows >= 0) || codec > 1) bad();
  const buffers = header.longs(2, 2).map(([at, bytes]) => {
    if (!(at >= 0 && bytes >= 0 && body + at + bytes <= end)) {
      throw damaged(path, "a buffer lies outside of its batch");
    }
    return [body + at, bytes];
  });
  return {
    rows,
    nodes: header.longs(1, 2),
    buffers,
    codec: codec < 0 ? "none" : codec === 0 ? "lz4" : "zstd",
  };
}

const INT = 2, FLOAT = 3, UTF8 = 5, BOOL = 6, FIXED_LIST = 16, LARGE_UTF8 = 20;
const LIST = 12, STRUCT = 13, LARGE_LIST = 21;
/** A list of lists is the deepest. */
const MOST_LEVELS = 2;
const LISTS = [12, 13, 14, 17, 21, 22, 25, 26],
  TIMES = [8, 9, 10, 11, 18],
  VIEWS = [23, 24],
  DECIMAL = 7,
  NULL = 1;
/** Buffers of a type's own, without its children's; others have two. */
const BUFFERS: Readonly<Record<number, number>> = {
  ...{ [NULL]: 0, 4: 3, [UTF8]: 3, 13: 1, [FIXED_LIST]: 1, 19: 3, [LARGE_UTF8]: 3, 22: 0, 25: 3, 26: 3 },
};

function columnsOf(fields: readonly FlatTable[]): ArrowColumn[] {
  let buffer = 0, node = 0, lost = false;
  const skip = (field: FlatTable, depth = 0): void => {
    if (depth > 64) bad();
    const type = field.byte(2);
    node++;
    if (field.table(4)) {
      buffer += 2;
      return;
    }
    // The number of a view's buffers, and of a union's, is another in each file.
    if (VIEWS.includes(type) || type === 14) lost = true;
    buffer += BUFFERS[type] ?? 2;
    for (const child of field.tables(5)) skip(child, depth + 1);
  };
  return fields.map((field) => {
    const places = { buffer, node }, where = lost;
    skip(field);
    const column = { ...columnOf(field), ...places };
    return where && !column.unusable ? { ...column, unusable: BEHIND } : column;
  });
}

const BEHIND =
  "lies behind a column of views or unions: write that one elsewhere, or leave it out of the file";
const DATES = "holds dates or times: write them as numbers, df['x'].astype('int64')";

function columnOf(field: FlatTable): Omit<ArrowColumn, "buffer" | "node"> {
  const name = field.text(0),
    type = field.byte(2),
    about = field.table(3) ?? bad(),
    coded = field.table(4);
  const plain = {
    name,
    count: 1,
    kind: "number",
    lists: [],
    wide: false,
    dtype: "f32",
    dictionary: null,
  } as const;
  const not = (unusable: string) => ({ ...plain, unusable });
  if (coded) {
    const index = coded.table(1), dtype = index ? intOf(index) : "i32";
    if (type !== UTF8 && type !== LARGE_UTF8) {
      return not("has a dictionary of other values than texts: write the values themselves");
    }
    return { ...plain, kind: "text", dtype, dictionary: { id: coded.long(0), wide: type === LARGE_UTF8 } };
  }
  if (type === FIXED_LIST) {
    const [child] = field.tables(5), inside = child && columnOf(child), count = about.number(0);
    const isFlat = inside?.kind === "number" && !inside.unusable && inside.count === 1 && count > 0;
    return isFlat && inside.lists.length === 0 ? { ...inside, name, count } : not(OTHER_LISTS);
  }
  if (type === LIST || type === LARGE_LIST) {
    const [child] = field.tables(5), inside = child && columnOf(child);
    const isFlat = inside?.kind === "number" && !inside.unusable && inside.count === 1;
    return isFlat && inside.lists.length < MOST_LEVELS
      ? { ...inside, name, lists: [{ wide: type === LARGE_LIST }, ...inside.lists] }
      : not(OTHER_LISTS);
  }
  switch (type) {
    case INT:
      return { ...plain, dtype: intOf(about) };
    case FLOAT:
      return { ...plain, dtype: (["f16", "f32", "f64"] as const)[about.short(0)] ?? bad() };
    case BOOL:
      return { ...plain, kind: "bool", dtype: "bool" };
    case UTF8:
    case LARGE_UTF8:
      return { ...plain, kind: "text", wide: type === LARGE_UTF8 };
  }
  if (TIMES.includes(type)) return not(DATES);
  if (LISTS.includes(type)) {
    return not(type === STRUCT ? OF_RECORDS : OTHER_LISTS);
  }
  if (VIEWS.includes(type)) return not("holds views of texts: write it as texts, cast(pyarrow.string())");
  return not(
    type === DECIMAL
      ? "holds decimals: write it as floats, df['x'].astype('float64')"
      : "holds bytes, not numbers",
  );
}

function intOf(about: FlatTable): DType {
  const bits = about.number(0);
  return [8, 16, 32, 64].includes(bits) ? `${about.flag(1) ? "i" : "u"}${bits}` as DType : bad();
}

/** The metadata can't be right. */
class BadTable extends Error {}

interface FlatTable {
  /** A field without a value is 0. */
  byte(field: number): number;
  short(field: number): number;
  number(field: number): number;
  long(field: number): number;
  flag(field: number): boolean;
  text(field: number): string;
  table(field: number): FlatTable | null;
  tables(field: number): readonly FlatTable[];
  /** Numbers of 64 bits in a list of structs of `count` each. */
  longs(field: number, count: number): readonly (readonly number[])[];
}

const MOST = 2 ** 22;

export function openFlatTable(view: DataView, at: number): FlatTable {
  const inside = (place: number, bytes: number): number => {
    if (!(place >= 0 && place + bytes <= view.byteLength)) throw new BadTable();
    return place;
  };
  const u32 = (place: number) => view.getUint32(inside(place, 4), true);
  const i64 = (place: number) => Number(view.getBigInt64(inside(place, 8), true));
  const table = at, fields = table - view.getInt32(inside(table, 4), true);
  const size = view.getUint16(inside(fields, 2), true);
  const placeOf = (field: number): number => {
    const entry = 4 + 2 * field;
    if (entry + 2 > size) return 0;
    const offset = view.getUint16(inside(fields + entry, 2), true);
    return offset === 0 ? 0 : table + offset;
  };
  const listAt = (field: number, bytes: number) => {
    const place = placeOf(field);
    if (place === 0) return { first: 0, count: 0 };
    const list = place + u32(place), count = u32(list);
    if (count > MOST) throw new BadTable();
    inside(list + 4, count * bytes);
    return { first: list + 4, count };
  };
  const each = <T>(field: number, bytes: number, read: (place: number) => T): T[] => {
    const { first, count } = listAt(field, bytes);
    return Array.from({ length: count }, (_, i) => read(first + i * bytes));
  };
  return {
    byte(field) {
      const place = placeOf(field);
      return place === 0 ? 0 : view.getUint8(inside(place, 1));
    },
    short(field) {
      const place = placeOf(field);
      return place === 0 ? 0 : view.getUint16(inside(place, 2), true);
    },
    number(field) {
      const place = placeOf(field);
      return place === 0 ? 0 : view.getInt32(inside(place, 4), true);
    },
    long(field) {
      const place = placeOf(field);
      return place === 0 ? 0 : i64(place);
    },
    flag(field) {
      const place = placeOf(field);
      return place !== 0 && view.getUint8(inside(place, 1)) !== 0;
    },
    text(field) {
      const { first, count } = listAt(field, 1);
      return new TextDecoder().decode(
        new Uint8Array(view.buffer as ArrayBuffer, view.byteOffset + first, count),
      );
    },
    table(field) {
      const place = placeOf(field);
      return place === 0 ? null : openFlatTable(view, place + u32(place));
    },
    tables: (field) => each(field, 4, (place) => openFlatTable(view, place + u32(place))),
    longs: (field, count) =>
      each(field, 8 * count, (place) => Array.from({ length: count }, (_, i) => i64(place + 8 * i))),
  };
}

export const rootOf = (bytes: Uint8Array): FlatTable => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 8) throw new BadTable();
  return openFlatTable(view, view.getUint32(0, true));
};
