// Threads get the places of an array's rows as plain data.
import type { DType } from "../../../ffi/dtype.ts";
import { type DecodingRule, product } from "./numbers.ts";

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

/** A row has all numbers along the dimensions behind `lead`; numbers are stored in chunks of an array. */
export interface ChunkShape {
  readonly shape: readonly number[];
  readonly chunk: readonly number[];
  readonly lead: number;
  /** Bytes of a number. */
  readonly width: number;
}

/** Rows that a module of their format opens (`noteRows`): a thread imports it by this address. */
export interface FormatRows extends ChunkShape {
  readonly layout: "format";
  readonly module: string;
  readonly file: FileMark;
  /** Threads read side by side from one file, whose mark shows any change, or from several; or only one thread reads. */
  readonly access: "file" | "files" | "alone";
}

/** The rows of one part follow those of the part before. */
export interface PartedRows {
  readonly layout: "parts";
  /** Part i has the rows from starts[i] to starts[i + 1]. */
  readonly starts: readonly number[];
  readonly parts: readonly Rows[];
  /** Files may be packed each in its own way: these are in the place of the column's rule. */
  readonly rules?: readonly (DecodingRule | null)[];
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

export type StoredRows = FileRows | PlacedRows | FormatRows;

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
export function rulesOf(rows: Rows): readonly (DecodingRule | null)[] | null {
  return rows.layout === "picked" ? rulesOf(rows.rows) : rows.layout === "parts" ? rows.rules ?? null : null;
}

/** A part is one column of a sample's input, or several side by side. */
export interface ColumnPart {
  readonly name: string;
  readonly rows: Rows;
  readonly count: number;
  readonly raw: DType;
  readonly rule: DecodingRule | null;
  /** Whole numbers that the sample's type would round are refused. */
  readonly exact?: boolean;
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

export function chunkGridOf({ shape, chunk, lead, width }: ChunkShape): ChunkGrid {
  return {
    chunkBytes: product(chunk) * width,
    rowsInChunk: product(chunk.slice(0, lead)),
    ...piecesOf(shape, chunk, lead, width),
    placeOf: chunkPlacer({ shape, chunk, lead, width }),
  };
}

function chunkPlacer({ shape, chunk, lead, width }: ChunkShape): ChunkGrid["placeOf"] {
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
  if (rows.layout !== "format" || rowsAtOnce(rows) === 1) return undefined;
  const placeOf = chunkPlacer(rows);
  const count = product(rows.shape.map((size, d) => Math.ceil(size / rows.chunk[d])));
  return { groupOf: (row) => placeOf(row).cell, count };
}

/** So many rows are unpacked for one. */
export const rowsAtOnce = (rows: StoredRows): number =>
  rows.layout === "format" ? product(rows.chunk.slice(0, rows.lead)) : 1;

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

/** data.bad_samples decides whether it ends the run. */
export class BadSample extends Error {
  /** `reason` follows "sample 12 (cats/a.jpg) ": "is cut off after 1,024 of 20,480 bytes". */
  constructor(readonly path: string, readonly reason: string, options?: ErrorOptions) {
    super(`${path} ${reason}`, options);
  }
}
