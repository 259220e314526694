// Columns -> one tensor of a field, and the rows of it that are no numbers. May import errors, columns (types), ffi.
import { type DType, dtypeBytes, isFloating } from "../../ffi/dtype.ts";
import { readBytes, uninitialised, writeBytes } from "../../ffi/make.ts";
import {
  allTrue,
  amin,
  contiguous,
  copy_,
  isfinite,
  maxValue,
  minValue,
  narrow,
  permute,
  reshape,
  toDtype,
} from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { product } from "./arrays/chunk_grid.ts";
import { channelLayout, channelsAreLast, channelsNote, joinedShape } from "./column_shapes.ts";
import type { Column, Table } from "./columns.ts";

export interface Field {
  /** [samples, numbers], or [samples, channels, ...] of maps. */
  readonly values: Tensor;
  /** Columns with values that are not finite: for each row 1 if it is good. */
  readonly bad: readonly { readonly name: string; readonly rows: Uint8Array }[];
  readonly notes: readonly string[];
}

/** libtorch can hardly compute with unsigned numbers beyond bytes; f64 is more than training uses. */
const STORED: Partial<Record<DType, DType>> = { f64: "f32", u16: "i32", u32: "i64", u64: "f32" };

/** The type a field is held in: its column's own, where that is one; a batch is made f32 when it is gathered. */
export function storedType(columns: readonly Column[]): DType {
  const { dtype } = columns[0];
  return columns.length === 1 ? STORED[dtype] ?? dtype : "f32";
}

/** Puts columns side by side: numbers after numbers, maps as channels; with `flat` whatever they are as plain numbers. */
export function joinColumns(table: Table, columns: readonly Column[], flat = false): Field {
  const stored = storedType(columns);
  const notes: string[] = [], bad: { name: string; rows: Uint8Array }[] = [];
  const values = scope(() => {
    const load = (column: Column) =>
      scope(() => {
        const own = channelsFirst(read(column), column.name, notes);
        return toDtype(flat ? reshape(own, [own.shape[0], -1]) : own, stored);
      });
    const check = ({ name, dtype }: Column, part: Tensor) => {
      if (/^[iu](32|64)$/.test(dtype) && beyondFloats(part)) {
        notes.push(`${name} has whole numbers beyond 16,777,216, which become the nearest that f32 has`);
      }
      const rows = goodRows(part);
      if (rows) bad.push({ name, rows });
    };
    const first = load(columns[0]);
    check(columns[0], first);
    if (columns.length === 1) return contiguous(first);
    const whole = uninitialised([first.shape[0], ...joinedShape(table, columns, flat)]);
    let at = 0;
    columns.forEach((column, i) =>
      scope(() => {
        const part = i === 0 ? first : load(column);
        if (i > 0) check(column, part);
        copy_(narrow(whole, 1, at, part.shape[1]), part);
        at += part.shape[1];
      })
    );
    return whole;
  });
  return { values, bad, notes };
}

function read(column: Column): Tensor {
  const bytes = column.read();
  const made = uninitialised(column.shape, { dtype: column.dtype });
  writeBytes(made, new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  return made;
}

function channelsFirst(t: Tensor, name: string, notes: string[]): Tensor {
  const { shape } = t;
  if (!channelsAreLast(shape)) return reshape(t, channelLayout(shape));
  notes.push(channelsNote(name, shape));
  return contiguous(permute(t, [0, 3, 1, 2]));
}

/** From there on not every whole number is a float. */
const WHOLE_FLOATS = 2 ** 24;

const beyondFloats = (t: Tensor): boolean =>
  scope(() => maxValue(t).item() > WHOLE_FLOATS || minValue(t).item() < -WHOLE_FLOATS);

/** Null when all values are finite. */
function goodRows(values: Tensor): Uint8Array | null {
  if (!isFloating(values.dtype)) return null;
  return scope(() => {
    const finite = isfinite(values);
    if (allTrue(finite).item() !== 0) return null;
    return readBytes(amin(toDtype(reshape(finite, [values.shape[0], -1]), "u8"), [1]));
  });
}

/** What columns take in memory when they are put together. */
export const heldBytes = (columns: readonly Column[]): number => {
  const stored = dtypeBytes(storedType(columns));
  return columns.reduce((sum, { shape }) => sum + product(shape) * stored, 0);
};

/** While they are put together: beside that twice the largest column, as read and as a tensor. */
export const peakBytes = (columns: readonly Column[]): number =>
  heldBytes(columns) + 2 * Math.max(...columns.map(({ shape, dtype }) => product(shape) * dtypeBytes(dtype)));
