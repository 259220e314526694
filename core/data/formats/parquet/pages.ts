// The pages of a column chunk, decoded value by value. Every count and length is checked against what is there.
import { deltaBinaryUnpack, type PageHeader, parquetHeader } from "../../../../deps/hyparquet.ts";
import type { ChunkBytes } from "../../columns/chunks.ts";
import { unshuffle } from "../hdf5/chunk_rows.ts";
import { unpackPage } from "./packed.ts";

/** The reason follows the place: a file and its column. */
export class Damaged extends Error {}

export function damaged(reason: string): never {
  throw new Damaged(reason);
}

export type Physical = "BOOLEAN" | "INT32" | "INT64" | "FLOAT" | "DOUBLE" | "HALF" | "TEXT";

export type Numbers =
  | Uint8Array
  | Int32Array
  | BigInt64Array
  | Float16Array
  | Float32Array
  | Float64Array;

/** Values are what is stored; `codes` point into the dictionary of the chunk, where there are any. */
export interface Page {
  readonly rows: number;
  /** 1 marks a value that is there; null means that all are. */
  readonly present: Uint8Array | null;
  readonly values: Numbers | readonly Uint8Array[];
  readonly codes: Int32Array | null;
}

export interface ChunkFacts {
  readonly physical: Physical;
  readonly codec: string;
  readonly optional: boolean;
  readonly rows: number;
}

/** A page has about a megabyte as a rule. */
const MOST_BYTES = 2 ** 30;

type Values = Page["values"];

/** `use` gets one page after the other, all rows of the chunk in the end. */
export function readPages(chunk: ChunkBytes, facts: ChunkFacts, use: (page: Page) => void): void {
  const reader = { view: new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength), offset: 0 };
  let dictionary: Values | null = null, rows = 0;
  while (rows < facts.rows) {
    if (reader.offset >= chunk.length) damaged(`has ${rows} of ${facts.rows} rows in a row group`);
    const header = headerOf(reader);
    const size = header.compressed_page_size, end = reader.offset + size;
    if (!(size >= 0 && end <= chunk.length)) damaged("has a page that is cut off");
    const stored = chunk.subarray(reader.offset, end);
    reader.offset = end;
    if (header.type === "DICTIONARY_PAGE") {
      dictionary = plain(unpacked(facts, stored, header.uncompressed_page_size), facts, countOf(header));
    } else if (header.type === "DATA_PAGE" || header.type === "DATA_PAGE_V2") {
      const page = pageOf(stored, header, facts, dictionary, facts.rows - rows);
      rows += page.rows;
      use(page);
    }
  }
}

function headerOf(reader: { view: DataView; offset: number }): PageHeader {
  try {
    return parquetHeader(reader);
  } catch {
    return damaged("has a page without a header");
  }
}

const countOf = ({ dictionary_page_header: header }: PageHeader): number =>
  header?.num_values ?? damaged("has a dictionary without a size");

function unpacked({ codec }: ChunkFacts, stored: ChunkBytes, bytes: number): ChunkBytes {
  if (!(bytes >= 0 && bytes <= MOST_BYTES)) damaged(`has a page of ${bytes} bytes`);
  return unpackPage(codec, stored, bytes) ?? damaged("has a page that can't be unpacked");
}

function pageOf(
  stored: ChunkBytes,
  header: PageHeader,
  facts: ChunkFacts,
  dictionary: Values | null,
  left: number,
): Page {
  const { data_page_header: first, data_page_header_v2: second } = header;
  const about = first ?? second ?? damaged("has a page without a header");
  const rows = about.num_values;
  if (!(rows >= 0 && rows <= left)) damaged(`has a page of ${rows} values where ${left} rows are due`);
  let present: Uint8Array | null = null, bytes: ChunkBytes, at = 0;
  if (second) {
    const levels = second.definition_levels_byte_length,
      before = second.repetition_levels_byte_length + levels;
    if (!(levels >= 0 && before >= levels && before <= stored.length)) damaged("has levels that are cut off");
    if (facts.optional) present = levelsOf(stored.subarray(before - levels, before), rows);
    const packed = stored.subarray(before), size = header.uncompressed_page_size - before;
    bytes = second.is_compressed === false ? packed : unpacked(facts, packed, size);
  } else {
    bytes = unpacked(facts, stored, header.uncompressed_page_size);
    if (facts.optional) {
      const length = bytes.length >= 4 ? word(bytes, 0) : Infinity;
      if (length > bytes.length - 4) damaged("has levels that are cut off");
      present = levelsOf(bytes.subarray(4, 4 + length), rows);
      at = 4 + length;
    }
  }
  const count = present ? present.reduce((sum, one) => sum + one, 0) : rows;
  const body = bytes.subarray(at);
  if (about.encoding === "RLE_DICTIONARY" || about.encoding === "PLAIN_DICTIONARY") {
    const values = dictionary ?? damaged("has no dictionary where its pages name one");
    return { rows, present, values, codes: codesOf(body, count, values.length) };
  }
  return { rows, present, values: decoded(body, about.encoding, facts, count), codes: null };
}

/** Levels of a flat column are 1 where the value is there. */
function levelsOf(bytes: Uint8Array, rows: number): Uint8Array | null {
  const levels = new Uint8Array(rows);
  readHybrid(bytes, 1, levels);
  return levels.includes(0) ? levels : null;
}

function codesOf(bytes: Uint8Array, count: number, known: number): Int32Array {
  const codes = new Int32Array(count);
  if (count === 0) return codes;
  const width = bytes[0];
  if (!(width <= 32)) damaged("has codes without a width");
  readHybrid(bytes.subarray(1), width, codes);
  for (let i = 0; i < count; i++) {
    if (codes[i] >>> 0 >= known) damaged(`has the code ${codes[i]}, and its dictionary ${known} values`);
  }
  return codes;
}

const word = (bytes: Uint8Array, at: number): number =>
  (bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | bytes[at + 3] << 24) >>> 0;

/** A word of 32 bits holds such a value and the bits of a byte that follow it. */
const NARROW = 24;

/** Runs of one value, and groups of eight values packed into bits. */
export function readHybrid(bytes: Uint8Array, width: number, into: Uint8Array | Int32Array): void {
  const end = bytes.length, mask = (1 << width) - 1;
  let at = 0, done = 0;
  while (done < into.length) {
    let header = 0;
    for (let shift = 0;; shift += 7) {
      if (at >= end || shift > 28) damaged("has runs that are cut off");
      const byte = bytes[at++];
      header |= (byte & 127) << shift;
      if (byte < 128) break;
    }
    const count = Math.min(header & 1 ? (header >>> 1) * 8 : header >>> 1, into.length - done);
    if (header & 1) {
      if (Math.ceil(count * width / 8) > end - at) damaged("has values that are cut off");
      if (width <= NARROW) {
        let bits = 0, held = 0, from = at;
        for (let i = 0; i < count; i++) {
          while (held < width) {
            bits |= bytes[from++] << held;
            held += 8;
          }
          into[done + i] = bits & mask;
          bits >>>= width;
          held -= width;
        }
      } else for (let i = 0; i < count; i++) into[done + i] = wide(bytes, at * 8 + i * width, width);
      at += (header >>> 1) * width;
    } else {
      const length = width + 7 >> 3;
      if (length > end - at) damaged("has a run that is cut off");
      let value = 0;
      for (let i = 0; i < length; i++) value |= bytes[at++] << 8 * i;
      into.fill(value, done, done + count);
    }
    done += count;
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
  if (!(count >= 0 && size <= bytes.length)) damaged(`has a page that is too short for ${count} values`);
  if (physical === "TEXT") return textsOf(bytes, count);
  if (physical === "BOOLEAN") {
    return Uint8Array.from({ length: count }, (_, i) => bytes[i >> 3] >> (i & 7) & 1);
  }
  return numbersOf(bytes.slice(0, size), physical);
}

function textsOf(bytes: Uint8Array, count: number): Uint8Array[] {
  const texts: Uint8Array[] = [];
  for (let at = 0; texts.length < count;) {
    const length = at + 4 <= bytes.length ? word(bytes, at) : Infinity;
    at += 4;
    if (length > bytes.length - at) damaged("has a text that is cut off");
    texts.push(bytes.subarray(at, at += length));
  }
  return texts;
}

/** The bytes are aligned. */
function numbersOf({ buffer }: ChunkBytes, physical: Physical): Numbers {
  switch (physical) {
    case "INT32":
      return new Int32Array(buffer);
    case "INT64":
      return new BigInt64Array(buffer);
    case "HALF":
      return new Float16Array(buffer);
    case "FLOAT":
      return new Float32Array(buffer);
    case "DOUBLE":
      return new Float64Array(buffer);
    default:
      return new Uint8Array(buffer);
  }
}

function decoded(bytes: ChunkBytes, encoding: string, facts: ChunkFacts, count: number): Values {
  const { physical } = facts;
  if (encoding === "PLAIN") return plain(bytes, facts, count);
  if (encoding === "RLE" && physical === "BOOLEAN") {
    const values = new Uint8Array(count);
    readHybrid(bytes.subarray(4), 1, values); // its length comes first
    return values;
  }
  if (encoding === "BYTE_STREAM_SPLIT" && physical !== "TEXT" && physical !== "BOOLEAN") {
    const size = count * WIDTHS[physical], values = new Uint8Array(size);
    if (size > bytes.length) damaged(`has a page that is too short for ${count} values`);
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
  return damaged(
    `is written as ${encoding}, which can't be read here: write it by pyarrow.parquet.write_table`,
  );
}

function delta(reader: { view: DataView; offset: number }, values: Int32Array | BigInt64Array): void {
  if (values.length === 0) return;
  try {
    deltaBinaryUnpack(reader, values.length, values);
  } catch {
    damaged("has differences that are cut off");
  }
}

/** A text may begin as the one before it does. */
function deltaTexts(bytes: Uint8Array, shared: Int32Array, lengths: Int32Array): Uint8Array[] {
  const texts: Uint8Array[] = [];
  let at = 0, total = 0, before = new Uint8Array(0) as Uint8Array;
  lengths.forEach((length, i) => {
    if (length < 0 || length > bytes.length - at || shared[i] < 0 || shared[i] > before.length) {
      damaged("has a text that is cut off");
    }
    if ((total += shared[i]) > MOST_BYTES) damaged("has texts of more than a gigabyte in a page");
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
