// Rows of a made-up format, opened by this module: row i has the number i, `factor` times.
import { noteRows } from "../../../../core/data/arrays/open_rows.ts";
import type { FormatRows } from "../../../../core/data/arrays/rows.ts";

export interface MadeRows extends FormatRows {
  readonly factor: number;
}

let loaded = false;

export const madeRows = noteRows<MadeRows>(import.meta.url, {
  load: () => Promise.resolve(void (loaded = true)),
  open({ factor, shape: [count] }, name) {
    if (!loaded) throw new Error(`${name} was opened before its module was loaded`);
    return { read: (row, into) => void into.fill(factor * (row % count)) };
  },
});
