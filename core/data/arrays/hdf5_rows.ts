// How the rows of an HDF5 dataset are read: where they lie, if that can be found out, and by the library if not.
// May import errors, its siblings, hdf5/.
import { UserError } from "../../errors.ts";
import { Unforeseen } from "../hdf5/bytes.ts";
import { readHeader } from "../hdf5/header.ts";
import { readLayout } from "../hdf5/layout.ts";
import { storageOf } from "../hdf5/storage.ts";
import { readSuperblock } from "../hdf5/superblock.ts";
import { followsOtherFiles } from "../hdf5_library.ts";
import { swapBytes } from "../swap_bytes.ts";
import { product } from "./chunk_grid.ts";
import { openChunkRows } from "./chunk_rows.ts";
import { type OpenFile, openFile } from "./file.ts";
import { openFileRows } from "./file_rows.ts";
import type { ChunkRows, FileMark, FileRows, LibraryRows, Rows } from "./rows.ts";

export interface Dataset {
  readonly file: FileMark;
  readonly name: string;
  readonly shape: readonly number[];
  readonly chunk: readonly number[] | null;
  readonly width: number;
  readonly bigEndian: boolean;
  readonly filters: readonly { readonly id: number; readonly cd_values: readonly number[] }[];
  /** Of its object header, from the beginning of what is HDF5 in the file. */
  readonly address: number;
  /** Part of it by the library, in this machine's byte order. */
  slice(first: readonly number[], counts: readonly number[]): Uint8Array;
}

export function hdf5Rows(dataset: Dataset, lead: number): Rows {
  const library = libraryRows(dataset, lead);
  const file = openFile(dataset.file);
  try {
    const own = ownRows(dataset, lead, file);
    return agrees(own, dataset, lead, file) ? own : library;
  } catch (error) {
    // An address that leads nowhere: the library knows better, or says what is wrong.
    if (error instanceof Unforeseen || error instanceof UserError) return library;
    throw error;
  } finally {
    file.close();
  }
}

function ownRows(dataset: Dataset, lead: number, file: OpenFile): FileRows | ChunkRows {
  const { file: view } = readSuperblock(file, dataset.file.size);
  const layout = readLayout(readHeader(view, dataset.address));
  return storageOf(view, layout, dataset, (table, chunk) => fillOf(dataset, table.addresses, chunk))(lead);
}

/** What stands where no chunk was written. */
function fillOf(
  { shape, width, bigEndian, slice }: Dataset,
  addresses: Float64Array,
  chunk: readonly number[],
): Uint8Array {
  let cell = addresses.indexOf(-1);
  const grid = shape.map((size, d) => Math.ceil(size / chunk[d]));
  const first = shape.map(() => 0);
  for (let d = shape.length - 1; d >= 0; d--) {
    first[d] = cell % grid[d] * chunk[d];
    cell = Math.floor(cell / grid[d]);
  }
  const element = slice(first, shape.map(() => 1));
  if (bigEndian) swapBytes(element, width);
  return element;
}

/** Whether the first, the middle and the last row are what the library finds there, or neither can read them. */
function agrees(
  rows: FileRows | ChunkRows,
  { name, shape, width, slice }: Dataset,
  lead: number,
  file: OpenFile,
): boolean {
  const { read } = rows.layout === "file" ? openFileRows(rows, width, file) : openChunkRows(rows, name, file);
  const count = product(shape.slice(0, lead)), rest = shape.slice(lead);
  return [0, Math.floor(count / 2), count - 1].every((row) => {
    const found = new Uint8Array(product(rest) * width);
    const first = rest.map(() => 0);
    for (let d = lead - 1, left = row; d >= 0; d--) {
      first.unshift(left % shape[d]);
      left = Math.floor(left / shape[d]);
    }
    const ours = orNull(() => (read(row, found), found));
    const theirs = orNull(() => slice(first, shape.map((size, d) => d < lead ? 1 : size)));
    return ours === null || theirs === null ? ours === theirs : theirs.every((byte, i) => byte === ours[i]);
  });
}

/** Null for what can't be read: in a damaged chunk, for example. */
function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}

/** The library opens a dataset anew for each slice, so several rows are read at once where they share chunks. */
const SLAB = 16 * 2 ** 20;

function libraryRows({ file, name, shape, chunk, width }: Dataset, lead: number): LibraryRows {
  const one = product(shape.slice(1)) * width;
  const unit = Math.min(chunk?.[0] ?? 1, shape[0]);
  return {
    layout: "library",
    file,
    dataset: name,
    shape,
    lead,
    width,
    together: Math.max(1, Math.min(unit, Math.floor(SLAB / one))),
    elsewhere: followsOtherFiles(),
  };
}
