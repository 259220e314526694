// Rows of a chunked HDF5 dataset are found in the table of chunks, and unpacked by the filters that every
// library has.
import { openInflate } from "../../../../ffi/codecs.ts";
import {
  chunkGridOf,
  type ChunkRows,
  type FileRows,
  product,
  type ReadsRows,
  swapBytes,
} from "../../columns/rows.ts";
import { BadSample } from "../../reading/reader.ts";
import { type OpenFile, openFile } from "../../files.ts";

function repeat(element: Uint8Array, into: Uint8Array, at: number, bytes: number): void {
  if (bytes === 0) return;
  into.set(element, at);
  for (let done = element.length; done < bytes;) {
    const more = Math.min(done, bytes - done);
    into.copyWithin(at + done, at, at + more);
    done += more;
  }
}

// The filters of HDF5 that every library has, undone: gzip, shuffle, checksum.

export const DEFLATE = 1, SHUFFLE = 2, FLETCHER32 = 3;

type FilterBytes = Uint8Array<ArrayBuffer>;

/** The result says what is wrong with the chunk, if anything. */
type Unpack = (stored: FilterBytes, mask: number, into: FilterBytes) => string | null;

function openFilters(filters: ChunkRows["filters"], chunkBytes: number): Unpack {
  const inflate = openInflate();
  const backwards = filters.map((filter, i) => ({ ...filter, bit: 1 << i })).reverse();
  const spare: [FilterBytes, FilterBytes] = [new Uint8Array(0), new Uint8Array(0)];
  let turn = 0;
  const scratch = (bytes: number): FilterBytes => {
    turn = 1 - turn;
    if (spare[turn].length < bytes) spare[turn] = new Uint8Array(bytes);
    return spare[turn].subarray(0, bytes);
  };
  return (stored, mask, into) => {
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
      const out = last ? into : scratch(chunkBytes + inside);
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

function unshuffle(from: Uint8Array, to: Uint8Array, width: number): void {
  const count = Math.floor(from.length / width);
  if (width === 4 && count % 4 === 0 && from.byteOffset % 4 === 0 && to.byteOffset % 4 === 0) {
    unshuffleWords(from, to, count / 4);
  } else {
    for (let byte = 0; byte < width; byte++) {
      for (let i = 0, at = byte, source = byte * count; i < count; i++, at += width) {
        to[at] = from[source + i];
      }
    }
  }
  for (let i = count * width; i < from.length; i++) to[i] = from[i];
}

function unshuffleWords(from: Uint8Array, to: Uint8Array, quarter: number): void {
  const bytes = new Uint32Array(from.buffer, from.byteOffset, 4 * quarter);
  const words = new Uint32Array(to.buffer, to.byteOffset, 4 * quarter);
  for (let i = 0, at = 0; i < quarter; i++, at += 4) {
    const a = bytes[i], b = bytes[i + quarter], c = bytes[i + 2 * quarter], d = bytes[i + 3 * quarter];
    words[at] = a & 0xff | (b & 0xff) << 8 | (c & 0xff) << 16 | d << 24;
    words[at + 1] = a >>> 8 & 0xff | b & 0xff00 | (c & 0xff00) << 8 | (d & 0xff00) << 16;
    words[at + 2] = a >>> 16 & 0xff | b >>> 8 & 0xff00 | c & 0xff0000 | (d & 0xff0000) << 8;
    words[at + 3] = a >>> 24 | b >>> 16 & 0xff00 | c >>> 8 & 0xff0000 | d & 0xff000000;
  }
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

type Bytes = Uint8Array<ArrayBuffer>;

/** A reader keeps this much of unpacked chunks, beside those of one row. */
const KEPT_BYTES = 16 * 2 ** 20;

export function openChunkRows(rows: ChunkRows, name: string, file: OpenFile): ReadsRows {
  const { table, width, swapped, fill } = rows;
  const { placeOf, pieces, cells, chunkBytes, rowsInChunk } = chunkGridOf(rows);
  const most = rowsInChunk === 1 ? 1 : Math.max(Math.floor(KEPT_BYTES / chunkBytes), cells);
  const kept = new Map<number, Bytes>();
  const unpacked = openChunks(rows, file);

  const load = (cell: number, into: Bytes): void => {
    const wrong = unpacked(cell, into);
    if (wrong === null) return;
    throw new BadSample(rows.file.path, `lies in a damaged chunk of "${name}": ${wrong}`);
  };
  const chunkAt = (cell: number): Bytes => {
    const known = kept.get(cell);
    if (known) kept.delete(cell); // and in again, as the newest
    const found = known ?? room();
    if (!known) load(cell, found);
    kept.set(cell, found);
    return found;
  };
  const room = (): Bytes => {
    if (kept.size < most) return new Uint8Array(chunkBytes);
    const [[oldest, bytes]] = kept;
    kept.delete(oldest);
    return bytes;
  };
  return {
    read(row, into) {
      const { cell: first, inside } = placeOf(row);
      for (const { cell, from, to, bytes } of pieces) {
        const at = first + cell;
        if (table.addresses[at] < 0) repeat(fill!, into, to, bytes);
        else if (bytes === chunkBytes && into.length === chunkBytes) load(at, into as Bytes);
        else copy(chunkAt(at), inside + from, into, to, bytes);
      }
      if (swapped) swapBytes(into, width);
    },
    groupOf: rowsInChunk === 1 ? undefined : (row) => placeOf(row).cell,
  };
}

/** It fills `into`; the result says what is wrong with the chunk, if anything. */
function openChunks(
  { table, filters, chunk, width }: ChunkRows,
  file: OpenFile,
): (cell: number, into: Bytes) => string | null {
  const unpack = openFilters(filters, product(chunk) * width);
  let packed = new Uint8Array(0);
  return (cell, into) => {
    const size = table.sizes[cell], at = table.addresses[cell];
    if (filters.length === 0) {
      file.read(into, at);
      return null;
    }
    if (packed.length < size) packed = new Uint8Array(size * 2);
    const stored = packed.subarray(0, size);
    file.read(stored, at);
    const wrong = unpack(stored, table.masks[cell], into);
    return wrong && `what is stored of it (${size} bytes at ${at}) ${wrong}`;
  };
}

/** Below this many bytes a loop is faster than a view. */
const SHORT = 32;

function copy(from: Uint8Array, at: number, into: Uint8Array, to: number, bytes: number): void {
  if (bytes > SHORT) into.set(from.subarray(at, at + bytes), to);
  else for (let i = 0; i < bytes; i++) into[to + i] = from[at + i];
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
    const values = new Uint8Array(product(rows.shape) * width);
    if (rows.fill) repeat(rows.fill, values, 0, values.length);
    const load = openChunks(rows, file);
    const wrong = eachChunk(rows, values, load);
    if (rows.swapped) swapBytes(values, width);
    return { values, wrong };
  } finally {
    file.close();
  }
}

type DatasetBytes = Uint8Array<ArrayBuffer>;

/** Only written chunks are visited, each cut along the edges of the whole. */
function eachChunk(
  { shape, chunk, width, table }: ChunkRows,
  values: Uint8Array,
  load: (cell: number, into: DatasetBytes) => string | null,
): string | null {
  const rank = shape.length, grid = shape.map((size, d) => Math.ceil(size / chunk[d]));
  const far = shape.map((_, d) => product(shape.slice(d + 1)) * width);
  const near = chunk.map((_, d) => product(chunk.slice(d + 1)) * width);
  // From this dimension on, the whole and a chunk are contiguous alike.
  let run = rank - 1;
  while (run > 0 && chunk[run] === shape[run]) run--;
  const bytes = new Uint8Array(table.addresses.some((at) => at >= 0) ? product(chunk) * width : 0);
  const first = shape.map(() => 0);
  for (let cell = 0; cell < table.addresses.length; cell++) {
    if (table.addresses[cell] < 0) continue;
    for (let d = rank - 1, rest = cell; d >= 0; d--) {
      first[d] = rest % grid[d] * chunk[d];
      rest = Math.floor(rest / grid[d]);
    }
    const wrong = load(cell, bytes);
    if (wrong !== null) return wrong;
    const copy = (d: number, from: number, to: number): void => {
      const count = Math.min(chunk[d], shape[d] - first[d]);
      const start = to + first[d] * far[d];
      if (d < run) {
        for (let i = 0; i < count; i++) copy(d + 1, from + i * near[d], start + i * far[d]);
      } else values.set(bytes.subarray(from, from + count * far[d]), start);
    };
    copy(0, 0, 0);
  }
  return null;
}
