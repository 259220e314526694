// Threads get the places of an array's rows as plain data.
import type { DType } from "../../../ffi/dtype.ts";
import type { StoreRows } from "../formats/zarr/chunk_files.ts";
import type { TiffRows } from "../formats/tiff/blocks.ts";
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

/** Each row has a place of its own, and all begin with the same bytes, which are no part of it. */
export interface PlacedRows {
  readonly layout: "placed";
  readonly file: FileMark;
  readonly at: Float64Array;
  readonly head: Uint8Array;
  readonly bytes: number;
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

/** The rows of one part follow those of the part before. */
export interface PartedRows {
  readonly layout: "parts";
  /** Part i has the rows from starts[i] to starts[i + 1]. */
  readonly starts: readonly number[];
  readonly parts: readonly Rows[];
  /** Files may be packed each in its own way: these are in the place of the column's rule. */
  readonly rules?: readonly (Rule | null)[];
}

/** A row is made of some of the numbers of several rows of `rows`, or of one. */
export interface PickedRows {
  readonly layout: "picked";
  readonly rows: Rows;
  /** A row is counted along these dimensions: place p of one is `step` * places[p] rows further. */
  readonly outer: readonly { readonly places: Int32Array; readonly step: number }[];
  /** These rows are taken from there on. */
  readonly inner: Int32Array;
  /** Bytes of one of `rows`, and the runs of bytes that are taken of it: from, count, from, count, ... */
  readonly bytes: number;
  readonly runs: Int32Array;
}

/** Rows are held in memory, and come again after the last: a mask of land is the same for all samples. */
export interface HeldRows {
  readonly layout: "held";
  readonly path: string;
  readonly values: Uint8Array;
  readonly bytes: number;
}

export type StoredRows = FileRows | ChunkRows | LibraryRows | StoreRows | TiffRows | PlacedRows;
export type Rows = StoredRows | PartedRows | PickedRows | HeldRows;

/** The rows as they are stored, file by file. */
export function storedRows(rows: Rows): readonly StoredRows[] {
  switch (rows.layout) {
    case "parts":
      return rows.parts.flatMap(storedRows);
    case "picked":
      return storedRows(rows.rows);
    case "held":
      return [];
  }
  return [rows];
}

/** Null means that one rule holds for all rows. */
export function rulesOf(rows: Rows): readonly (Rule | null)[] | null {
  return rows.layout === "picked" ? rulesOf(rows.rows) : rows.layout === "parts" ? rows.rules ?? null : null;
}

export const withRules = (rows: Rows, rules: readonly (Rule | null)[]): Rows =>
  rows.layout === "picked"
    ? { ...rows, rows: withRules(rows.rows, rules) }
    : rows.layout === "parts"
    ? { ...rows, rules }
    : rows;

/** Messages name the file of a part. */
export function pathOf(rows: Rows, part = 0): string {
  switch (rows.layout) {
    case "parts":
      return pathOf(rows.parts[part]);
    case "picked":
      return pathOf(rows.rows, part);
    case "held":
      return rows.path;
  }
  return rows.file.path;
}

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
  /** The file that has the row, where there are several. */
  partOf?(row: number): number;
  /** Bytes of unpacked rows that it keeps at most, where it knows. */
  readonly keeps?: number;
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
  return {
    chunkBytes: product(chunk) * width,
    rowsInChunk: product(chunk.slice(0, lead)),
    ...piecesOf(shape, chunk, lead, width),
    placeOf: chunkPlacer({ shape, chunk, lead, width }),
  };
}

function chunkPlacer({ shape, chunk, lead, width }: Shape): ChunkGrid["placeOf"] {
  const grid = shape.map((size, d) => Math.ceil(size / chunk[d]));
  const gridSteps = steps(grid, 1), chunkSteps = steps(chunk, width);
  const place = { cell: 0, inside: 0 };
  return (row) => {
    place.cell = place.inside = 0;
    for (let d = lead - 1, rest = row; d >= 0; d--) {
      const at = rest % shape[d];
      rest = Math.floor(rest / shape[d]);
      place.cell += Math.floor(at / chunk[d]) * gridSteps[d];
      place.inside += at % chunk[d] * chunkSteps[d];
    }
    return place;
  };
}

/** Rows in one chunk have one number, known without opening the file; undefined where each has its own. */
export function groupsOf(rows: StoredRows): { groupOf(row: number): number; count: number } | undefined {
  switch (rows.layout) {
    case "chunks":
    case "store":
    case "tiff": {
      if (rowsAtOnce(rows) === 1) return undefined;
      const placeOf = chunkPlacer(rows);
      const count = product(rows.shape.map((size, d) => Math.ceil(size / rows.chunk[d])));
      return { groupOf: (row) => placeOf(row).cell, count };
    }
    case "library": {
      const inSlab = rowsAtOnce(rows), count = product(rows.shape.slice(0, rows.lead));
      if (inSlab === 1) return undefined;
      return { groupOf: (row) => Math.floor(row / inSlab), count: Math.ceil(count / inSlab) };
    }
  }
  return undefined;
}

/** So many rows are unpacked for one. */
export function rowsAtOnce(rows: StoredRows): number {
  switch (rows.layout) {
    case "chunks":
    case "store":
    case "tiff":
      return product(rows.chunk.slice(0, rows.lead));
    case "library":
      return rows.together * product(rows.shape.slice(1, rows.lead));
  }
  return 1;
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
