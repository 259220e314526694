// Rows of an HDF5 dataset in chunks: found in the table of chunks, unpacked here. Chunks with several rows in them are
// kept for the next of these. May import its siblings, reading.
import { BadSample } from "../reading/reader.ts";
import { swapBytes } from "../swap_bytes.ts";
import { gridOf, product } from "./chunk_grid.ts";
import type { OpenFile } from "./file.ts";
import { repeat } from "./fill.ts";
import { openFilters } from "./filters.ts";
import type { ChunkRows, ReadsRows } from "./rows.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** Unpacked chunks that a reader keeps at most, beside those of one row. */
const KEPT_BYTES = 16 * 2 ** 20;

/** The file stays its opener's to close. */
export function openChunkRows(rows: ChunkRows, name: string, file: OpenFile): ReadsRows {
  const { table, width, swapped, fill } = rows;
  const { placeOf, pieces, cells, chunkBytes, rowsInChunk } = gridOf(rows);
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
    const [oldest, bytes] = kept.entries().next().value!;
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

/** Brings a chunk, unpacked, into `into`, which it fills; in place of that, what is wrong with it. */
export function openChunks(
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

/** Below this many bytes a loop is faster than a view of them. */
const SHORT = 32;

function copy(from: Uint8Array, at: number, into: Uint8Array, to: number, bytes: number): void {
  if (bytes > SHORT) into.set(from.subarray(at, at + bytes), to);
  else for (let i = 0; i < bytes; i++) into[to + i] = from[at + i];
}
