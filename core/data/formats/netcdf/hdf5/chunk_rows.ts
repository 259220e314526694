// Rows of a chunked HDF5 dataset are found in the table of chunks, and unpacked by the filters that every
// library has.
import { openInflate } from "../../../../../ffi/codecs.ts";
import { type ChunkBytes, MOST_RATIO, swapBytes } from "../../../codecs/bytes.ts";
import { type Chunks, type LoadChunk, openRowsOfChunks, readAllChunks } from "../../../arrays/chunks.ts";
import type { FileRows, FormatRows, ReadsRows } from "../../../arrays/rows.ts";
import { product } from "../../../arrays/numbers.ts";
import { type OpenFile, openFile } from "../../../arrays/files.ts";
import { unshuffle } from "../../../codecs/blosc.ts";
import { noteRows } from "../../../arrays/open_rows.ts";

// The filters of HDF5 that every library has, undone: gzip, shuffle, checksum.

export const DEFLATE = 1, SHUFFLE = 2, FLETCHER32 = 3;

/** The result says what is wrong with the chunk, if anything. */
type Unpack = (stored: ChunkBytes, mask: number, into: ChunkBytes) => string | null;

type Scratch = "stored" | "ahead" | "one" | "other";

/** A thread unpacks one chunk after the other, of whichever file: the readers of hundreds of files share this memory. */
const shared: Record<Scratch, ChunkBytes> = {
  stored: new Uint8Array(0),
  ahead: new Uint8Array(0),
  one: new Uint8Array(0),
  other: new Uint8Array(0),
};
const MOST_SHARED = 64 * 2 ** 20;

function scratch(which: Scratch, bytes: number): ChunkBytes {
  if (bytes > MOST_SHARED) return new Uint8Array(bytes);
  if (shared[which].length < bytes) shared[which] = new Uint8Array(Math.min(2 * bytes, MOST_SHARED));
  return shared[which].subarray(0, bytes);
}

function openFilters(filters: ChunkRows["filters"], chunkBytes: number): Unpack {
  const inflate = openInflate();
  const backwards = filters.map((filter, i) => ({ ...filter, bit: 1 << i })).reverse();
  return (stored, mask, into) => {
    let turn: Scratch = "one";
    const due = backwards.filter(({ bit }) => !(mask & bit));
    let now = stored;
    for (const [i, { id, width }] of due.entries()) {
      if (id === FLETCHER32) {
        const end = now.length - 4;
        if (end < 0 || !checks(now.subarray(0, end), now.subarray(end))) return "fails its checksum";
        now = now.subarray(0, end);
        continue;
      }
      // Checksums that were written before this filter are still part of its output.
      const inside = due.slice(i + 1).filter((filter) => filter.id === FLETCHER32).length * 4;
      const last = i === due.length - 1;
      const out = last ? into : scratch(turn = turn === "one" ? "other" : "one", chunkBytes + inside);
      if (id === DEFLATE) {
        if (!inflate(now, out)) return "can't be unpacked";
      } else {
        if (now.length !== out.length) return "has another size than its header says";
        unshuffle(now, out, width);
      }
      now = out;
    }
    if (now.length !== into.length) return "has another size than its header says";
    if (now !== into) into.set(now);
    return null;
  };
}

/** Fletcher's sum runs over big-endian words of 16 bits; HDF5 before 1.6.3 swapped its bytes. */
function checks(bytes: Uint8Array, found: Uint8Array): boolean {
  let a = 0, b = 0;
  const fold = () => {
    a = (a & 0xffff) + (a >>> 16);
    b = (b & 0xffff) + (b >>> 16);
  };
  const even = bytes.length & ~1;
  for (let i = 0; i < even;) {
    for (const end = Math.min(even, i + 720); i < end; i += 2) {
      a += bytes[i] << 8 | bytes[i + 1];
      b += a;
    }
    fold();
  }
  if (even < bytes.length) {
    a += bytes[even] << 8;
    b += a;
    fold();
  }
  fold();
  const [w, x, y, z] = found;
  const stored = (w | x << 8 | y << 16 | z << 24) >>> 0;
  const old = (x | w << 8 | z << 16 | y << 24) >>> 0;
  const sum = (b << 16 | a) >>> 0;
  return sum === stored || sum === old;
}

export interface ChunkTable {
  readonly addresses: Float64Array;
  readonly sizes: Uint32Array;
  /** Bit i means that filter i was not applied. */
  readonly masks: Uint32Array;
}

export interface ChunkRows extends FormatRows {
  readonly swapped: boolean;
  readonly table: ChunkTable;
  readonly filters: readonly { readonly id: number; readonly width: number }[];
  /** Unwritten chunks hold this element, in the byte order of the others. */
  readonly fill: Uint8Array | null;
}

export function openChunkRows(rows: ChunkRows, name: string, file: OpenFile, share = 1): ReadsRows {
  const reader = openRowsOfChunks(rows, chunksOf(rows, file), rows.file.path, name, share);
  const { swapped, width } = rows;
  if (!swapped) return reader;
  return {
    ...reader,
    read(row, into) {
      reader.read(row, into);
      swapBytes(into, width);
    },
  };
}

/** The address of this module, by which threads open such rows. */
export const chunkRows = noteRows<ChunkRows>(import.meta.url, {
  open: (rows, name, fileOf, share) => openChunkRows(rows, name, fileOf(rows.file), share),
});

const chunksOf = (rows: ChunkRows, file: OpenFile): Chunks => {
  const { table: { addresses, sizes }, fill, filters } = rows;
  const ratio = filters.some(({ id }) => id === DEFLATE) ? MOST_RATIO.deflate : MOST_RATIO.none;
  return {
    load: openChunks(rows, file),
    isWritten: (cell) => addresses[cell] >= 0,
    storedOf: (cell) => ({ bytes: sizes[cell], ratio }),
    fill,
  };
};

function openChunks({ table, filters, chunk, width, file: mark }: ChunkRows, file: OpenFile): LoadChunk {
  const unpack = openFilters(filters, product(chunk) * width), readStored = openStored(file, mark.size);
  return (cell, into) => {
    const size = table.sizes[cell], at = table.addresses[cell];
    if (filters.length === 0) {
      file.read(into, at);
      return null;
    }
    const stored = readStored(cell, at, size);
    const wrong = unpack(stored, table.masks[cell], into);
    return wrong && `what is stored of it (${size} bytes at ${at}) ${wrong}`;
  };
}

// Small chunks that are wanted one after the other are read many at once, as they mostly lie side by side.

const AHEAD_BYTES = 512 * 2 ** 10, SMALL_BYTES = AHEAD_BYTES / 8;
/** These are the bytes of one file that a thread read last in this way. */
const ahead: { of: OpenFile | null; from: number; bytes: ChunkBytes } = {
  of: null,
  from: 0,
  bytes: new Uint8Array(0),
};

function openStored(file: OpenFile, end: number): (cell: number, at: number, size: number) => ChunkBytes {
  let next = -1;
  return (cell, at, size) => {
    const goesOn = cell === next && size <= SMALL_BYTES && at + size <= end;
    next = cell + 1;
    const exists = () =>
      ahead.of === file && at >= ahead.from && at + size <= ahead.from + ahead.bytes.length;
    if (goesOn && !exists()) {
      ahead.of = null; // a read that fails leaves nothing
      ahead.bytes = scratch("ahead", Math.min(AHEAD_BYTES, end - at));
      file.read(ahead.bytes, ahead.from = at);
      ahead.of = file;
    }
    if (goesOn) return ahead.bytes.subarray(at - ahead.from, at - ahead.from + size);
    const stored = scratch("stored", size);
    file.read(stored, at);
    return stored;
  };
}

export function readWhole(
  rows: FileRows | ChunkRows,
  width: number,
): { values: Uint8Array; wrong: string | null } {
  const file = openFile(rows.file);
  try {
    if (rows.layout === "file") {
      const values = new Uint8Array(rows.bytes);
      file.read(values, rows.begin);
      if (rows.swapped) swapBytes(values, width);
      return { values, wrong: null };
    }
    const whole = readAllChunks(rows, chunksOf(rows, file));
    if (rows.swapped) swapBytes(whole.values, width);
    return whole;
  } finally {
    file.close();
  }
}
