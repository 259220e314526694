// Where the rows of an array lie in a file: plain data that threads are sent, and the arithmetic of chunks and byte
// order on it.
import type { DType } from "../../../ffi/dtype.ts";
import type { Rule } from "./variables.ts";

// The rows of an array lie in a file: where, as plain data that threads are sent.

/** A file as it was when the data was opened. */
export interface FileMark {
  readonly path: string;
  readonly size: number;
  /** Milliseconds. */
  readonly changed: number;
}

/** Uncompressed, at places that follow from a row's number. */
export interface FileRows {
  readonly layout: "file";
  readonly file: FileMark;
  /** The place of row 0. */
  readonly begin: number;
  /** Bytes of a row, and from one row to the next. */
  readonly bytes: number;
  readonly step: number;
  /** Where rows come in blocks with something between them (records): rows in a block, bytes from block to block. */
  readonly blocks?: { readonly rows: number; readonly step: number };
  readonly swapped: boolean;
}

/** The place of each chunk; in shared memory. */
export interface ChunkTable {
  /** Row-major over the grid of chunks; -1 for a chunk that was never written. */
  readonly addresses: Float64Array;
  readonly sizes: Uint32Array;
  /** Bit i: filter i was not applied. */
  readonly masks: Uint32Array;
}

/** HDF5 chunks, packed by filters that we undo ourselves. */
export interface ChunkRows {
  readonly layout: "chunks";
  readonly file: FileMark;
  readonly shape: readonly number[];
  readonly chunk: readonly number[];
  /** How many dimensions, from the first on, number the rows. */
  readonly lead: number;
  /** Bytes of an element. */
  readonly width: number;
  readonly swapped: boolean;
  readonly table: ChunkTable;
  readonly filters: readonly { readonly id: number; readonly width: number }[];
  /** One element of chunks that were never written, in the byte order of the others. */
  readonly fill: Uint8Array | null;
}

/** Any other way of HDF5: its library reads the rows. */
export interface LibraryRows {
  readonly layout: "library";
  readonly file: FileMark;
  readonly dataset: string;
  readonly shape: readonly number[];
  readonly lead: number;
  readonly width: number;
  /** Indices of the first dimension that are read at once. */
  readonly together: number;
  /** True where it may lie in other files (--external-files). */
  readonly elsewhere: boolean;
}

export type Rows = FileRows | ChunkRows | LibraryRows;

/** One column of a sample's input, or several that lie side by side. */
export interface ColumnPart {
  readonly name: string;
  readonly rows: Rows;
  /** Elements of a row. */
  readonly count: number;
  /** As they are stored. */
  readonly raw: DType;
  readonly rule: Rule | null;
  /** [height, width, channels] where a row is an image with its channels last: they come first in a sample. */
  readonly channelsLast: readonly number[] | null;
}

/** Reads rows in this machine's byte order. */
export interface RowReader {
  read(row: number, into: Uint8Array): void;
  /** The chunk of a row, where several rows share one. */
  groupOf?(row: number): number;
  close(): void;
}

/** The same from a file that somebody else has opened. */
export type ReadsRows = Pick<RowReader, "read"> & Partial<RowReader>;

// Arithmetic, done once, tells which chunks have a row in them, and where in each.

/** A run of bytes of a row that lie together in a chunk. */
export interface Piece {
  /** The chunk, counted from the one at the row's beginning. */
  readonly cell: number;
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
}

export interface ChunkGrid {
  readonly chunkBytes: number;
  readonly rowsInChunk: number;
  /** For one row: chunk after chunk, in `cells` of them. */
  readonly pieces: readonly Piece[];
  readonly cells: number;
  /** The chunk at a row's beginning, and how many bytes the row is into its chunks. */
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
  // From dimension `run` on, a row and a chunk go on in the same way.
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

/** From one index to the next in each dimension, row-major, where the last is `unit` apart. */
function steps(sizes: readonly number[], unit: number): number[] {
  const found = sizes.map(() => unit);
  for (let d = sizes.length - 2; d >= 0; d--) found[d] = found[d + 1] * sizes[d + 1];
  return found;
}

export const product = (sizes: readonly number[]): number => sizes.reduce((total, size) => total * size, 1);

// Big-endian numbers -> this machine's byte order, in place.

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
