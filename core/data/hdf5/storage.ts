// Where a dataset's values are, as the readers of rows want it. May import its siblings, arrays.
import { product } from "../arrays/chunk_grid.ts";
import { DEFLATE, FLETCHER32, SHUFFLE } from "../arrays/filters.ts";
import type { ChunkRows, ChunkTable, FileMark, FileRows } from "../arrays/rows.ts";
import { type FileView, unforeseen } from "./bytes.ts";
import { emptyTable, readChunks } from "./chunks.ts";
import type { Filter, Layout } from "./layout.ts";

export interface Stored {
  readonly file: FileMark;
  readonly shape: readonly number[];
  /** Whether it can have no other shape; undefined where that is not known. */
  readonly fixed?: boolean;
  /** Bytes of an element. */
  readonly width: number;
  readonly bigEndian: boolean;
  readonly filters: readonly Pick<Filter, "id" | "cd_values">[];
}

/** The rows that the first `lead` dimensions number. */
export type RowsAt = (lead: number) => FileRows | ChunkRows;

/** `fillOf` tells what stands in the first of the chunks that were never written. */
export function storageOf(
  file: FileView,
  layout: Layout,
  stored: Stored,
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
    layout: "chunks",
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
  layout: Extract<Layout, { kind: "chunks" }>,
  { shape, fixed, width, filters }: Stored,
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
