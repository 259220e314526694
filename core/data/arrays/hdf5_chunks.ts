// Where each chunk of an HDF5 dataset is: its index of chunks -> a table in shared memory. Null for what is not foreseen.
// May import its siblings.
import { product } from "./chunk_grid.ts";
import type { OpenFile } from "./file.ts";
import { type Layout, long, short, viewAt } from "./hdf5_layout.ts";
import type { ChunkTable } from "./rows.ts";

/** Beyond, the table would take more than 256 MiB. */
const MOST_CELLS = 2 ** 24;

type Chunked = Extract<Layout, { kind: "chunks" }>;

interface Shape {
  readonly shape: readonly number[];
  readonly chunk: readonly number[];
  /** Of a chunk that is not packed. */
  readonly bytes: number;
  readonly packed: boolean;
}

export function readChunks(file: OpenFile, { at, index, one }: Chunked, dataset: Shape): ChunkTable | null {
  const { shape, chunk, bytes, packed } = dataset;
  const grid = shape.map((size, d) => Math.ceil(size / chunk[d]));
  const cells = product(grid);
  if (cells > MOST_CELLS) return null;
  const table: ChunkTable = {
    addresses: new Float64Array(new SharedArrayBuffer(8 * cells)).fill(-1),
    sizes: new Uint32Array(new SharedArrayBuffer(4 * cells)),
    masks: new Uint32Array(new SharedArrayBuffer(4 * cells)),
  };
  const put = (cell: number, address: number, size: number, mask: number) => {
    if (!(cell >= 0 && cell < cells)) return; // beyond the end of a dataset that became smaller
    table.addresses[cell] = address;
    table.sizes[cell] = size;
    table.masks[cell] = mask;
  };
  switch (index) {
    case "one":
      put(0, at, one?.size ?? bytes, one?.mask ?? 0);
      return table;
    case "implicit":
      for (let cell = 0; cell < cells; cell++) put(cell, at + cell * bytes, bytes, 0);
      return table;
    case "array":
      return readArray(file, at, packed, bytes, put) ? table : null;
    case "tree": {
      const left = { nodes: 2 * cells + 64 }; // a tree has no more, whatever a damaged one says
      const steps = grid.map((_, d) => product(grid.slice(d + 1)));
      const cellOf = (origin: readonly number[]) =>
        origin.every((first, d) => first < shape[d])
          ? origin.reduce((cell, first, d) => cell + first / chunk[d] * steps[d], 0)
          : -1;
      const putAt: PutAt = (origin, ...where) => put(cellOf(origin), ...where);
      return readTree(file, at, shape.length, putAt, left) ? table : null;
    }
  }
}

type PutAt = (origin: readonly number[], address: number, size: number, mask: number) => void;

const TREE = 0x45455254; // "TREE"

/** The B-tree of version 1: nodes of keys (a chunk's size, mask and origin) and children (further nodes, or chunks). */
function readTree(
  file: OpenFile,
  at: number,
  rank: number,
  put: PutAt,
  left: { nodes: number },
  below = Infinity,
): boolean {
  if (--left.nodes < 0) return false;
  const keyBytes = 8 + 8 * (rank + 1), step = keyBytes + 8;
  const head = viewAt(file, at, 24);
  const level = head.getUint8(5), count = head.getUint16(6, true);
  if (head.getUint32(0, true) !== TREE || head.getUint8(4) !== 1 || level >= below) return false;
  const entries = viewAt(file, at + 24, count * step);
  for (let i = 0; i < count; i++) {
    const key = i * step, child = long(entries, key + keyBytes);
    if (level > 0) {
      if (!readTree(file, child, rank, put, left, level)) return false;
      continue;
    }
    const origin = Array.from({ length: rank }, (_, d) => long(entries, key + 8 + 8 * d));
    put(origin, child, entries.getUint32(key, true), entries.getUint32(key + 4, true));
  }
  return true;
}

type Put = (cell: number, address: number, size: number, mask: number) => void;

const HEADER = 0x44484146, BLOCK = 0x42444146; // "FAHD", "FADB"

/** The fixed array: an entry for each chunk, in pages where they are many. */
function readArray(file: OpenFile, at: number, packed: boolean, bytes: number, put: Put): boolean {
  const head = viewAt(file, at, 24);
  if (head.getUint32(0, true) !== HEADER || head.getUint8(4) !== 0) return false;
  if (head.getUint8(5) !== Number(packed)) return false;
  const width = head.getUint8(6), inPage = 2 ** head.getUint8(7);
  const count = long(head, 8), block = long(head, 16);
  if (block < 0) return true; // nothing was written yet
  const blockHead = 14;
  if (viewAt(file, block, 4).getUint32(0, true) !== BLOCK) return false;
  const read = (from: number, first: number, many: number) => {
    const entries = viewAt(file, from, many * width);
    for (let i = 0; i < many; i++) {
      const address = long(entries, i * width);
      if (address < 0) continue;
      if (!packed) put(first + i, address, bytes, 0);
      else {
        const sizeBytes = width - 12, sizeAt = i * width + 8;
        put(
          first + i,
          address,
          short(entries, sizeAt, sizeBytes),
          entries.getUint32(sizeAt + sizeBytes, true),
        );
      }
    }
  };
  if (count <= inPage) {
    read(block + blockHead, 0, count);
    return true;
  }
  const pages = Math.ceil(count / inPage), bits = Math.ceil(pages / 8);
  const used = viewAt(file, block + blockHead, bits);
  for (let page = 0; page < pages; page++) {
    if (!(used.getUint8(page >> 3) & 0x80 >> (page & 7))) continue;
    const first = page * inPage;
    read(block + blockHead + bits + 4 + page * (inPage * width + 4), first, Math.min(inPage, count - first));
  }
  return true;
}
