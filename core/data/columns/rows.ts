// Threads get the places of an array's rows as plain data.
import type { DType } from "../../../ffi/dtype.ts";
import type { StoreRows } from "../formats/zarr/chunk_files.ts";
import type { Rule } from "./variables.ts";

export interface FileMark {
  readonly path: string;
  readonly size: number;
  readonly changed: number;
}

export interface FileRows {
  readonly layout: "file";
  readonly file: FileMark;
  readonly begin: number;
  /** `bytes` is a row, `step` the distance from one row to the next. */
  readonly bytes: number;
  readonly step: number;
  /** Records put rows in blocks: rows in a block, bytes from block to block. */
  readonly blocks?: { readonly rows: number; readonly step: number };
  readonly swapped: boolean;
}

export interface ChunkTable {
  readonly addresses: Float64Array;
  readonly sizes: Uint32Array;
  /** Bit i means that filter i was not applied. */
  readonly masks: Uint32Array;
}

export interface ChunkRows {
  readonly layout: "chunks";
  readonly file: FileMark;
  readonly shape: readonly number[];
  readonly chunk: readonly number[];
  readonly lead: number;
  readonly width: number;
  readonly swapped: boolean;
  readonly table: ChunkTable;
  readonly filters: readonly { readonly id: number; readonly width: number }[];
  /** Unwritten chunks hold this element, in the byte order of the others. */
  readonly fill: Uint8Array | null;
}

export interface LibraryRows {
  readonly layout: "library";
  readonly file: FileMark;
  readonly dataset: string;
  readonly shape: readonly number[];
  readonly lead: number;
  readonly width: number;
  /** The library reads this many indices of the first dimension at once. */
  readonly together: number;
  /** The rows may lie in other files (--external-files). */
  readonly elsewhere: boolean;
}

export type Rows = FileRows | ChunkRows | LibraryRows | StoreRows;

/** A part is one column of a sample's input, or several side by side. */
export interface ColumnPart {
  readonly name: string;
  readonly rows: Rows;
  readonly count: number;
  readonly raw: DType;
  readonly rule: Rule | null;
  /** [height, width, channels] of an image whose channels are last; a sample has them first. */
  readonly channelsLast: readonly number[] | null;
}

/** Rows come in this machine's byte order. */
export interface RowReader {
  read(row: number, into: Uint8Array): void;
  groupOf?(row: number): number;
  close(): void;
}

/** The file is its opener's. */
export type ReadsRows = Pick<RowReader, "read"> & Partial<RowReader>;

// The arithmetic is done once: which chunks have a row in them, and where.

/** A piece is a run of a row's bytes inside one chunk. */
interface Piece {
  readonly cell: number;
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
}

interface ChunkGrid {
  readonly chunkBytes: number;
  readonly rowsInChunk: number;
  /** The pieces of a row go chunk after chunk, through `cells` of them. */
  readonly pieces: readonly Piece[];
  readonly cells: number;
  /** It gives the chunk at a row's beginning, and the row's offset in its chunks. */
  placeOf(row: number): { cell: number; inside: number };
}

type Shape = Pick<ChunkRows, "shape" | "chunk" | "lead" | "width">;

export function chunkGridOf({ shape, chunk, lead, width }: Shape): ChunkGrid {
  const grid = shape.map((size, d) => Math.ceil(size / chunk[d]));
  const gridSteps = steps(grid, 1), chunkSteps = steps(chunk, width);
  const place = { cell: 0, inside: 0 };
  return {
    chunkBytes: product(chunk) * width,
    rowsInChunk: product(chunk.slice(0, lead)),
    ...piecesOf(shape, chunk, lead, width),
    placeOf(row) {
      place.cell = place.inside = 0;
      for (let d = lead - 1, rest = row; d >= 0; d--) {
        const at = rest % shape[d];
        rest = Math.floor(rest / shape[d]);
        place.cell += Math.floor(at / chunk[d]) * gridSteps[d];
        place.inside += at % chunk[d] * chunkSteps[d];
      }
      return place;
    },
  };
}

function piecesOf(
  shape: readonly number[],
  chunk: readonly number[],
  lead: number,
  width: number,
): Pick<ChunkGrid, "pieces" | "cells"> {
  const rank = shape.length;
  // From dimension `run` on, a row and a chunk are contiguous alike.
  let run = rank - 1;
  while (run > lead && chunk[run] === shape[run]) run--;
  const pieces: Piece[] = [];
  if (lead === rank) return { pieces: [{ cell: 0, from: 0, to: 0, bytes: width }], cells: 1 };
  const grid = shape.map((size, d) => Math.ceil(size / chunk[d]));
  const gridSteps = steps(grid, 1), chunkSteps = steps(chunk, width), rowSteps = steps(shape, width);
  let cells = 0;
  const inside = (d: number, cell: number, origin: readonly number[], from: number, to: number) => {
    const first = origin[d] * chunk[d];
    const length = Math.min(chunk[d], shape[d] - first);
    if (d === run) {
      pieces.push({ cell, from, to: to + first * rowSteps[d], bytes: length * rowSteps[d] });
      return;
    }
    for (let i = 0; i < length; i++) {
      inside(d + 1, cell, origin, from + i * chunkSteps[d], to + (first + i) * rowSteps[d]);
    }
  };
  const visit = (d: number, cell: number, origin: number[]) => {
    if (d === rank) {
      cells++;
      return inside(lead, cell, origin, 0, 0);
    }
    for (let g = 0; g < grid[d]; g++) {
      origin[d] = g;
      visit(d + 1, cell + g * gridSteps[d], origin);
    }
  };
  visit(lead, 0, shape.map(() => 0));
  return { pieces, cells };
}

/** Strides are row-major; the last dimension has a stride of `unit`. */
function steps(sizes: readonly number[], unit: number): number[] {
  const found = sizes.map(() => unit);
  for (let d = sizes.length - 2; d >= 0; d--) found[d] = found[d + 1] * sizes[d + 1];
  return found;
}

export const product = (sizes: readonly number[]): number => sizes.reduce((total, size) => total * size, 1);

const LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** `bytes` begins at a multiple of `size` in its buffer. */
export function swapBytes(bytes: Uint8Array, size: number): void {
  if (!LITTLE || size === 1) return;
  const { buffer, byteOffset, byteLength } = bytes;
  if (size === 2) {
    const words = new Uint16Array(buffer, byteOffset, byteLength / 2);
    for (let i = 0; i < words.length; i++) words[i] = words[i] << 8 | words[i] >> 8;
    return;
  }
  const words = new Uint32Array(buffer, byteOffset, byteLength / 4);
  for (let i = 0; i < words.length; i++) {
    const w = words[i];
    words[i] = w << 24 | (w & 0xff00) << 8 | w >>> 8 & 0xff00 | w >>> 24;
  }
  if (size === 4) return;
  for (let i = 0; i < words.length; i += 2) {
    const first = words[i];
    words[i] = words[i + 1];
    words[i + 1] = first;
  }
}
