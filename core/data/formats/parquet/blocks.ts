// Row groups of some columns become rows of numbers side by side, a block of rows after the other: what is
// written stays in the processor's cache until all columns are there. Threads share the row groups.
import { bytesAt, type MemoryBlock } from "../../../../ffi/libc.ts";
import type { DType } from "../../../../ffi/dtype.ts";
import type { FileMark } from "../../arrays/rows.ts";
import { openFile } from "../../arrays/files.ts";
import { Damaged, refuseDamaged } from "../../codecs/bytes.ts";
import {
  type Codes,
  openPageBuffers,
  type PageBuffers,
  pagesOf,
  type ParquetPage,
  type Physical,
  type StoredChunk,
} from "./pages.ts";

/** A column as a thread gets it. */
export interface BlockColumn {
  readonly name: string;
  readonly physical: Physical;
  readonly dtype: DType;
  /** Some of its values are missing, which become NaN. */
  readonly missing: boolean;
}

/** Some columns of a row group of a file. */
export interface RowGroupPart {
  readonly file: FileMark;
  /** The row group's place among all rows. */
  readonly first: number;
  readonly rows: number;
  readonly columns: readonly {
    /** Its place among the columns of a row. */
    readonly at: number;
    readonly begin: number;
    readonly bytes: number;
    readonly codec: string;
    readonly optional: boolean;
  }[];
}

export interface BlockOrders {
  readonly columns: readonly BlockColumn[];
  readonly groups: readonly RowGroupPart[];
  /** All rows, as f32. */
  readonly into: MemoryBlock;
  /** Marks of each column behind these words. */
  readonly words: SharedArrayBuffer;
}

/** Words that threads share: the next group, groups that are done, and 1 more than the number of one that failed. */
export const NEXT_GROUP = 0, DONE = 1, FAILED = 2, MARKS = 4;

/** They are few enough to stay in the second cache, and many enough to be worth a call. */
const BLOCK_ROWS = 2048;

/** Until no group is left. Whoever waits repeats a failed group, to have its error. */
export function readGroups({ columns, groups, into, words: shared }: BlockOrders): void {
  const words = new Int32Array(shared),
    target = bytesAt(into),
    threadBuffers = openThreadBuffers(columns.length);
  for (;;) {
    const number = Atomics.add(words, NEXT_GROUP, 1);
    if (number >= groups.length || Atomics.load(words, FAILED) !== 0) return;
    try {
      readGroup(columns, groups[number], target, words, threadBuffers);
    } catch {
      Atomics.compareExchange(words, FAILED, 0, number + 1);
    }
    Atomics.add(words, DONE, 1);
    Atomics.notify(words, DONE);
  }
}

/** A thread keeps them from group to group: new memory costs more than what is written to it. */
interface ThreadBuffers {
  readonly window: ChunkWindow;
  readonly columns: readonly {
    readonly pageBuffers: PageBuffers;
    readonly dictionary: ReturnType<typeof openDictionary>;
  }[];
}

const openThreadBuffers = (columns: number): ThreadBuffers => {
  const raw = openPageBuffers()("dictionary"); // it is needed until it has become f32
  const own = () => {
    const room = openPageBuffers();
    return (place: Parameters<PageBuffers>[0]) => place === "dictionary" ? raw : room(place);
  };
  return {
    window: openChunkWindow(),
    columns: Array.from({ length: columns }, () => ({ pageBuffers: own(), dictionary: openDictionary() })),
  };
};

export function readGroup(
  columns: readonly BlockColumn[],
  group: RowGroupPart,
  { buffer, byteOffset, byteLength }: Uint8Array,
  words: Int32Array,
  threadBuffers = openThreadBuffers(columns.length),
): void {
  const step = columns.length;
  const to = {
    words: new Int32Array(buffer, byteOffset, byteLength / 4),
    floats: new Float32Array(buffer, byteOffset, byteLength / 4),
    step,
  };
  const file = openFile(group.file);
  try {
    const cursors = group.columns.map(({ at, begin, bytes, codec, optional }) => {
      const { name, physical, dtype, missing } = columns[at];
      const facts = { physical, codec, optional, rows: group.rows };
      const { pageBuffers, dictionary } = threadBuffers.columns[at];
      const pages = pagesOf(openChunk(file.read, begin, bytes, threadBuffers.window), facts, pageBuffers);
      return { at, name, move: openCursor(pages, { dtype, missing }, dictionary, to), marks: 0 };
    });
    for (let row = 0; row < group.rows; row += BLOCK_ROWS) {
      const count = Math.min(BLOCK_ROWS, group.rows - row), first = (group.first + row) * step;
      for (const cursor of cursors) {
        try {
          cursor.marks |= cursor.move(count, first + cursor.at);
        } catch (error) {
          if (error instanceof Damaged) throw new DamagedColumn(cursor.name, error.message);
          throw error;
        }
      }
    }
    for (const { at, marks } of cursors) if (marks !== 0) Atomics.or(words, MARKS + at, marks);
  } finally {
    file.close();
  }
}

/** The reason follows the column's name. */
export class DamagedColumn extends Error {
  constructor(readonly column: string, reason: string) {
    super(reason);
  }
}

type ColumnFacts = Pick<BlockColumn, "dtype" | "missing">;

/** It moves the next values of a column to the places from `at` on, page by page; the result is marks. */
function openCursor(
  pages: Generator<ParquetPage>,
  facts: ColumnFacts,
  dictionary: ReturnType<typeof openDictionary>,
  to: ColumnPlaces,
) {
  let last: ParquetPage["values"] | null = null, known = new Int32Array(0);
  let page: ParquetPage | null = null, spread: Spread = () => 0, left = 0, row = 0, value = 0, marks = 0;
  const turn = () => {
    const { value: next, done } = pages.next();
    if (done) return refuseDamaged("has fewer rows than its row group");
    page = next;
    if (page.present && !facts.missing) {
      refuseDamaged("has missing values, and its footer says that it has none");
    }
    left = page.rows;
    row = value = 0;
    if (page.codes) {
      // All pages of a chunk share its dictionary.
      if (page.values !== last) {
        const found = dictionary(last = page.values, facts);
        known = found.known;
        marks |= found.marks;
      }
      spread = spreadCodes(page.codes, known, to);
    } else spread = spreadOf(page.values, facts, to);
  };
  return (count: number, at: number): number => {
    for (let due = count; due > 0;) {
      while (left === 0) turn();
      const many = Math.min(due, left), { present } = page!;
      if (present === null) marks |= spread(value, many, at);
      else marks |= NOT_FINITE | inRuns(present, row, many, value, at);
      value += present === null ? many : valuesIn(present, row, many);
      row += many;
      left -= many;
      due -= many;
      at += many * to.step;
    }
    return marks;
  };

  /** Values that are there, and gaps, in turn. */
  function inRuns(present: Uint8Array, from: number, count: number, first: number, at: number): number {
    let marks = 0;
    for (let i = from, end = from + count, next = first; i < end;) {
      const is = present[i];
      let stop = i + 1;
      while (stop < end && present[stop] === is) stop++;
      if (is === 0) spreadMissing(stop - i, at, to);
      else {
        marks |= spread(next, stop - i, at);
        next += stop - i;
      }
      at += (stop - i) * to.step;
      i = stop;
    }
    return marks;
  }
}

function valuesIn(present: Uint8Array, from: number, count: number): number {
  let sum = 0;
  for (let i = from; i < from + count; i++) sum += present[i];
  return sum;
}

function spreadOf(values: ParquetPage["values"], { dtype, missing }: ColumnFacts, to: ColumnPlaces): Spread {
  if (values instanceof Float32Array) return spreadFloats(values, to);
  if (values instanceof Float64Array) return spreadDoubles(values, to);
  if (values instanceof BigInt64Array) return spreadLong(values, to, missing);
  if (values instanceof Int32Array && dtype === "i32") return spreadWhole(values, to);
  const small = SMALL[dtype];
  return spreadOthers(small ? new small(values as Int32Array) : values as Uint8Array, to);
}

/** Such numbers are stored in 32 bits. */
const SMALL: { readonly [dtype in DType]?: new (values: Int32Array) => ArrayLike<number> } = {
  u8: Uint8Array,
  i8: Int8Array,
  u16: Uint16Array,
  i16: Int16Array,
  u32: Uint32Array,
};

/** A chunk's dictionary becomes f32 once; the next chunk's takes its place. */
function openDictionary() {
  let memory = new ArrayBuffer(0);
  return (values: ParquetPage["values"], facts: ColumnFacts) => {
    const count = values.length;
    if (memory.byteLength < 4 * count) memory = new ArrayBuffer(4 * count);
    const known = new Int32Array(memory, 0, count);
    const places = { words: known, floats: new Float32Array(memory, 0, count), step: 1 };
    return { known, marks: spreadOf(values, facts, places)(0, count, 0) };
  };
}

/** Each thread has its own; the bytes are valid until it is used again. */
export type ChunkWindow = (bytes: number) => Uint8Array<ArrayBuffer>;

export function openChunkWindow(): ChunkWindow {
  let room = new Uint8Array(0);
  return (bytes) => {
    // A page that is longer than those before gets room that the next ones of its size fit in, too.
    if (bytes > room.length) room = new Uint8Array(bytes + (bytes >> 2));
    return room.subarray(0, bytes);
  };
}

/** `read` fills the bytes from this place of the file. */
export const openChunk = (
  read: (into: Uint8Array, offset: number) => void,
  begin: number,
  length: number,
  window: ChunkWindow,
): StoredChunk => ({
  length,
  bytes(at, count) {
    const bytes = window(count);
    read(bytes, begin + at);
    return bytes;
  },
});

/** A column with a mark has to be looked at number by number. */
const NOT_FINITE = 1, LARGE = 2;

/** The first whole number beyond which floats have gaps. */
const GAPS = 2 ** 24;

const EXPONENT = 0x7f800000, ONE_EXPONENT = 0x00800000;
const MISSING = 0x7fc00000;

/** A place among the rows: numbers of a column are `step` apart, beginning at `at`. */
export interface ColumnPlaces {
  readonly words: Int32Array;
  readonly floats: Float32Array;
  readonly step: number;
}

/** It moves `count` values from `first` on to the places from `at` on; the result is marks. */
export type Spread = (first: number, count: number, at: number) => number;

function spreadFloats(from: Float32Array, to: ColumnPlaces): Spread {
  return spreadWords(new Int32Array(from.buffer, from.byteOffset, from.length), to);
}

/** Bits are moved as they are; an exponent of ones is infinity or NaN. */
function spreadWords(from: Int32Array, { words: to, step }: ColumnPlaces): Spread {
  return (first, count, at) => {
    let odd = 0;
    for (let i = first, end = first + count; i < end; i++, at += step) {
      const word = from[i];
      to[at] = word;
      odd |= (word & EXPONENT) + ONE_EXPONENT;
    }
    return odd < 0 ? NOT_FINITE : 0;
  };
}

/** Codes come one after the other, whatever the first is; the dictionary was judged before. */
function spreadCodes(packed: Codes, known: Int32Array, { words: to, step }: ColumnPlaces): Spread {
  let codes = new Int32Array(0);
  return (_, count, at) => {
    if (codes.length < count) codes = new Int32Array(count);
    packed.read(codes, count);
    for (let i = 0; i < count; i++, at += step) to[at] = known[codes[i]];
    return 0;
  };
}

function spreadDoubles(from: Float64Array, { floats: to, step }: ColumnPlaces): Spread {
  return (first, count, at) => {
    let odd = 0;
    for (let i = first, end = first + count; i < end; i++, at += step) {
      const value = Math.fround(from[i]);
      to[at] = value;
      odd += value - value; // NaN from the first that is not finite
    }
    return odd === 0 ? 0 : NOT_FINITE;
  };
}

function spreadWhole(from: Int32Array, { floats: to, step }: ColumnPlaces): Spread {
  return (first, count, at) => {
    let bits = 0;
    for (let i = first, end = first + count; i < end; i++, at += step) {
      const value = from[i];
      to[at] = value;
      bits |= value ^ value >> 31;
    }
    return bits >= GAPS ? LARGE : 0;
  };
}

/** With `missing` a value becomes a double first, as a column that may miss some is one of doubles. */
function spreadLong(from: BigInt64Array, { floats: to, step }: ColumnPlaces, missing: boolean): Spread {
  const halves = new Int32Array(from.buffer, from.byteOffset, 2 * from.length);
  return (first, count, at) => {
    let bits = 0;
    for (let i = 2 * first, end = 2 * (first + count); i < end; i += 2, at += step) {
      const low = halves[i], high = halves[i + 1];
      if (high === low >> 31) {
        to[at] = low;
        bits |= low ^ high;
      } else {
        to[at] = missing ? high * 2 ** 32 + (low >>> 0) : nearest(high, low);
        bits |= GAPS;
      }
    }
    return bits >= GAPS ? LARGE : 0;
  };
}

const EXACT = 2 ** 21;

/** A double on the way would round twice, unless the cut bits mark the last bit. */
function nearest(high: number, low: number): number {
  if (high >= -EXACT && high < EXACT) return high * 2 ** 32 + (low >>> 0);
  const cut = (low & 2047) !== 0 ? 2048 : 0;
  return high * 2 ** 32 + ((low & ~2047 | cut) >>> 0);
}

/** Other types are small. */
function spreadOthers(from: ArrayLike<number>, { floats: to, step }: ColumnPlaces): Spread {
  return (first, count, at) => {
    let odd = 0, most = 0;
    for (let i = first, end = first + count; i < end; i++, at += step) {
      const value = from[i];
      to[at] = value;
      odd += value - value;
      most = Math.max(most, Math.abs(value));
    }
    return (odd === 0 ? 0 : NOT_FINITE) | (most >= GAPS ? LARGE : 0);
  };
}

function spreadMissing(count: number, at: number, { words: to, step }: ColumnPlaces): void {
  for (let i = 0; i < count; i++, at += step) to[at] = MISSING;
}
