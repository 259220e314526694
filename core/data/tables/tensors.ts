// Columns become tensors of a field, whole or streamed. Rows without numbers are left out, and whole numbers
// in a target become classes.
import * as ops from "../../../ffi/ops.ts";
import { type DType, dtypeBytes, isFloating } from "../../../ffi/dtype.ts";
import {
  borrowBytes,
  longLivedUninitialised,
  readBytes,
  tensor,
  uninitialised,
  writeBytes,
} from "../../../ffi/make.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { readByThreads } from "../arrays/all_rows.ts";
import { bytesOf, finiteWords, type Floats, product, typedView, WHOLE_FLOATS } from "../arrays/numbers.ts";
import { channelLayout, channelsAreLast, channelsNote, columnLayoutOf, joinedShape } from "./choose.ts";
import type { Column, SideBySide, Table } from "../arrays/table.ts";
import type { Deferred } from "./reader.ts";
import type { InputColumn } from "../../models/model.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import { countMarked, rowsWith } from "./splits.ts";
import { missingIn, type MissingPoints, notInfinite } from "../source/missing.ts";

export interface TensorField {
  /** The shape is [samples, numbers], or [samples, channels, ...] for maps. */
  readonly values: Tensor;
  /** Columns with values that are not finite: 1 marks a good row. */
  readonly bad: readonly { readonly name: string; readonly rows: Uint8Array }[];
  /** Columns whose missing points (NaN) stay. */
  readonly missing: readonly MissingPoints[];
  readonly notes: readonly string[];
  /** The values are not there yet. */
  readonly deferred?: Deferred;
}

/** libtorch hardly computes with unsigned types beyond bytes. */
const SIGNED: Partial<Record<DType, DType>> = { u16: "i32", u32: "i64" };

/** One column keeps its own type, where batches don't have less; they become `floats` when they are gathered. */
export function storedType(columns: readonly Column[], floats: "f32" | "f64"): DType {
  const { dtype, doubles } = columns[0];
  if (columns.length > 1 || dtype === "f64" || dtype === "u64" || doubles) return floats;
  return SIGNED[dtype] ?? dtype;
}

/** With `keep` a NaN is a missing point, and only infinity makes a row bad. */
export function joinColumns(
  table: Table,
  columns: readonly Column[],
  flat = false,
  keep = false,
  floats: "f32" | "f64" = "f32",
  /** Threads saw that each number of this column is there. */
  onWhole: (column: Column) => void = () => {},
): TensorField {
  const stored = storedType(columns, floats);
  const notes: string[] = [], bad: { name: string; rows: Uint8Array }[] = [], missing: MissingPoints[] = [];
  const finite = new Set<Column>();
  const values = scope(() => {
    const load = (column: Column) =>
      scope(() => {
        const own = channelsFirst(read(column, finite, floats), column.name, notes);
        return ops.toDtype(flat ? ops.reshape(own, [own.shape[0], -1]) : own, stored);
      });
    const check = (column: Column, part: Tensor) => {
      const { name, dtype } = column;
      if (/^[iu](32|64)$/.test(dtype) && hasLarge(part)) {
        notes.push(`${name} has whole numbers from 16,777,216 on, which become the nearest that f32 has`);
      }
      if (finite.has(column)) return onWhole(column);
      if (allFinite(part)) return;
      const rows = goodRowsOf(part, keep ? notInfinite : ops.isfinite);
      if (rows.includes(0)) bad.push({ name, rows });
      if (keep) missing.push(...missingIn(name, part));
    };
    const together = floats === "f32" && (columns.length > 1 || stored === "f32")
      ? sideBySide(table, columns)
      : null;
    if (together) {
      columns.forEach((column, i) => {
        if (together.marked[i]) scope(() => check(column, ops.narrow(together.values, 1, i, 1)));
      });
      return together.values;
    }
    const first = load(columns[0]);
    check(columns[0], first);
    if (columns.length === 1) return ops.contiguous(first);
    const whole = uninitialised([first.shape[0], ...joinedShape(table, columns, flat)], { dtype: stored });
    let at = 0;
    columns.forEach((column, i) =>
      scope(() => {
        const part = i === 0 ? first : load(column);
        if (i > 0) check(column, part);
        ops.copy_(ops.narrow(whole, 1, at, part.shape[1]), part);
        at += part.shape[1];
      })
    );
    return whole;
  });
  return { values, bad, missing, notes };
}

const sideBySide = (table: Table, columns: readonly Column[]): SideBySide | null =>
  columns.every(({ shape, text }) => shape.length === 1 && !text) && table.sideBySide?.(columns) || null;

/** Columns of which threads saw that all numbers are finite join `finite`. */
function read(column: Column, finite: Set<Column>, floats: "f32" | "f64"): Tensor {
  if (floats === "f64" && column.doubles) return tensor(column.doubles(), column.shape);
  const together = column.stored && readByThreads(column.stored);
  if (together) {
    const { values, plain } = together;
    if (plain) finite.add(column);
    return ops.reshape(plain ? values : unpacked(values, column), column.shape);
  }
  const made = uninitialised(column.shape, { dtype: column.dtype });
  writeBytes(made, bytesOf(column.read()));
  return made;
}

/** Its scope frees what was stored in another type. */
function unpacked(values: Tensor, { stored, dtype }: Column): Tensor {
  const { raw, unpack } = stored!;
  if (!unpack) return values;
  const to = raw === dtype ? values : longLivedUninitialised(values.shape, { dtype });
  const from = typedView(borrowBytes(values), raw);
  unpack(from, (to === values ? from : typedView(borrowBytes(to), dtype)) as Floats);
  return to;
}

function channelsFirst(t: Tensor, name: string, notes: string[]): Tensor {
  const { shape } = t;
  if (!channelsAreLast(shape)) return ops.reshape(t, channelLayout(shape));
  notes.push(channelsNote(name, shape));
  return ops.contiguous(ops.permute(t, [0, 3, 1, 2]));
}

/** A model is told this of its inputs. Columns that are read a sample at a time are looked at there. */
export function inputColumns(
  { features, flat, held }: {
    readonly features: readonly Column[];
    readonly flat: boolean;
    readonly held: Pick<TensorField, "values"> | null;
  },
): InputColumn[] {
  let at = 0;
  return features.map(({ name, shape, dtype, whole = !isFloating(dtype) }) => {
    const layout = columnLayoutOf({ shape }).slice(1), size = flat ? product(layout) : layout[0], from = at;
    at += size;
    const mayBeLarge = held !== null && whole && dtypeBytes(dtype) > 2;
    const large = mayBeLarge && scope(() => hasLarge(ops.narrow(held.values, 1, from, size)));
    return { name, shape: shape.slice(1), layout, whole, ...(large && { large }) };
  });
}

/** Floats have gaps from there on. */
const hasLarge = (t: Tensor): boolean =>
  ops.maxValue(t).item() >= WHOLE_FLOATS || ops.minValue(t).item() <= -WHOLE_FLOATS;

function allFinite(values: Tensor): boolean {
  if (!isFloating(values.dtype)) return true;
  if (values.dtype === "f32" && values.contiguous) return finiteWords(borrowBytes(values));
  return scope(() => ops.allTrue(ops.isfinite(values)).item() !== 0);
}

/** 1 marks a row that is good everywhere. */
const goodRowsOf = (values: Tensor, isGood: (values: Tensor) => Tensor): Uint8Array =>
  scope(() =>
    readBytes(ops.amin(ops.toDtype(ops.reshape(isGood(values), [values.shape[0], -1]), "u8"), [1]))
  );

// Only rows with finite numbers everywhere are trained with; null means all rows.

export function goodRows(
  { path, noun, absent: marked }: Table,
  fields: readonly TensorField[],
  samples: number,
  mode: "fail" | "skip",
  notes: string[],
): Int32Array | null {
  const absent = marked?.();
  const bad = fields.flatMap((field) => field.bad).flatMap(({ name, rows }) => {
    const judged = absent ? rows.map((ok, i) => ok | absent[i]) : rows;
    return judged.includes(0) ? [{ name, rows: judged }] : [];
  });
  const without = absent?.includes(1) ? countMarked(absent, 1) : 0;
  if (without > 0) notes.push(`Left out ${without} of ${formatPlural(samples, "sample")} marked as missing`);
  if (bad.length === 0 && without === 0) return null;
  const counts = bad.map(({ name, rows }) => `${name} (${countMarked(rows, 0)})`);
  if (mode === "fail" && bad.length > 0) {
    const { name, rows } = bad[0];
    throw new UserError(
      "data",
      `${path}: the ${noun} "${name}" is NaN, infinite or missing in ${countMarked(rows, 0)} ` +
        `of ${formatPlural(samples, "sample")}, first in sample ${rows.indexOf(0)} (counted from 0)` +
        `${bad.length > 1 ? `; so are others: ${counts.slice(1).join(", ")}` : ""}. ` +
        "Repair them, leave such samples out with --bad-samples skip, or keep what is there of them with --missing mask.",
    );
  }
  const good = new Uint8Array(samples).fill(1);
  for (const { rows } of bad) for (let i = 0; i < samples; i++) good[i] &= rows[i];
  if (absent) { for (let i = 0; i < samples; i++) good[i] &= 1 - absent[i]; }
  const kept = rowsWith(good, 1);
  if (kept.length === 0) {
    throw new UserError(
      "data",
      `${path}: no sample is left without NaN or missing values` +
        `${
          counts.length > 0 ? `: ${counts.join(", ")}` : ""
        }. Choose others with --features and --targets, or keep what is ` +
        "there of each sample with --missing mask.",
    );
  }
  if (bad.length === 0) return kept;
  notes.push(
    `Left out ${samples - without - kept.length} of ${
      formatPlural(samples, "sample")
    } with NaN, infinite or missing ` +
      `values (--bad-samples skip): ${counts.join(", ")}`,
  );
  return kept;
}
