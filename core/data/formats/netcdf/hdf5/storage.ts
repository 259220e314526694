// The layout, filters, fill value and chunk index of an HDF5 dataset say where its values are.
import { type ByteSpan, checkSum, type FileView, textOfName, unforeseen } from "./bytes.ts";
import { FILTERS, LAYOUT, type Messages } from "./header.ts";
import { type ChunkRows, chunkRows, type ChunkTable, DEFLATE, FLETCHER32, SHUFFLE } from "./chunk_rows.ts";
import type { FileMark, FileRows } from "../../../arrays/rows.ts";
import { product } from "../../../arrays/numbers.ts";
import { readTree2 } from "./dense.ts";

type StorageLayout =
  | { readonly kind: "plain"; readonly at: number | null; readonly bytes: number }
  | {
    readonly kind: "chunks";
    readonly at: number | null;
    readonly chunk: readonly number[];
    readonly width: number;
    readonly index: "tree" | "one" | "implicit" | "array" | "tree2";
    /** Size and mask of the one chunk, where it is packed. */
    readonly one?: { readonly size: number; readonly mask: number };
  };

const COMPACT = 0, CONTIGUOUS = 1, CHUNKED = 2;

/** Most files have version 3; only HDF5 1.10 or 2.0 and later read 4 and 5. */
export function readLayout(messages: Messages): StorageLayout {
  const span = messages.one(LAYOUT) ?? unforeseen("a dataset without a layout");
  const version = span.u8(), kind = span.u8();
  if (version < 3 || version > 5) unforeseen("a version of layouts");
  switch (kind) {
    case COMPACT: {
      const bytes = span.u16();
      return { kind: "plain", at: span.take(bytes).address, bytes };
    }
    case CONTIGUOUS:
      return { kind: "plain", at: span.address8(), bytes: span.uint(8) };
    case CHUNKED:
      return version === 3 ? oldChunks(span) : chunks(span);
  }
  return unforeseen("a kind of layout");
}

function oldChunks(span: ByteSpan): StorageLayout {
  const rank = span.u8(), at = span.address8();
  return { kind: "chunks", at, index: "tree", ...sizes(span, rank, 4) };
}

function chunks(span: ByteSpan): StorageLayout {
  const flags = span.u8(), rank = span.u8();
  // With the first flag, chunks over the edge are not packed.
  if (flags & ~2) unforeseen("flags of chunks");
  const found = { kind: "chunks", ...sizes(span, rank, span.u8()) } as const;
  const packed = (flags & 2) !== 0, index = span.u8();
  if (packed && index !== 1) unforeseen("flags of chunks");
  switch (index) {
    case 1: {
      const one = packed ? { size: span.uint(8), mask: span.u32() } : undefined;
      return { ...found, index: "one", one, at: span.address8() };
    }
    case 2:
      return { ...found, index: "implicit", at: span.address8() };
    case 3:
      span.skip(1);
      return { ...found, index: "array", at: span.address8() };
    case 5:
      span.skip(6);
      return { ...found, index: "tree2", at: span.address8() };
  }
  return unforeseen("an index of chunks");
}

function sizes(span: ByteSpan, rank: number, bytes: number): { chunk: readonly number[]; width: number } {
  if (rank < 2 || rank > 33 || bytes < 1 || bytes > 8) unforeseen("dimensions of chunks");
  const all = Array.from({ length: rank }, () => span.uint(bytes));
  if (all.some((size) => size === 0 || size >= 2 ** 32)) unforeseen("dimensions of chunks");
  return { chunk: all.slice(0, -1), width: all[all.length - 1] };
}

interface Filter {
  readonly id: number;
  readonly name: string;
  readonly cd_values: readonly number[];
}

const MOST_FILTERS = 32, OWN_NAMES = 256;

/** These filters cannot be undone here, and need no name in the file. */
const NAMES: Readonly<Record<number, string>> = { 4: "szip" };

export function readFilters(messages: Messages): Filter[] {
  const span = messages.one(FILTERS);
  if (!span) return [];
  const version = span.u8(), count = span.u8();
  if ((version !== 1 && version !== 2) || count > MOST_FILTERS) unforeseen("a version of filters");
  if (version === 1) span.skip(6);
  return Array.from({ length: count }, () => {
    const id = span.u16();
    const named = version === 1 || id >= OWN_NAMES ? span.u16() : 0;
    span.skip(2);
    const values = span.u16();
    const bytes = span.take(version === 1 ? Math.ceil(named / 8) * 8 : named).bytes;
    const cd_values = Array.from({ length: values }, () => span.u32());
    if (version === 1 && values % 2 === 1) span.skip(4);
    const end = bytes.indexOf(0);
    return { id, name: textOfName(end < 0 ? bytes : bytes.slice(0, end)) || (NAMES[id] ?? ""), cd_values };
  });
}

// A larger table would take more than 256 MiB.

const MOST_CELLS = 2 ** 24;

type Chunked = Extract<StorageLayout, { kind: "chunks" }>;

interface Shape {
  readonly shape: readonly number[];
  /** The shape is fixed; undefined means not known. */
  readonly fixed?: boolean;
  readonly packed: boolean;
}

interface Grid extends Shape {
  readonly chunk: readonly number[];
  readonly grid: readonly number[];
  readonly cells: number;
  readonly bytes: number;
  readonly width: number;
}

type Put = (cell: number, address: number, size: number, mask: number) => void;

function readChunks(file: FileView, layout: Chunked, dataset: Shape): ChunkTable {
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

const emptyTable = (cells: number): ChunkTable => ({
  addresses: new Float64Array(new SharedArrayBuffer(8 * cells)).fill(-1),
  sizes: new Uint32Array(new SharedArrayBuffer(4 * cells)),
  masks: new Uint32Array(new SharedArrayBuffer(4 * cells)),
});

function cellOf({ grid }: Grid, place: readonly number[]): number {
  let cell = 0;
  for (let d = 0; d < grid.length; d++) {
    if (place[d] >= grid[d]) return -1;
    cell = cell * grid[d] + place[d];
  }
  return cell;
}

function isBefore(a: readonly number[], b: readonly number[]): boolean {
  const d = a.findIndex((value, i) => value !== b[i]);
  return d >= 0 && a[d] < b[d];
}

/** Keys of the version 1 B-tree are a chunk's size, mask and origin; its children are nodes or chunks. */
function readTree(file: FileView, root: number, dataset: Grid, put: Put): void {
  const { chunk, cells } = dataset, rank = chunk.length;
  const steps = [...chunk, dataset.width]; // the bytes of an element are a dimension of their own
  const keyBytes = 8 + 8 * steps.length;
  let left = 2 * cells + 64; // a tree has no more nodes, whatever a damaged one says
  let last: number[] | null = null;
  const readKey = (span: ByteSpan) => {
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
      // A chunk that is not left of the next key would not be found.
      if (last !== null && !isBefore(last, key.place)) unforeseen("chunks out of order");
    }
  };
  visit(root, 256);
}

const PLAIN_RECORDS = 10, PACKED_RECORDS = 11;

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

/** The fixed array has an entry a chunk, in pages where they are many. */
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
  const read = (span: ByteSpan, first: number, many: number) => {
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

interface StoredDataset {
  readonly file: FileMark;
  readonly shape: readonly number[];
  readonly fixed?: boolean;
  readonly width: number;
  readonly bigEndian: boolean;
  readonly filters: readonly Pick<Filter, "id" | "cd_values">[];
}

export type RowsAt = (lead: number) => FileRows | ChunkRows;

export function storageOf(
  file: FileView,
  layout: StorageLayout,
  stored: StoredDataset,
  fillOf: (table: ChunkTable, chunk: readonly number[]) => Uint8Array | null,
): RowsAt {
  const { shape, width, bigEndian, filters } = stored;
  const bytes = product(shape) * width, swapped = bigEndian && width > 1;
  if (layout.kind === "plain" && (layout.at !== null || bytes === 0)) {
    const begin = layout.at ?? 0;
    if (layout.bytes !== bytes || begin + bytes > file.size || filters.length > 0) {
      unforeseen("a dataset's size");
    }
    return (lead) => {
      const row = product(shape.slice(lead)) * width;
      return { layout: "file", file: stored.file, begin, bytes: row, step: row, swapped };
    };
  }
  const { table, chunk } = layout.kind === "plain"
    ? { chunk: shape, table: emptyTable(1) }
    : chunksOf(file, layout, stored);
  const missing = table.addresses.includes(-1);
  const fill = missing ? fillOf(table, chunk) ?? unforeseen("a place without a value") : null;
  const undone = filters.map(({ id, cd_values }) => ({ id, width: cd_values[0] ?? width }));
  const rows = {
    layout: "format",
    module: chunkRows,
    access: "file",
    file: stored.file,
    shape,
    chunk,
    width,
    swapped,
    table,
    filters: undone,
    fill,
  } as const;
  return (lead) => ({ ...rows, lead });
}

function chunksOf(
  file: FileView,
  layout: Extract<StorageLayout, { kind: "chunks" }>,
  { shape, fixed, width, filters }: StoredDataset,
) {
  const { chunk } = layout;
  if (chunk.length !== shape.length || layout.width !== width) unforeseen("chunks of another shape");
  for (const [i, { id, cd_values }] of filters.entries()) {
    if (![DEFLATE, SHUFFLE, FLETCHER32].includes(id)) unforeseen("a filter");
    if (filters.findIndex((one) => one.id === id) < i) unforeseen("a filter twice");
    if (id === SHUFFLE && cd_values[0] !== width) unforeseen("a filter of other elements");
  }
  return { chunk, table: readChunks(file, layout, { shape, fixed, packed: filters.length > 0 }) };
}
