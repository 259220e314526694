// Columns -> one tensor of a field, and the rows of it that are no numbers. May import errors, columns (types), ffi.
import { type DType, isFloating } from "../../ffi/dtype.ts";
import { readBytes, uninitialised, writeBytes } from "../../ffi/make.ts";
import {
  allTrue,
  amin,
  contiguous,
  copy_,
  isfinite,
  narrow,
  permute,
  reshape,
  toDtype,
} from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../errors.ts";
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

/** Puts columns side by side: numbers after numbers, maps as channels. */
export function joinColumns(table: Table, columns: readonly Column[]): Field {
  const stored = storedType(columns);
  const notes: string[] = [], bad: { name: string; rows: Uint8Array }[] = [];
  const values = scope(() => {
    const load = (column: Column) =>
      scope(() => toDtype(channelsFirst(read(column), column.name, notes), stored));
    const check = ({ name }: Column, part: Tensor) => {
      const rows = goodRows(part);
      if (rows) bad.push({ name, rows });
    };
    const first = load(columns[0]);
    check(columns[0], first);
    if (columns.length === 1) return contiguous(first);
    const parts = columns.map((column) => layout(column.shape));
    const [, , ...rest] = parts[0];
    parts.forEach((shape, i) => {
      if (shape.slice(2).join() !== rest.join()) throw unlike(table, columns[0], columns[i]);
    });
    const whole = uninitialised([parts[0][0], parts.reduce((sum, shape) => sum + shape[1], 0), ...rest]);
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

/** A number a sample is a row of one; a map is an image of one channel. */
function layout(shape: readonly number[]): readonly number[] {
  const [samples, ...rest] = shape;
  return rest.length === 0 ? [samples, 1] : rest.length === 2 ? [samples, 1, ...rest] : shape;
}

/** Images as most libraries keep them have their channels last: at most four, and far fewer than rows or columns. */
const channelsAreLast = ([, a, b, c]: readonly number[]) => c <= 4 && a > 4 && b > 4;

function channelsFirst(t: Tensor, name: string, notes: string[]): Tensor {
  const { shape } = t;
  if (shape.length !== 4 || !channelsAreLast(shape)) return reshape(t, layout(shape));
  notes.push(`${name} of shape [${shape.join(", ")}] is taken for images with channels last`);
  return contiguous(permute(t, [0, 3, 1, 2]));
}

/** Null when all values are finite. */
function goodRows(values: Tensor): Uint8Array | null {
  if (!isFloating(values.dtype)) return null;
  return scope(() => {
    const finite = isfinite(values);
    if (allTrue(finite).item() !== 0) return null;
    return readBytes(amin(toDtype(reshape(finite, [values.shape[0], -1]), "u8"), [1]));
  });
}

function unlike({ path, noun }: Table, a: Column, b: Column): UserError {
  return new UserError(
    "data",
    `${path}: the ${noun} "${a.name}" has the shape [${a.shape.join(", ")}] and "${b.name}" [${
      b.shape.join(", ")
    }], ` +
      "which don't go together in one sample. Choose some of one shape with --features and --targets.",
  );
}
