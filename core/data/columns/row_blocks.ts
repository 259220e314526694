// Threads share the rows of a column: each takes some, reads them to their places, and comes for more.
import { bytesAt, type MemoryBlock } from "../../../ffi/libc.ts";
import { openRows } from "./reader.ts";
import type { ColumnPart } from "./rows.ts";

/** Plain data for a thread. */
export interface BlockOrders {
  readonly column: Pick<ColumnPart, "name" | "rows" | "raw">;
  readonly rows: number;
  /** Room for all rows, one after the other. */
  readonly into: MemoryBlock;
  /** Rows that a thread takes at once. */
  readonly block: number;
  readonly words: SharedArrayBuffer;
}

/** Shared words: the next row that nobody has taken, rows that are there, and whether a thread met a row that it can't read. */
export const NEXT = 0, DONE = 1, FAILED = 2, WORDS = 3;

export function readBlocks({ column, rows, into, block, words: shared }: BlockOrders): void {
  const words = new Int32Array(shared);
  try {
    const all = bytesAt(into), bytes = all.length / rows, reader = openRows(column);
    try {
      while (Atomics.load(words, FAILED) === 0) {
        const first = Atomics.add(words, NEXT, block), end = Math.min(first + block, rows);
        if (first >= rows) break;
        for (let row = first; row < end; row++) {
          reader.read(row, all.subarray(row * bytes, (row + 1) * bytes));
        }
        Atomics.add(words, DONE, end - first);
      }
    } finally {
      reader.close();
    }
  } catch {
    Atomics.store(words, FAILED, 1); // whoever reads the column alone says why
  }
  Atomics.notify(words, DONE);
}
