// Where the rows of an array lie in a file: plain data that threads are sent. May import types only.
import type { DType } from "../../../ffi/dtype.ts";
import type { Rule } from "../missing.ts";

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
  /** Of row 0. */
  readonly begin: number;
  /** Bytes of a row, and from one row to the next. */
  readonly bytes: number;
  readonly step: number;
  /** Where rows come in blocks with something between them (records): rows in a block, bytes from block to block. */
  readonly blocks?: { readonly rows: number; readonly step: number };
  readonly swapped: boolean;
}

/** Where each chunk is; in shared memory. */
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
  /** Whether it may lie in other files (--external-files). */
  readonly elsewhere: boolean;
}

export type Rows = FileRows | ChunkRows | LibraryRows;

/** One column of a sample's input, or several that lie side by side. */
export interface Part {
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
