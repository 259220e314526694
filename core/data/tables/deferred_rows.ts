// Targets that are not there yet are read when a sample first needs them: by the loader thread that needs them, into the
// memory that all threads share.
import { UserError } from "../../base/errors.ts";
import { finiteWords } from "../source/pipeline.ts";
import { type ColumnPart, pathOf, type RowReader } from "../arrays/rows.ts";

/** Plain data for a thread. */
export interface Deferred {
  readonly column: Pick<ColumnPart, "name" | "rows" | "raw">;
  /** Bytes of a row. */
  readonly bytes: number;
  /** 1 marks a row that is there; shared memory. */
  readonly there: Uint8Array;
}

/** The result brings the row that has this byte of the targets. */
export function openDeferred(
  { column, bytes, there }: Deferred,
  reader: Pick<RowReader, "read" | "partOf">,
  targets: Uint8Array,
): (at: number) => void {
  // Others may read the same row at the same time, so it is written in one go, and with the same bytes.
  const own = new Uint8Array(bytes);
  return (at) => {
    const row = Math.floor(at / bytes);
    if (Atomics.load(there, row) === 1) return;
    reader.read(row, own);
    if (!finiteWords(own)) {
      throw new UserError(
        "data",
        `${
          pathOf(column.rows, reader.partOf?.(row))
        }: "${column.name}" had each of its numbers when it was read before, ` +
          "and lacks some now: is something else writing the file? Start again when it is whole.",
      );
    }
    targets.set(own, row * bytes);
    Atomics.store(there, row, 1);
  };
}
