// Rows and the whole of an array that is stored in chunks, wherever a chunk lies and however it is packed.
import { BadSample, chunkGridOf, type ChunkShape, type ReadsRows } from "./rows.ts";
import { product } from "./numbers.ts";
import { type ChunkBytes, repeat } from "../codecs/bytes.ts";

/** It fills `into`; the result says what is wrong with the chunk, if anything. */
export type LoadChunk = (cell: number, into: ChunkBytes) => string | null;

export interface Chunks {
  readonly load: LoadChunk;
  /** Bytes that are stored of a chunk, and how many one of them may become; null where nobody knows. */
  storedOf?(cell: number): { readonly bytes: number; readonly ratio: number } | null;
  /** These chunks will be wanted next: what is far away begins to come. */
  expect?(cells: readonly number[]): void;
  isWritten(cell: number): boolean;
  /** Unwritten chunks hold this element. */
  readonly fill: Uint8Array | null;
}

const LARGE = 32 * 2 ** 20;

/** Null means that memory may be taken for the chunk: a small file may say that it has a very large one. */
function wrongWith({ storedOf }: Chunks, cell: number, chunkBytes: number): string | null {
  if (chunkBytes <= LARGE) return null;
  const stored = storedOf?.(cell);
  if (!stored || stored.bytes * stored.ratio + 1024 >= chunkBytes) return null;
  return `what is stored of it has ${stored.bytes} bytes, which can't become the ${chunkBytes} of a chunk`;
}

/** A reader keeps this much of unpacked chunks, beside those of one row. */
export const KEPT_BYTES = 16 * 2 ** 20;

/** `path` and `name` are for sentences about damaged chunks; `share` is of the chunks that are kept. */
export function openRowsOfChunks(
  shape: ChunkShape,
  chunks: Chunks,
  path: string,
  name: string,
  share = 1,
): ReadsRows {
  const { isWritten, fill } = chunks;
  const { placeOf, pieces, cells, chunkBytes, rowsInChunk } = chunkGridOf(shape);
  const most = rowsInChunk === 1 ? 1 : Math.max(Math.floor(share * KEPT_BYTES / chunkBytes), cells);
  const kept = new Map<number, ChunkBytes>();

  const refuse = (wrong: string | null): void => {
    if (wrong !== null) throw new BadSample(path, `lies in a damaged chunk of "${name}": ${wrong}`);
  };
  const load = (cell: number, into: ChunkBytes): void => refuse(chunks.load(cell, into));
  const chunkAt = (cell: number): ChunkBytes => {
    const known = kept.get(cell);
    if (known) kept.delete(cell); // and in again, as the newest
    if (!known) refuse(wrongWith(chunks, cell, chunkBytes));
    const found = known ?? free();
    if (!known) load(cell, found);
    kept.set(cell, found);
    return found;
  };
  const free = (): ChunkBytes => {
    if (kept.size < most) return new Uint8Array(chunkBytes);
    const [[oldest, bytes]] = kept;
    kept.delete(oldest);
    return bytes;
  };
  const inRow = chunks.expect && cells > 1 ? [...new Set(pieces.map(({ cell }) => cell))] : [];
  return {
    read(row, into) {
      const { cell: first, inside } = placeOf(row);
      if (inRow.length > 0) {
        chunks.expect!(
          inRow.map((cell) => first + cell).filter((cell) => !kept.has(cell) && isWritten(cell)),
        );
      }
      for (const { cell, from, to, bytes } of pieces) {
        const at = first + cell;
        if (!isWritten(at)) repeat(fill!, into, to, bytes);
        else if (bytes === chunkBytes && into.length === chunkBytes) {
          refuse(wrongWith(chunks, at, chunkBytes));
          load(at, into as ChunkBytes);
        } else copy(chunkAt(at), inside + from, into, to, bytes);
      }
    },
    groupOf: rowsInChunk === 1 ? undefined : (row) => placeOf(row).cell,
    keeps: pieces.length === 1 && pieces[0].bytes === chunkBytes && rowsInChunk === 1 ? 0 : most * chunkBytes,
  };
}

/** Below this many bytes a loop is faster than a view. */
const SHORT = 32;

function copy(from: Uint8Array, at: number, into: Uint8Array, to: number, bytes: number): void {
  if (bytes > SHORT) into.set(from.subarray(at, at + bytes), to);
  else for (let i = 0; i < bytes; i++) into[to + i] = from[at + i];
}

const AHEAD = 16;

/** Only written chunks are visited, each cut along the edges of the whole. */
export function readAllChunks(
  { shape, chunk, width }: Omit<ChunkShape, "lead">,
  chunks: Chunks,
): { values: Uint8Array; wrong: string | null } {
  const { load, isWritten, fill } = chunks;
  const values = new Uint8Array(product(shape) * width);
  if (fill) repeat(fill, values, 0, values.length);
  const rank = shape.length, grid = shape.map((size, d) => Math.ceil(size / chunk[d]));
  const far = shape.map((_, d) => product(shape.slice(d + 1)) * width);
  const near = chunk.map((_, d) => product(chunk.slice(d + 1)) * width);
  // From this dimension on, the whole and a chunk are contiguous alike.
  let run = rank - 1;
  while (run > 0 && chunk[run] === shape[run]) run--;
  let bytes: ChunkBytes | undefined;
  const first = shape.map(() => 0);
  for (let cell = 0, cells = product(grid); cell < cells; cell++) {
    if (!isWritten(cell)) continue;
    for (let d = rank - 1, rest = cell; d >= 0; d--) {
      first[d] = rest % grid[d] * chunk[d];
      rest = Math.floor(rest / grid[d]);
    }
    if (cell % AHEAD === 0) {
      chunks.expect?.(Array.from({ length: Math.min(AHEAD, cells - cell) }, (_, i) => cell + i));
    }
    const small = bytes ? null : wrongWith(chunks, cell, product(chunk) * width);
    if (small !== null) return { values, wrong: small };
    const found = bytes ??= new Uint8Array(product(chunk) * width);
    const wrong = load(cell, found);
    if (wrong !== null) return { values, wrong };
    const copy = (d: number, from: number, to: number): void => {
      const count = Math.min(chunk[d], shape[d] - first[d]);
      const start = to + first[d] * far[d];
      if (d < run) {
        for (let i = 0; i < count; i++) copy(d + 1, from + i * near[d], start + i * far[d]);
      } else values.set(found.subarray(from, from + count * far[d]), start);
    };
    if (rank === 0) values.set(found);
    else copy(0, 0, 0);
  }
  return { values, wrong: null };
}
