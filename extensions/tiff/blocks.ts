// Strips and tiles of TIFF, unpacked into exactly the room that is there, with their predictors undone.
import { openInflate } from "../../ffi/codecs.ts";
import type { DType } from "../../ffi/dtype.ts";
import { type ChunkBytes, MOST_RATIO, repeat, swapBytes } from "../../core/data/codecs/bytes.ts";
import { type Chunks, openRowsOfChunks, readAllChunks } from "../../core/data/arrays/chunks.ts";
import { product } from "../../core/data/arrays/numbers.ts";
import { type OpenFile, openFile } from "../../core/data/arrays/files.ts";
import { unpackZstd } from "../../core/data/codecs/blosc.ts";
import { UserError } from "../../core/base/errors.ts";
import { DEFLATES, LZW, NONE, PACKBITS, ZSTD } from "./directory.ts";
import { noteRows } from "../../core/data/arrays/open_rows.ts";
import type { FormatRows } from "../../core/data/arrays/rows.ts";

/** Pages of a file: the shape is [pages, bands, height, width], without what is 1 and has no name. */
export interface TiffRows extends FormatRows {
  readonly dtype: DType;
  /** Bands of a block that lie together pixel by pixel. */
  readonly together: number;
  /** Places that lie in a chunk, if only some of its bands are wanted. */
  readonly wanted: { readonly first: number; readonly count: number } | null;
  readonly block: { readonly height: number; readonly width: number; readonly isTile: boolean };
  readonly height: number;
  /** Each block has one of both, in the order of chunks. */
  readonly offsets: Float64Array;
  readonly sizes: Float64Array;
  readonly compression: number;
  readonly predictor: number;
  readonly bigEndian: boolean;
  /** The element of blocks that were never written. */
  readonly fill: Uint8Array;
}

export const tiffRows = noteRows<TiffRows>(import.meta.url, {
  open: (rows, name, fileOf, share) =>
    openRowsOfChunks(rows, chunksOf(rows, fileOf(rows.file)), rows.file.path, name, share),
});

export function readTiff(rows: TiffRows): Uint8Array {
  const file = openFile(rows.file);
  try {
    const { values, wrong } = readAllChunks(rows, chunksOf(rows, file));
    if (wrong === null) return values;
    throw new UserError(
      "data",
      `${rows.file.path} is damaged: ${wrong}. Copy it again from where it came from.`,
    );
  } finally {
    file.close();
  }
}

/** Others are Deflate's. */
const RATIOS: Readonly<Record<number, number>> = {
  ...{
    [NONE]: MOST_RATIO.none,
    [PACKBITS]: MOST_RATIO.packbits,
    [LZW]: MOST_RATIO.lzw,
    [ZSTD]: MOST_RATIO.zstd,
  },
};

function chunksOf(rows: TiffRows, file: OpenFile): Chunks {
  const { chunk, width, block, offsets, sizes, compression, fill, together, wanted, height } = rows;
  const rowBytes = block.width * together * width, bytes = block.height * rowBytes;
  const down = Math.ceil(height / block.height), across = Math.ceil(rows.shape.at(-1)! / block.width);
  const unpack = openUnpack(compression), ratio = RATIOS[compression] ?? MOST_RATIO.deflate;
  let stored: ChunkBytes = new Uint8Array(0), whole: ChunkBytes = new Uint8Array(0);
  const direct = together === 1;
  const perChunk = product(chunk) * width;
  return {
    fill: null,
    isWritten: () => true,
    storedOf: (cell) => sizes[cell] === 0 ? null : { bytes: sizes[cell], ratio },
    load(cell, into) {
      const size = sizes[cell], at = offsets[cell];
      if (size === 0) {
        repeat(fill, into, 0, perChunk);
        return null;
      }
      const name = `its ${block.isTile ? "tile" : "strip"} ${cell}`;
      const left = Math.min(block.height, height - Math.floor(cell / across) % down * block.height);
      const due = block.isTile ? bytes : left * rowBytes;
      if (size > 2 * bytes + 65536) return `${name} has ${size} bytes, far more than it can need`;
      if (size * ratio + 1024 < due) return `${name} has ${size} bytes, which can't be ${due} unpacked`;
      if (at + size > rows.file.size) return `${name} lies outside of the file, or is cut off`;
      if (stored.length < size) stored = new Uint8Array(size);
      if (whole.length < bytes && !direct) whole = new Uint8Array(bytes);
      const packed = stored.subarray(0, size), out = (direct ? into : whole).subarray(0, due);
      file.read(packed, at);
      // Some writers fill the last strip up.
      if (
        !unpack(packed, out) && !(due < bytes && unpack(packed, (direct ? into : whole).subarray(0, bytes)))
      ) return `${name} (${size} bytes) can't be unpacked to ${due}`;
      undoPredictor(out, rows, due / rowBytes);
      if (!direct) spread(whole, into, due / rowBytes, rows, wanted ?? { first: 0, count: together });
      return null;
    },
  };
}

/** True where the block fills `into`. */
type Unpack = (packed: ChunkBytes, into: ChunkBytes) => boolean;

function openUnpack(compression: number): Unpack {
  if (DEFLATES.includes(compression)) return openInflate();
  switch (compression) {
    case LZW:
      return unpackLzw;
    case PACKBITS:
      return unpackBits;
    case ZSTD:
      return unpackZstd;
  }
  return (packed, into) => {
    if (packed.length < into.length) return false;
    into.set(packed.subarray(0, into.length));
    return true;
  };
}

export function unpackBits(from: Uint8Array, into: Uint8Array): boolean {
  let at = 0, out = 0;
  while (out < into.length && at < from.length) {
    const head = from[at++];
    if (head === 128) continue;
    const count = head < 128 ? head + 1 : 257 - head;
    const most = Math.min(count, into.length - out);
    if (head < 128) {
      if (at + most > from.length) return false;
      for (let i = 0; i < most; i++) into[out++] = from[at + i];
      at += count;
    } else {
      if (at >= from.length) return false;
      into.fill(from[at++], out, out += most);
    }
  }
  return out === into.length;
}

const CLEAR = 256, END = 257, MOST_CODES = 4096;

/** Each code stands for a stretch of what was unpacked before: the text of the code before it and one byte more. */
export function unpackLzw(from: Uint8Array, into: Uint8Array): boolean {
  const starts = new Int32Array(MOST_CODES), lengths = new Int32Array(MOST_CODES);
  let bits = 0, have = 0, at = 0, out = 0, width = 9, next = 258, lastStart = -1, lastLength = 0;
  while (out < into.length) {
    while (have < width) {
      if (at >= from.length) return false;
      bits = (bits << 8 | from[at++]) & 0xffffff;
      have += 8;
    }
    const code = bits >>> (have - width) & (1 << width) - 1;
    have -= width;
    if (code === END) return false;
    if (code === CLEAR) {
      width = 9;
      next = 258;
      lastStart = -1;
      continue;
    }
    const begin = out;
    if (code < CLEAR) into[out++] = code;
    else {
      if (lastStart < 0 || code > next || next >= MOST_CODES && code === next) return false;
      const isNext = code === next, start = isNext ? lastStart : starts[code];
      const end = Math.min(begin + (isNext ? lastLength + 1 : lengths[code]), into.length);
      for (let source = start; out < end; source++) into[out++] = into[source];
    }
    if (lastStart >= 0 && next < MOST_CODES) {
      starts[next] = lastStart;
      lengths[next++] = lastLength + 1;
    }
    lastStart = begin;
    lastLength = out - begin;
    // The writer knows one code more, so codes grow one early.
    if (next + 1 >= 1 << width && width < 12) width++;
  }
  return true;
}

/** Numbers come out in this machine's byte order. */
function undoPredictor(
  bytes: ChunkBytes,
  { predictor, bigEndian, width, together, block }: TiffRows,
  rows: number,
): void {
  const rowBytes = block.width * together * width;
  if (predictor === 3) {
    const scratch = new Uint8Array(rowBytes);
    for (let row = 0; row < rows; row++) {
      undoFloats(bytes.subarray(row * rowBytes, (row + 1) * rowBytes), scratch, width, together);
    }
    return;
  }
  if (bigEndian) swapBytes(bytes, width);
  if (predictor === 2) undoDifferences(bytes, width, together, block.width * together);
}

/** Each number is the difference from its left neighbour. */
function undoDifferences(bytes: ChunkBytes, width: number, together: number, row: number): void {
  const { buffer, byteOffset, byteLength } = bytes;
  if (width === 8) {
    const all = new BigUint64Array(buffer, byteOffset, byteLength / 8);
    for (let at = 0; at < all.length; at += row) {
      for (let i = at + together; i < at + row; i++) all[i] += all[i - together];
    }
    return;
  }
  const Numbers = width === 1 ? Uint8Array : width === 2 ? Uint16Array : Uint32Array;
  const all = new Numbers(buffer, byteOffset, byteLength / width);
  for (let at = 0; at < all.length; at += row) {
    for (let i = at + together; i < at + row; i++) all[i] += all[i - together];
  }
}

/** A row has the highest bytes of all its floats, then the next ones, and differences over all of them. */
function undoFloats(row: Uint8Array, scratch: Uint8Array, width: number, together: number): void {
  const count = row.length / width;
  for (let i = together; i < row.length; i++) row[i] += row[i - together];
  scratch.set(row);
  for (let byte = 0; byte < width; byte++) {
    for (let i = 0, from = (width - 1 - byte) * count; i < count; i++) {
      row[i * width + byte] = scratch[from + i];
    }
  }
}

/** Pixels of several bands become bands of pixels. */
function spread(
  from: ChunkBytes,
  into: ChunkBytes,
  rows: number,
  { block, together, width }: TiffRows,
  { first, count }: { readonly first: number; readonly count: number },
): void {
  const pixels = rows * block.width, band = block.height * block.width;
  const Numbers = width === 1 ? Uint8Array : width === 2 ? Uint16Array : Uint32Array;
  const units = Math.max(1, width / 4), each = Math.min(width, 4);
  const source = new Numbers(from.buffer, from.byteOffset, from.byteLength / each);
  const target = new Numbers(into.buffer, into.byteOffset, into.byteLength / each);
  for (let b = 0; b < count; b++) {
    for (let i = 0; i < pixels; i++) {
      const at = (i * together + first + b) * units, to = (b * band + i) * units;
      target[to] = source[at];
      if (units === 2) target[to + 1] = source[at + 1];
    }
  }
}
