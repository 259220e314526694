// Threads share the rows of a column: each takes some, reads them to their places, and comes for more.
import { bytesAt, type MemoryBlock } from "../../../ffi/libc.ts";
import { finiteWords } from "./numbers.ts";
import { openRows } from "./open_rows.ts";
import type { ColumnPart } from "./rows.ts";

/** Plain data for a thread. */
export interface BlockOrders {
  readonly column: Pick<ColumnPart, "name" | "rows" | "raw">;
  readonly rows: number;
  /** Room for all rows, one after the other. */
  readonly into: MemoryBlock;
  /** Rows that a thread takes at once. */
  readonly block: number;
  /** Bits that stand for missing values among floats of four bytes; null where nobody looks at the values. */
  readonly fills: readonly number[] | null;
  readonly words: SharedArrayBuffer;
}

/**
 * Shared words: the next row that nobody has taken, rows that are there, whether a thread met a row that it can't read,
 * and whether one met a value that is missing or not finite.
 */
export const NEXT = 0, DONE = 1, FAILED = 2, ODD = 3, WORDS = 4;

export function readBlocks({ column, rows, into, block, fills, words: shared }: BlockOrders): void {
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
        // The values are still in the processor's cache.
        if (fills && isOdd(all.subarray(first * bytes, end * bytes), fills)) Atomics.store(words, ODD, 1);
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

function isOdd(values: Uint8Array, fills: readonly number[]): boolean {
  if (!finiteWords(values)) return true;
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.byteLength / 4);
  return fills.some((fill) => bits.includes(fill));
}
