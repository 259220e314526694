// The buffers of a batch become pages of values, as Parquet's columns are read.
import { type ChunkBytes, refuseDamaged } from "../../core/data/codecs/bytes.ts";
import type { ColumnPage, PageNumbers } from "../../core/data/tables/pages.ts";
import { typedView } from "../../core/data/arrays/numbers.ts";
import { dtypeBytes } from "../../ffi/dtype.ts";
import { lz4Block, unpackZstd } from "../../core/data/codecs/blosc.ts";
import type { ArrowColumn, ArrowFile, RecordBatch } from "./file.ts";

/** zstd packs a run of zeros so well. */
const MOST_RATIO = 2 ** 17, HEAD = 8;

/** Packed buffers have their own size in front; `least` bytes must come of it. */
function bufferOf(
  { file }: ArrowFile,
  { buffers, codec }: RecordBatch,
  index: number,
  least: number,
): ChunkBytes {
  const [at, bytes] = buffers[index] ?? refuseDamaged("has no buffer in a batch");
  if (codec === "none" || bytes === 0) {
    return bytes >= least
      ? file.read(at, bytes)
      : refuseDamaged(`has ${bytes} bytes in a batch, and ${least} belong there`);
  }
  if (bytes < HEAD) return refuseDamaged("has a packed buffer that is cut off");
  const stored = file.read(at, bytes), size = Number(new DataView(stored.buffer).getBigInt64(0, true));
  const packed = stored.subarray(HEAD);
  if (size === -1) {
    return packed.length >= least ? packed.slice() : refuseDamaged("has a buffer that is cut off");
  }
  if (!(size >= least && size <= packed.length * MOST_RATIO && size < 2 ** 32)) {
    return refuseDamaged(
      `has a buffer of ${bytes} bytes that is said to become ${size}, and ${least} belong there`,
    );
  }
  const into = new Uint8Array(size);
  const good = size === 0 || (codec === "zstd" ? unpackZstd(packed, into) : unpackFrame(packed, into));
  return good ? into : refuseDamaged("has a buffer that can't be unpacked");
}

const MAGIC = 0x184d2204;

/** A frame of LZ4: a head, and blocks that may point back into the ones before. */
export function unpackFrame(from: Uint8Array, into: Uint8Array): boolean {
  const view = new DataView(from.buffer, from.byteOffset, from.byteLength);
  if (from.length < 7 || view.getUint32(0, true) !== MAGIC) return false;
  const flags = from[4], hasSize = flags & 8, hasDictionary = flags & 1, hasSums = flags & 16;
  let at = 7 + (hasSize ? 8 : 0) + (hasDictionary ? 4 : 0), out = 0;
  while (at + 4 <= from.length) {
    const word = view.getUint32(at, true), size = word & 0x7fffffff;
    at += 4;
    if (word === 0) return out === into.length;
    if (size > from.length - at) return false;
    const block = from.subarray(at, at + size);
    if (word >>> 31) {
      if (size > into.length - out) return false;
      into.set(block, out);
      out += size;
    } else if ((out = lz4Block(block, into, out)) < 0) return false;
    at += size + (hasSums ? 4 : 0);
  }
  return false;
}

/** 1 marks a row that is there; null means that all are. */
function presentIn(arrow: ArrowFile, batch: RecordBatch, { buffer, node }: ArrowColumn): Uint8Array | null {
  const [, missing] = batch.nodes[node] ?? refuseDamaged("has no node in a batch");
  if (missing === 0) return null;
  const bits = bufferOf(arrow, batch, buffer, Math.ceil(batch.rows / 8));
  return bitsOf(bits, batch.rows);
}

function bitsOf(bits: Uint8Array, count: number): Uint8Array {
  const found = new Uint8Array(count);
  for (let i = 0; i < count; i++) found[i] = bits[i >> 3] >> (i & 7) & 1;
  return found;
}

/** The rows that are there. */
function placesOf(present: Uint8Array): Int32Array {
  const found = new Int32Array(present.reduce((sum, one) => sum + one, 0));
  for (let i = 0, at = 0; i < present.length; i++) if (present[i]) found[at++] = i;
  return found;
}

export interface ListSizes {
  /** Those of each row's lists; empty where rows differ. */
  readonly sizes: readonly number[];
  /** The numbers of each batch begin there in their buffer. */
  readonly starts: readonly number[];
}

/** The offsets of all batches say whether all rows have lists of one size. */
export function listSizes(arrow: ArrowFile, column: ArrowColumn): ListSizes {
  const sizes: number[] = [], starts: number[] = [];
  for (const batch of arrow.batches) {
    let from = 0, count = batch.rows, level = 0;
    for (const { wide } of column.lists) {
      const width = wide ? 8 : 4,
        bytes = bufferOf(
          arrow,
          batch,
          column.buffer + 2 * level + 1,
          count === 0 ? 0 : (from + count + 1) * width,
        );
      const offsets = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const at = (i: number) =>
        wide ? Number(offsets.getBigInt64(8 * i, true)) : offsets.getInt32(4 * i, true);
      if (count === 0) break;
      const first = at(from), size = at(from + 1) - first;
      sizes[level] ??= size;
      for (let i = 0; i <= count; i++) {
        if (at(from + i) !== first + i * sizes[level]) return { sizes: [], starts: [] };
      }
      from = first;
      count *= sizes[level++];
    }
    starts.push(from);
  }
  return { sizes, starts };
}

export function pageOf(
  arrow: ArrowFile,
  batch: RecordBatch,
  column: ArrowColumn,
  dictionary: readonly Uint8Array[],
  begin = 0,
): ColumnPage {
  const { rows } = batch,
    { buffer, kind, dtype, count, wide } = column,
    present = presentIn(arrow, batch, column);
  if (column.dictionary) {
    const all = typedView(bufferOf(arrow, batch, buffer + 1, rows * dtypeBytes(dtype)), dtype) as ArrayLike<
      number
    >;
    const codes = present
      ? Int32Array.from(placesOf(present), (row) => Number(all[row]))
      : Int32Array.from({ length: rows }, (_, i) => Number(all[i]));
    const odd = codes.find((code) => !(code >= 0 && code < dictionary.length));
    if (odd !== undefined) {
      refuseDamaged(`has the code ${odd}, and its dictionary ${dictionary.length} values`);
    }
    return { rows, present, values: dictionary, codes };
  }
  if (kind === "text") {
    return {
      rows,
      present,
      values: arrowTexts(arrow, batch, buffer + 1, rows, wide),
      codes: present && placesOf(present),
    };
  }
  if ((count > 1 || column.lists.length > 0) && present) refuseDamaged("has lists that are missing");
  const at = numbersAt(column), numbers = rows * count;
  if (kind === "bool") {
    const values = bitsOf(bufferOf(arrow, batch, at, Math.ceil(numbers / 8)), numbers);
    return { rows, present, values, codes: present && placesOf(present) };
  }
  const from = begin * dtypeBytes(dtype), to = from + numbers * dtypeBytes(dtype);
  const bytes = bufferOf(arrow, batch, at, to).subarray(from, to);
  const aligned = bytes.byteOffset % 8 === 0 ? bytes : bytes.slice();
  return {
    rows,
    present,
    values: typedView(aligned, dtype) as PageNumbers,
    codes: present && placesOf(present),
  };
}

/** The buffer of the numbers: marks of what is missing lie in front, and those of the lists around it. */
export const numbersAt = ({ buffer, count, lists }: ArrowColumn): number =>
  buffer + (lists.length > 0 ? 2 * lists.length + 1 : count > 1 ? 2 : 1);

export function arrowTexts(
  arrow: ArrowFile,
  batch: RecordBatch,
  buffer: number,
  rows: number,
  wide: boolean,
): Uint8Array[] {
  if (rows === 0) return [];
  const ends = bufferOf(arrow, batch, buffer, (rows + 1) * (wide ? 8 : 4));
  const places = new DataView(ends.buffer, ends.byteOffset, ends.byteLength);
  const place = (i: number) => wide ? Number(places.getBigInt64(8 * i, true)) : places.getInt32(4 * i, true);
  const bytes = bufferOf(arrow, batch, buffer + 1, Math.max(0, place(rows)));
  return Array.from({ length: rows }, (_, i) => {
    const from = place(i), to = place(i + 1);
    return from >= 0 && to >= from && to <= bytes.length
      ? bytes.subarray(from, to)
      : refuseDamaged("has a text that lies outside of its batch");
  });
}
