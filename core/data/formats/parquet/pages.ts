// The pages of a column chunk, decoded value by value. Every count and length is checked against what is there.
import { deltaBinaryUnpack, type PageHeader, parquetHeader } from "../../../../deps/hyparquet.ts";
import { type ChunkBytes, refuseDamaged } from "../../codecs/bytes.ts";
import { unshuffle } from "../../codecs/blosc.ts";
import { unpackPage } from "./packed.ts";

export type Physical = "BOOLEAN" | "INT32" | "INT64" | "FLOAT" | "DOUBLE" | "HALF" | "TEXT";

export type ParquetNumbers =
  | Uint8Array
  | Int32Array
  | BigInt64Array
  | Float16Array
  | Float32Array
  | Float64Array;

/** Values are what is stored; `codes` point into the dictionary of the chunk, where there are any. */
export interface ParquetPage {
  readonly rows: number;
  /** 1 marks a value that is there; null means that all are. */
  readonly present: Uint8Array | null;
  /** They are valid until the next page is asked for; a dictionary stays. */
  readonly values: ParquetNumbers | readonly Uint8Array[];
  readonly codes: Codes | null;
  /** The number of values that are there. */
  readonly count: number;
}

/** Codes of values, one after the other. */
export interface Codes {
  read(into: Int32Array, count: number): void;
}

interface ChunkFacts {
  readonly physical: Physical;
  readonly codec: string;
  readonly optional: boolean;
  readonly rows: number;
}

/** A column chunk as it is stored. */
export interface StoredChunk {
  readonly length: number;
  /** Valid until the next call. */
  bytes(at: number, count: number): ChunkBytes;
}

/** A page has about a megabyte as a rule. */
const MOST_BYTES = 2 ** 30;

type Values = ParquetPage["values"];

/** All rows of the chunk come in the end. `buffers` may have been used for another chunk, whose pages are done. */
export function* pagesOf(
  chunk: StoredChunk,
  facts: ChunkFacts,
  buffers = openPageBuffers(),
): Generator<ParquetPage> {
  let dictionary: Values | null = null, rows = 0, at = 0;
  while (rows < facts.rows) {
    if (at >= chunk.length) refuseDamaged(`has ${rows} of ${facts.rows} rows in a row group`);
    const { header, bytes } = headerAt(chunk, at);
    const size = header.compressed_page_size, begin = at + bytes;
    if (!(size >= 0 && begin + size <= chunk.length)) refuseDamaged("has a page that is cut off");
    at = begin + size;
    if (header.type === "DICTIONARY_PAGE") {
      const stored = chunk.bytes(begin, size);
      const all = unpacked(facts, stored, header.uncompressed_page_size, buffers("dictionary"));
      dictionary = plain(all, facts, countOf(header));
    } else if (header.type === "DATA_PAGE" || header.type === "DATA_PAGE_V2") {
      const page = pageOf(chunk.bytes(begin, size), header, facts, dictionary, facts.rows - rows, buffers);
      rows += page.rows;
      yield page;
    }
  }
}

/** Headers are short, but they may have the least and the greatest text of a page. */
const HEADER_BYTES = 256, LONGEST_HEADER = 2 ** 20;

export function headerAt(chunk: StoredChunk, at: number): { header: PageHeader; bytes: number } {
  for (let most = HEADER_BYTES;; most *= 16) {
    const bytes = chunk.bytes(at, Math.min(most, chunk.length - at));
    const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
    try {
      const header = parquetHeader(reader);
      return { header, bytes: reader.offset };
    } catch {
      if (at + most >= chunk.length || most >= LONGEST_HEADER) {
        return refuseDamaged("has a page without a header");
      }
    }
  }
}

const countOf = ({ dictionary_page_header: header }: PageHeader): number =>
  header?.num_values ?? refuseDamaged("has a dictionary without a size");

/** Memory that is used for one page after the other, in several places at once. */
export type PageBuffers = (place: "page" | "dictionary" | "levels") => (bytes: number) => ArrayBuffer;

export function openPageBuffers(): PageBuffers {
  const byPlace = new Map<string, ArrayBuffer>();
  return (place) => (bytes) => {
    let buffers = byPlace.get(place);
    if (!buffers || buffers.byteLength < bytes) {
      byPlace.set(place, buffers = new ArrayBuffer(Math.ceil(bytes / 8) * 8));
    }
    return buffers;
  };
}

function unpacked(
  { codec }: ChunkFacts,
  stored: ChunkBytes,
  bytes: number,
  buffers: ReturnType<PageBuffers>,
): ChunkBytes {
  if (!(bytes >= 0 && bytes <= MOST_BYTES)) refuseDamaged(`has a page of ${bytes} bytes`);
  const into = new Uint8Array(buffers(bytes), 0, bytes);
  if (bytes > 0 && !unpackPage(codec, stored, into)) refuseDamaged("has a page that can't be unpacked");
  return into;
}

function pageOf(
  stored: ChunkBytes,
  header: PageHeader,
  facts: ChunkFacts,
  dictionary: Values | null,
  left: number,
  buffers: PageBuffers,
): ParquetPage {
  const { data_page_header: first, data_page_header_v2: second } = header;
  const about = first ?? second ?? refuseDamaged("has a page without a header");
  const rows = about.num_values;
  if (!(rows >= 0 && rows <= left)) refuseDamaged(`has a page of ${rows} values where ${left} rows are due`);
  let present: Uint8Array | null = null, bytes: ChunkBytes, at = 0;
  if (second) {
    const levels = second.definition_levels_byte_length,
      before = second.repetition_levels_byte_length + levels;
    if (!(levels >= 0 && before >= levels && before <= stored.length)) {
      refuseDamaged("has levels that are cut off");
    }
    if (facts.optional) present = levelsOf(stored.subarray(before - levels, before), rows, buffers);
    const packed = stored.subarray(before), size = header.uncompressed_page_size - before;
    bytes = second.is_compressed === false
      ? copied(packed, buffers)
      : unpacked(facts, packed, size, buffers("page"));
  } else {
    bytes = unpacked(facts, stored, header.uncompressed_page_size, buffers("page"));
    if (facts.optional) {
      const length = bytes.length >= 4 ? word(bytes, 0) : Infinity;
      if (length > bytes.length - 4) refuseDamaged("has levels that are cut off");
      present = levelsOf(bytes.subarray(4, 4 + length), rows, buffers);
      at = 4 + length;
    }
  }
  const count = present ? countOnes(present) : rows;
  const body = bytes.subarray(at);
  if (about.encoding === "RLE_DICTIONARY" || about.encoding === "PLAIN_DICTIONARY") {
    const values = dictionary ?? refuseDamaged("has no dictionary where its pages name one");
    return { rows, present, count, values, codes: codesOf(body, values.length) };
  }
  return { rows, present, count, values: decoded(body, about.encoding, facts, count), codes: null };
}

/** A page that is not packed lies in the file's bytes, which the next page overwrites. */
function copied(bytes: ChunkBytes, buffers: PageBuffers): ChunkBytes {
  const into = new Uint8Array(buffers("page")(bytes.length), 0, bytes.length);
  into.set(bytes);
  return into;
}

function countOnes(levels: Uint8Array): number {
  let sum = 0;
  for (let i = 0; i < levels.length; i++) sum += levels[i];
  return sum;
}

/** Levels of a flat column are 1 where the value is there; mostly that is one run for all. */
function levelsOf(bytes: Uint8Array, rows: number, buffers: PageBuffers): Uint8Array | null {
  if (isOneRun(bytes, rows)) return null;
  const levels = new Uint8Array(buffers("levels")(rows), 0, rows);
  readHybrid(bytes, 1, levels);
  return levels.includes(0) ? levels : null;
}

/** The header of a run, in groups of seven bits, is twice its length; behind it stands the value. */
function isOneRun(bytes: Uint8Array, rows: number): boolean {
  let header = 0, at = 0;
  for (let shift = 0; shift <= 28 && at < bytes.length; shift += 7) {
    const byte = bytes[at++];
    header |= (byte & 127) << shift;
    if (byte < 128) return (header & 1) === 0 && header >>> 1 >= rows && bytes[at] === 1;
  }
  return false;
}

function codesOf(bytes: Uint8Array, known: number): Codes {
  const width = bytes.length > 0 ? bytes[0] : 0;
  if (!(width <= 32)) refuseDamaged("has codes without a width");
  const runs = openRuns(bytes.subarray(1), width);
  return {
    read(into, count) {
      runs(into, count);
      for (let i = 0; i < count; i++) {
        if (into[i] >>> 0 >= known) {
          refuseDamaged(`has the code ${into[i]}, and its dictionary ${known} values`);
        }
      }
    },
  };
}

const word = (bytes: Uint8Array, at: number): number =>
  (bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | bytes[at + 3] << 24) >>> 0;

export const readHybrid = (bytes: Uint8Array, width: number, into: Uint8Array | Int32Array): void =>
  openRuns(bytes, width)(into, into.length);

/** Runs of one value, and groups of eight values packed into bits. The next values are written from 0 on. */
function openRuns(bytes: Uint8Array, width: number) {
  const end = bytes.length, length = width + 7 >> 3;
  /** The run in work has so many values left, one value, or packed ones that go on at a bit. */
  let at = 0, left = 0, value = 0, bit = -1;
  const turn = (due: number) => {
    let header = 0;
    for (let shift = 0;; shift += 7) {
      if (at >= end || shift > 28) refuseDamaged("has runs that are cut off");
      const byte = bytes[at++];
      header |= (byte & 127) << shift;
      if (byte < 128) break;
    }
    if (header & 1) {
      left = (header >>> 1) * 8;
      bit = 8 * at;
      // The last group may be cut after the last value.
      if (Math.ceil(Math.min(due, left) * width / 8) > end - at) refuseDamaged("has values that are cut off");
      at += (header >>> 1) * width;
    } else {
      left = header >>> 1;
      bit = -1;
      if (length > end - at) refuseDamaged("has a run that is cut off");
      value = 0;
      for (let i = 0; i < length; i++) value |= bytes[at++] << 8 * i;
    }
  };
  return (into: Uint8Array | Int32Array, count: number): void => {
    for (let done = 0; done < count;) {
      while (left === 0) turn(count - done);
      const many = Math.min(left, count - done);
      if (bit < 0) into.fill(value, done, done + many);
      else {
        if (Math.ceil((bit + many * width) / 8) > end) refuseDamaged("has values that are cut off");
        unpackBits(bytes, bit, width, into, done, many);
        bit += many * width;
      }
      left -= many;
      done += many;
    }
  };
}

/** Wider values than these are read bit by bit. */
const NARROW = 31;
let words = new Int32Array(2048);

/** Words of 32 bits are taken off one after the other; a value may begin in one and end in the next. */
function unpackBits(
  bytes: Uint8Array,
  from: number,
  width: number,
  into: Uint8Array | Int32Array,
  first: number,
  count: number,
): void {
  if (width === 0) return void into.fill(0, first, first + count);
  if (width > NARROW) {
    for (let i = 0; i < count; i++) into[first + i] = wide(bytes, from + i * width, width);
    return;
  }
  const begin = from >> 3, end = Math.ceil((from + count * width) / 8), mask = (1 << width) - 1;
  if (4 * words.length < end - begin + 4) words = new Int32Array((end - begin >> 2) + 2);
  new Uint8Array(words.buffer).set(bytes.subarray(begin, end));
  let word = words[0], bit = from & 7, next = 1;
  for (let i = first; i < first + count; i++) {
    let value = word >>> bit;
    bit += width;
    if (bit >= 32) {
      word = words[next++];
      bit -= 32;
      if (bit > 0) value |= word << width - bit;
    }
    into[i] = value & mask;
  }
}

function wide(bytes: Uint8Array, first: number, width: number): number {
  let value = 0;
  for (let bit = 0; bit < width; bit++) {
    const at = first + bit;
    value |= (bytes[at >> 3] >> (at & 7) & 1) << bit;
  }
  return value;
}

const WIDTHS: Readonly<Record<Physical, number>> = {
  BOOLEAN: 0.125,
  INT32: 4,
  INT64: 8,
  FLOAT: 4,
  DOUBLE: 8,
  HALF: 2,
  TEXT: 4, // the length of each
};

function plain(bytes: ChunkBytes, { physical }: ChunkFacts, count: number): Values {
  const size = Math.ceil(count * WIDTHS[physical]);
  if (!(count >= 0 && size <= bytes.length)) {
    refuseDamaged(`has a page that is too short for ${count} values`);
  }
  if (physical === "TEXT") return textsOf(bytes, count);
  if (physical === "BOOLEAN") {
    const bits = new Uint8Array(count);
    for (let i = 0; i < count; i++) bits[i] = bytes[i >> 3] >> (i & 7) & 1;
    return bits;
  }
  return numbersOf(aligned(bytes, size), physical);
}

/** Numbers stand at multiples of eight bytes. Levels stand before them in the same memory, and are read by now. */
function aligned(bytes: ChunkBytes, size: number): ChunkBytes {
  const { buffer, byteOffset } = bytes;
  if (byteOffset % 8 === 0) return bytes.subarray(0, size);
  const block = new Uint8Array(buffer, byteOffset & ~7, size);
  block.set(bytes.subarray(0, size));
  return block;
}

function textsOf(bytes: Uint8Array, count: number): Uint8Array[] {
  const texts: Uint8Array[] = [];
  for (let at = 0; texts.length < count;) {
    const length = at + 4 <= bytes.length ? word(bytes, at) : Infinity;
    at += 4;
    if (length > bytes.length - at) refuseDamaged("has a text that is cut off");
    texts.push(bytes.subarray(at, at += length));
  }
  return texts;
}

/** The bytes are aligned. */
function numbersOf({ buffer, byteOffset: at, length }: ChunkBytes, physical: Physical): ParquetNumbers {
  switch (physical) {
    case "INT32":
      return new Int32Array(buffer, at, length / 4);
    case "INT64":
      return new BigInt64Array(buffer, at, length / 8);
    case "HALF":
      return new Float16Array(buffer, at, length / 2);
    case "FLOAT":
      return new Float32Array(buffer, at, length / 4);
    case "DOUBLE":
      return new Float64Array(buffer, at, length / 8);
    default:
      return new Uint8Array(buffer, at, length);
  }
}

function decoded(
  bytes: ChunkBytes,
  encoding: string,
  facts: ChunkFacts,
  count: number,
): Values {
  const { physical } = facts;
  if (encoding === "PLAIN") return plain(bytes, facts, count);
  if (encoding === "RLE" && physical === "BOOLEAN") {
    const values = new Uint8Array(count);
    readHybrid(bytes.subarray(4), 1, values); // its length comes first
    return values;
  }
  if (encoding === "BYTE_STREAM_SPLIT" && physical !== "TEXT" && physical !== "BOOLEAN") {
    const size = count * WIDTHS[physical], values = new Uint8Array(size);
    if (size > bytes.length) refuseDamaged(`has a page that is too short for ${count} values`);
    unshuffle(bytes.slice(0, size), values, WIDTHS[physical]);
    return numbersOf(values, physical);
  }
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
  if (encoding === "DELTA_BINARY_PACKED" && (physical === "INT32" || physical === "INT64")) {
    const values = physical === "INT32" ? new Int32Array(count) : new BigInt64Array(count);
    delta(reader, values);
    return values;
  }
  if (physical === "TEXT" && (encoding === "DELTA_LENGTH_BYTE_ARRAY" || encoding === "DELTA_BYTE_ARRAY")) {
    const shared = new Int32Array(count), lengths = new Int32Array(count);
    if (encoding === "DELTA_BYTE_ARRAY") delta(reader, shared);
    delta(reader, lengths);
    return deltaTexts(bytes.subarray(reader.offset), shared, lengths);
  }
  return refuseDamaged(
    `is written as ${encoding}, which can't be read here: write it by pyarrow.parquet.write_table`,
  );
}

function delta(reader: { view: DataView; offset: number }, values: Int32Array | BigInt64Array): void {
  if (values.length === 0) return;
  try {
    deltaBinaryUnpack(reader, values.length, values);
  } catch {
    refuseDamaged("has differences that are cut off");
  }
}

/** A text may begin as the one before it does. */
function deltaTexts(bytes: Uint8Array, shared: Int32Array, lengths: Int32Array): Uint8Array[] {
  const texts: Uint8Array[] = [];
  let at = 0, total = 0, before = new Uint8Array(0) as Uint8Array;
  lengths.forEach((length, i) => {
    if (length < 0 || length > bytes.length - at || shared[i] < 0 || shared[i] > before.length) {
      refuseDamaged("has a text that is cut off");
    }
    if ((total += shared[i]) > MOST_BYTES) refuseDamaged("has texts of more than a gigabyte in a page");
    const own = bytes.subarray(at, at += length);
    if (shared[i] === 0) before = own;
    else {
      const whole = new Uint8Array(shared[i] + length);
      whole.set(before.subarray(0, shared[i]));
      whole.set(own, shared[i]);
      before = whole;
    }
    texts.push(before);
  });
  return texts;
}
