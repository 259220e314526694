// Targets whose numbers are known to be all there, because an earlier start looked at them, are not read at the start.
import { dtypeBytes } from "../../../ffi/dtype.ts";
import { longLivedUninitialised } from "../../../ffi/make.ts";
import { reshape } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { recall, remember } from "../arrays/remembered.ts";
import { isForThreads } from "../arrays/all_rows.ts";
import { channelLayout, channelsAreLast } from "./choose.ts";
import type { Column } from "../arrays/table.ts";
import type { Deferred } from "./reader.ts";
import { product } from "../arrays/numbers.ts";
import type { Rows } from "../arrays/rows.ts";

const KIND = "whole-columns";

/** Null for a column that an earlier start has not seen, or that had missing or infinite numbers in it. */
export function deferredOf(column: Column): { values: Tensor; deferred: Deferred } | null {
  const { stored, text, whole, shape, dtype } = column;
  if (!stored?.fills || text || whole || dtype !== stored.raw || channelsAreLast(shape)) return null;
  const { variable, raw } = stored, rows = variable.rows(1);
  if (!isForThreads(stored, rows)) return null;
  const identity = identityOf(column, rows);
  if (identity === null || recall(KIND, identity) !== true) return null;
  const [count, ...row] = variable.shape;
  return {
    values: reshape(longLivedUninitialised([count, ...row], { dtype: raw }), channelLayout(shape)),
    deferred: {
      column: { name: variable.name, rows, raw },
      bytes: product(row) * dtypeBytes(raw),
      there: new Uint8Array(new SharedArrayBuffer(count)),
    },
  };
}

/** Threads saw that each number of the column is there. */
export function rememberWhole(column: Column): void {
  const rows = column.stored!.variable.rows(1);
  const identity = typeof rows === "string" ? null : identityOf(column, rows);
  if (identity !== null) remember(KIND, identity, true);
}

/** A change of any of the files makes another of it; null where files don't tell whether the values changed. */
function identityOf({ stored }: Column, rows: Rows): string | null {
  const { variable: { name, shape }, raw, fills } = stored!;
  const files: unknown[] = [];
  for (const one of rows.layout === "parts" ? rows.parts : [rows]) {
    if (one.layout !== "file" && !(one.layout === "format" && one.access === "file")) return null;
    const { path, size, changed } = one.file, { ino, ctime } = Deno.statSync(path);
    files.push([path, size, changed, ino, ctime?.getTime()]);
  }
  return JSON.stringify({ version: 1, name, shape, raw, fills, files });
}
