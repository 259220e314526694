// All values of an HDF5 dataset, found by our own reader. May import its siblings.
import { swapBytes } from "../swap_bytes.ts";
import { product } from "./chunk_grid.ts";
import { openChunks } from "./chunk_rows.ts";
import { openFile } from "./file.ts";
import { repeat } from "./fill.ts";
import type { ChunkRows, FileRows } from "./rows.ts";

/** `wrong` is what is the matter with a chunk that can't be read. */
export function readWhole(
  rows: FileRows | ChunkRows,
  width: number,
): { values: Uint8Array; wrong: string | null } {
  const file = openFile(rows.file);
  try {
    if (rows.layout === "file") {
      const values = new Uint8Array(rows.bytes);
      file.read(values, rows.begin);
      if (rows.swapped) swapBytes(values, width);
      return { values, wrong: null };
    }
    const values = new Uint8Array(product(rows.shape) * width);
    if (rows.fill) repeat(rows.fill, values, 0, values.length);
    const load = openChunks(rows, file);
    const wrong = eachChunk(rows, values, load);
    if (rows.swapped) swapBytes(values, width);
    return { values, wrong };
  } finally {
    file.close();
  }
}

type Bytes = Uint8Array<ArrayBuffer>;

/** Chunk after chunk of those that were written, each cut along the edges of the whole. */
function eachChunk(
  { shape, chunk, width, table }: ChunkRows,
  values: Uint8Array,
  load: (cell: number, into: Bytes) => string | null,
): string | null {
  const rank = shape.length, grid = shape.map((size, d) => Math.ceil(size / chunk[d]));
  // Steps in bytes from one index to the next, in the whole and in a chunk.
  const far = shape.map((_, d) => product(shape.slice(d + 1)) * width);
  const near = chunk.map((_, d) => product(chunk.slice(d + 1)) * width);
  // From this dimension on, the whole and a chunk go on in the same way.
  let run = rank - 1;
  while (run > 0 && chunk[run] === shape[run]) run--;
  const bytes = new Uint8Array(table.addresses.some((at) => at >= 0) ? product(chunk) * width : 0);
  const first = shape.map(() => 0);
  for (let cell = 0; cell < table.addresses.length; cell++) {
    if (table.addresses[cell] < 0) continue;
    for (let d = rank - 1, rest = cell; d >= 0; d--) {
      first[d] = rest % grid[d] * chunk[d];
      rest = Math.floor(rest / grid[d]);
    }
    const wrong = load(cell, bytes);
    if (wrong !== null) return wrong;
    const copy = (d: number, from: number, to: number): void => {
      const count = Math.min(chunk[d], shape[d] - first[d]);
      const start = to + first[d] * far[d];
      if (d < run) {
        for (let i = 0; i < count; i++) copy(d + 1, from + i * near[d], start + i * far[d]);
      } else values.set(bytes.subarray(from, from + count * far[d]), start);
    };
    copy(0, 0, 0);
  }
  return null;
}
