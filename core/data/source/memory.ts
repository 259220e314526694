// A source of tensors holds its data in memory; this file decides how much memory data may take.
import { dtypeBytes, isFloating } from "../../../ffi/dtype.ts";
import { tensor, toNumbers } from "../../../ffi/make.ts";
import { allTrue, amin, indexSelect, indexSelectOut, isfinite, reshape, toDtype } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import { notInfinite } from "./missing.ts";
import {
  type Batch,
  batchOf,
  finishedBy,
  finishesNothing,
  finishesRows,
  gathersRows,
  type Ids,
  plainPart,
  type Source,
  source,
  type SourceParts,
  thatGathers,
} from "./source.ts";
import type { Field } from "./reader.ts";

/** Samples held in memory: one tensor a field. */
export interface InMemory extends Omit<SourceParts, "length" | "raw"> {
  /** Rows are along the first dimension, and stay for as long as the program runs. */
  readonly input: Tensor;
  /** The target has as many rows as the input. */
  readonly target: Tensor;
  /** Each sample's row, known to be finite; by default all rows, which are checked. */
  readonly rows?: Int32Array;
  /** A sample takes the rows at these distances from its own, side by side in dimension 1. */
  readonly windows?: { readonly inputs: readonly number[]; readonly targets: readonly number[] } | null;
}

/** A source of samples in two tensors, gathered for each batch; both are kept. */
export function memorySource({ input, target, rows, windows, ...parts }: InMemory): Source {
  const { name, fields, missing } = parts;
  if (!rows) {
    checkFinite(name, fields?.[0] ?? "input", input, missing?.input);
    checkFinite(name, fields?.[1] ?? "target", target, missing?.target);
  }
  keep(input);
  keep(target);
  const made = source({
    ...parts,
    indices: rows ?? parts.indices,
    length: rows?.length ?? input.shape[0],
    raw(ids, _epoch, into) {
      const own = rows ? ids.map((id) => rows[id]) : ids;
      if (windows) {
        return { input: gather(input, own, windows.inputs), target: gather(target, own, windows.targets) };
      }
      return rowsOf({ input, target }, own, into);
    },
  });
  return windows ? made : thatGathers(made);
}

function rowsOf({ input, target, unscaled }: Batch, ids: Ids, into?: Batch): Batch {
  const index = indexTensor(ids), of = (t: Tensor) => indexSelect(t, 0, index);
  if (into === undefined) {
    return { input: of(input), target: of(target), ...(unscaled && { unscaled: of(unscaled) }) };
  }
  indexSelectOut(input, 0, index, into.input);
  indexSelectOut(target, 0, index, into.target);
  if (unscaled) indexSelectOut(unscaled, 0, index, into.unscaled!);
  return into;
}

/** Finished rows may take so many bytes more. */
const FINISHED_BYTES = 16 << 20;

/** All rows of a small source are finished once, when the first are asked for; null of another. */
export function finishedOnce(source: Source): { readonly source: Source; close(): void } | null {
  const bytesIn = ({ shape, dtype }: Field) => shape.reduce((all, size) => all * size, dtypeBytes(dtype));
  const bytes = source.length * (bytesIn(source.input) + 2 * bytesIn(source.target));
  const idle = finishesNothing(source) || !finishesRows(source) || !gathersRows(source);
  if (idle || bytes > FINISHED_BYTES) return null;
  let all: Batch | null = null;
  const close = () => {
    Object.values(all ?? {}).forEach((t: Tensor) => t.free());
    all = null;
  };
  const raw: Source["raw"] = ({ ids }, into) =>
    scope(() => {
      if (all === null) {
        all = batchOf(source, plainPart(Int32Array.from({ length: source.length }, (_, i) => i)));
        Object.values(all).forEach(keep);
      }
      return rowsOf(all, ids, into);
    });
  return { source: finishedBy(source, raw), close };
}

function gather(values: Tensor, own: Ids, offsets: readonly number[]): Tensor {
  const [first = 0] = offsets; // without targets there is nothing to look at
  if (offsets.length <= 1) {
    return indexSelect(
      values,
      0,
      indexTensor(Int32Array.from(own, (row) => row + first)),
    );
  }
  const rows = new Int32Array(own.length * offsets.length);
  for (let i = 0, at = 0; i < own.length; i++) for (const offset of offsets) rows[at++] = own[i] + offset;
  const [, channels, ...rest] = values.shape;
  return reshape(indexSelect(values, 0, indexTensor(rows)), [own.length, offsets.length * channels, ...rest]);
}

export const indexTensor = (ids: Ids): Tensor =>
  tensor(ids instanceof Int32Array ? ids : Int32Array.from(ids));

/** The message names the first sample with NaN or infinity. `missing` allows NaN. */
function checkFinite(source: string, field: string, values: Tensor, missing = false): void {
  if (!isFloating(values.dtype)) return;
  scope(() => {
    const finite = missing ? notInfinite(values) : isfinite(values);
    if (allTrue(finite).item() !== 0) return;
    const rows = toNumbers(amin(toDtype(reshape(finite, [values.shape[0], -1]), "u8"), [1]));
    const bad = rows.reduce((count, ok) => count + (ok ? 0 : 1), 0);
    throw new UserError(
      "data",
      `${source}: ${field} has ${missing ? "" : "NaN or "}infinity in ${bad} of ${
        formatPlural(rows.length, "sample")
      }, first in ` +
        `sample ${rows.indexOf(0)} (counted from 0). Repair these samples or leave them out of the data.`,
    );
  });
}
