// Where each chunk of an HDF5 dataset is: its index of chunks -> a table in shared memory. May import its siblings,
// arrays' types.
import { product } from "../arrays/chunk_grid.ts";
import type { ChunkTable } from "../arrays/rows.ts";
import { type FileView, type Span, unforeseen } from "./bytes.ts";
import { checkSum } from "./checksum.ts";
import type { Layout } from "./layout.ts";
import { readTree2 } from "./tree2.ts";

/** Beyond, the table would take more than 256 MiB. */
const MOST_CELLS = 2 ** 24;

type Chunked = Extract<Layout, { kind: "chunks" }>;

export interface Shape {
  readonly shape: readonly number[];
  /** Whether it can have no other shape; undefined where that is not known. */
  readonly fixed?: boolean;
  readonly packed: boolean;
}

interface Grid extends Shape {
  readonly chunk: readonly number[];
  /** Chunks in each dimension, and in all. */
  readonly grid: readonly number[];
  readonly cells: number;
  /** Of a chunk that is not packed, and of an element. */
  readonly bytes: number;
  readonly width: number;
}

type Put = (cell: number, address: number, size: number, mask: number) => void;

export function readChunks(file: FileView, layout: Chunked, dataset: Shape): ChunkTable {
  const { shape, packed } = dataset, { chunk, at, one } = layout;
  const grid = shape.map((size, d) => Math.ceil(size / chunk[d])), cells = product(grid);
  const bytes = product(chunk) * layout.width;
  if (cells > MOST_CELLS || bytes >= 2 ** 32) unforeseen("very many chunks");
  const table = emptyTable(cells);
  if (at === null) return table;
  const put: Put = (cell, address, size, mask) => {
    if (packed ? size === 0 || size >= 2 ** 32 : size !== bytes) unforeseen("the size of a chunk");
    if (address + size > file.size) unforeseen("a chunk beyond the end");
    if (cell < 0) return; // beyond the end of a dataset that became smaller
    if (table.addresses[cell] >= 0) unforeseen("a chunk twice");
    table.addresses[cell] = address;
    table.sizes[cell] = size;
    table.masks[cell] = mask;
  };
  const all: Grid = { ...dataset, chunk, grid, cells, bytes, width: layout.width };
  switch (layout.index) {
    case "one":
      if (cells !== 1 || packed !== (one !== undefined)) unforeseen("one chunk of several");
      put(0, at, one?.size ?? bytes, one?.mask ?? 0);
      break;
    case "implicit":
      if (packed || dataset.fixed === false) unforeseen("chunks without an index");
      for (let cell = 0; cell < cells; cell++) put(cell, at + cell * bytes, bytes, 0);
      break;
    case "array":
      if (dataset.fixed === false) unforeseen("an index of another shape");
      readArray(file, at, all, put);
      break;
    case "tree":
      readTree(file, at, all, put);
      break;
    case "tree2":
      readNewTree(file, at, all, put);
  }
  return table;
}

/** Of chunks that were never written. */
export const emptyTable = (cells: number): ChunkTable => ({
  addresses: new Float64Array(new SharedArrayBuffer(8 * cells)).fill(-1),
  sizes: new Uint32Array(new SharedArrayBuffer(4 * cells)),
  masks: new Uint32Array(new SharedArrayBuffer(4 * cells)),
});

/** The cell of the chunk with this place in the grid; -1 where it is outside. */
function cellOf({ grid }: Grid, place: readonly number[]): number {
  let cell = 0;
  for (let d = 0; d < grid.length; d++) {
    if (place[d] >= grid[d]) return -1;
    cell = cell * grid[d] + place[d];
  }
  return cell;
}

/** Whether the places come one after the other, as in an order in which each can be found. */
function isBefore(a: readonly number[], b: readonly number[]): boolean {
  const d = a.findIndex((value, i) => value !== b[i]);
  return d >= 0 && a[d] < b[d];
}

/** The B-tree of version 1: nodes of keys (a chunk's size, mask and origin) and children (further nodes, or chunks). */
function readTree(file: FileView, root: number, dataset: Grid, put: Put): void {
  const { chunk, cells } = dataset, rank = chunk.length;
  const steps = [...chunk, dataset.width]; // the bytes of an element are a dimension of their own
  const keyBytes = 8 + 8 * steps.length;
  let left = 2 * cells + 64; // a tree has no more nodes, whatever a damaged one says
  let last: number[] | null = null;
  const readKey = (span: Span) => {
    const size = span.u32(), mask = span.u32();
    const origin = steps.map(() => span.uint(8));
    const whole = origin[rank] === 0 && origin.every((first, d) => first % steps[d] === 0);
    return { size, mask, whole, place: origin.map((first, d) => Math.floor(first / steps[d])) };
  };
  const visit = (at: number, below: number) => {
    if (--left < 0) unforeseen("a tree without an end");
    const head = file.at(at, 24);
    head.sign("TREE", 1);
    const level = head.u8(), count = head.u16();
    if (level >= below) unforeseen("the levels of a tree");
    const entries = file.at(at + 24, count * (keyBytes + 8) + keyBytes);
    let key = readKey(entries);
    for (let i = 0; i < count; i++) {
      const { size, mask, whole, place } = key, child = entries.uint(8);
      key = readKey(entries);
      if (last !== null && !isBefore(last, place)) unforeseen("chunks out of order");
      if (!isBefore(place, key.place)) unforeseen("chunks out of order");
      if (level > 0) visit(child, level);
      else {
        if (!whole) unforeseen("the place of a chunk");
        put(cellOf(dataset, place), child, size, mask);
        last = place;
      }
      // Where it isn't left of the next key, it would not be found.
      if (last !== null && !isBefore(last, key.place)) unforeseen("chunks out of order");
    }
  };
  visit(root, 256);
}

const PLAIN_RECORDS = 10, PACKED_RECORDS = 11;

/** The B-tree of version 2, of datasets that can grow in several dimensions. */
function readNewTree(file: FileView, at: number, dataset: Grid, put: Put): void {
  const { packed, chunk, bytes } = dataset;
  let last: number[] | null = null;
  readTree2(file, at, packed ? PACKED_RECORDS : PLAIN_RECORDS, (record) => {
    const address = record.uint(8);
    const sizeBytes = record.left - 4 - 8 * chunk.length;
    const size = packed ? record.uint(sizeBytes) : bytes, mask = packed ? record.u32() : 0;
    const place = chunk.map(() => record.uint(8));
    if (record.left > 0 || (last !== null && !isBefore(last, place))) unforeseen("chunks out of order");
    put(cellOf(dataset, place), address, size, mask);
    last = place;
  });
}

/** The fixed array: an entry for each chunk, in pages where they are many. */
function readArray(file: FileView, at: number, { packed, bytes, cells }: Grid, put: Put): void {
  const head = file.at(at, 28);
  head.sign("FAHD", 0);
  if (head.u8() !== Number(packed)) unforeseen("another kind of array");
  const width = head.u8(), inPage = 2 ** head.u8();
  const count = head.uint(8), start = head.address8();
  checkSum(head);
  if (count !== cells || (packed ? width < 13 || width > 20 : width !== 8)) {
    unforeseen("an array of another size");
  }
  if (start === null) return; // nothing was written yet
  const read = (span: Span, first: number, many: number) => {
    for (let i = 0; i < many; i++) {
      const address = span.address8();
      const size = packed ? span.uint(width - 12) : bytes, mask = packed ? span.u32() : 0;
      if (address !== null) put(first + i, address, size, mask);
    }
    checkSum(span);
  };
  const pages = count <= inPage ? 0 : Math.ceil(count / inPage), bits = Math.ceil(pages / 8);
  const block = file.at(start, 14 + bits + (pages > 0 ? 0 : count * width) + 4);
  block.sign("FADB", 0);
  if (block.u8() !== Number(packed) || block.uint(8) !== at) unforeseen("another array's block");
  if (pages === 0) return read(block, 0, count);
  const used = block.take(bits).bytes;
  checkSum(block);
  for (let page = 0; page < pages; page++) {
    if (!(used[page >> 3] & 0x80 >> (page & 7))) continue;
    const first = page * inPage, many = Math.min(inPage, count - first);
    read(file.at(start + 14 + bits + 4 + page * (inPage * width + 4), many * width + 4), first, many);
  }
}
