// Columns become tensors of a field, whole or streamed. Rows without numbers are left out, and whole numbers
// in a target become classes.
import { type DType, dtypeBytes, isFloating } from "../../../ffi/dtype.ts";
import {
  borrowBytes,
  constant,
  longLivedUninitialised,
  memoryBlockOf,
  readBytes,
  toNumbers,
  uninitialised,
  writeBytes,
} from "../../../ffi/make.ts";
import {
  allTrue,
  amin,
  contiguous,
  copy_,
  eq,
  floor,
  isfinite,
  isnan,
  logicalNot,
  maskedFill,
  maxValue,
  minValue,
  narrow,
  permute,
  reshape,
  toDtype,
} from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { readByThreads } from "../arrays/all_rows.ts";
import { type ColumnPart, type FileRows, rowsAtOnce, type StoredRows, storedRows } from "../arrays/rows.ts";
import { finiteWords, type Floats, product, view } from "../arrays/numbers.ts";
import { channelLayout, channelsAreLast, channelsNote, joinedShape } from "./choose.ts";
import type { Column, SideBySide, Table } from "../arrays/table.ts";
import { deferredOf, rememberWhole } from "./deferred.ts";
import { arraysReader, type ArraysSpec, type Deferred } from "./reader.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import { countOf, rowsWith } from "./splits.ts";
import { missingIn, type MissingPoints, notInfinite } from "../source/missing.ts";
import { type Source, type ThreadedParts, threadedSource } from "../source/source.ts";
import { readAllRows } from "../arrays/files.ts";
import type { Windows } from "./windows.ts";

export interface Field {
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

/** Targets beside streamed features; they wait for the first sample that needs them where nothing has to be known of them. */
export function targetField(
  table: Table,
  targets: readonly Column[],
  keep: boolean,
  mayWait: boolean,
): Field {
  const [column] = targets, alone = targets.length === 1 && mayWait;
  const known = alone ? deferredOf(column) : null;
  if (known) return { ...known, bad: [], missing: [], notes: [] };
  return joinColumns(table, targets.map(readAlone), false, keep, (whole) => {
    if (alone && whole === column) rememberWhole(column);
  });
}

/** libtorch hardly computes with unsigned types beyond bytes; f64 is more than training uses. */
const STORED: Partial<Record<DType, DType>> = { f64: "f32", u16: "i32", u32: "i64", u64: "f32" };

/** One column keeps its own type; batches become f32 when they are gathered. */
function storedType(columns: readonly Column[]): DType {
  const { dtype } = columns[0];
  return columns.length === 1 ? STORED[dtype] ?? dtype : "f32";
}

/** With `keep` a NaN is a missing point, and only infinity makes a row bad. */
export function joinColumns(
  table: Table,
  columns: readonly Column[],
  flat = false,
  keep = false,
  /** Threads saw that each number of this column is there. */
  onWhole: (column: Column) => void = () => {},
): Field {
  const stored = storedType(columns);
  const notes: string[] = [], bad: { name: string; rows: Uint8Array }[] = [], missing: MissingPoints[] = [];
  const finite = new Set<Column>();
  const values = scope(() => {
    const load = (column: Column) =>
      scope(() => {
        const own = channelsFirst(read(column, finite), column.name, notes);
        return toDtype(flat ? reshape(own, [own.shape[0], -1]) : own, stored);
      });
    const check = (column: Column, part: Tensor) => {
      const { name, dtype } = column;
      if (/^[iu](32|64)$/.test(dtype) && beyondFloats(part)) {
        notes.push(`${name} has whole numbers beyond 16,777,216, which become the nearest that f32 has`);
      }
      if (finite.has(column)) return onWhole(column);
      if (allFinite(part)) return;
      const rows = goodRowsOf(part, keep ? notInfinite : isfinite);
      if (rows.includes(0)) bad.push({ name, rows });
      if (keep) missing.push(...missingIn(name, part));
    };
    const together = columns.length > 1 || storedType(columns) === "f32" ? sideBySide(table, columns) : null;
    if (together) {
      columns.forEach((column, i) => {
        if (together.marked[i]) scope(() => check(column, narrow(together.values, 1, i, 1)));
      });
      return together.values;
    }
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
  return { values, bad, missing, notes };
}

const sideBySide = (table: Table, columns: readonly Column[]): SideBySide | null =>
  columns.every(({ shape, text }) => shape.length === 1 && !text) && table.sideBySide?.(columns) || null;

/** Columns of which threads saw that all numbers are finite join `finite`. */
function read(column: Column, finite: Set<Column>): Tensor {
  const together = column.stored && readByThreads(column.stored);
  if (together) {
    const { values, plain } = together;
    if (plain) finite.add(column);
    return reshape(plain ? values : unpacked(values, column), column.shape);
  }
  const bytes = column.read();
  const made = uninitialised(column.shape, { dtype: column.dtype });
  writeBytes(made, new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  return made;
}

/** Its scope frees what was stored in another type. */
function unpacked(values: Tensor, { stored, dtype }: Column): Tensor {
  const { raw, unpack } = stored!;
  if (!unpack) return values;
  const to = raw === dtype ? values : longLivedUninitialised(values.shape, { dtype });
  const from = view(borrowBytes(values), raw);
  unpack(from, (to === values ? from : view(borrowBytes(to), dtype)) as Floats);
  return to;
}

function channelsFirst(t: Tensor, name: string, notes: string[]): Tensor {
  const { shape } = t;
  if (!channelsAreLast(shape)) return reshape(t, channelLayout(shape));
  notes.push(channelsNote(name, shape));
  return contiguous(permute(t, [0, 3, 1, 2]));
}

const WHOLE_FLOATS = 2 ** 24;

const beyondFloats = (t: Tensor): boolean =>
  scope(() => maxValue(t).item() > WHOLE_FLOATS || minValue(t).item() < -WHOLE_FLOATS);

function allFinite(values: Tensor): boolean {
  if (!isFloating(values.dtype)) return true;
  if (values.dtype === "f32" && values.contiguous) return finiteWords(borrowBytes(values));
  return scope(() => allTrue(isfinite(values)).item() !== 0);
}

/** 1 marks a row that is good everywhere. */
const goodRowsOf = (values: Tensor, isGood: (values: Tensor) => Tensor): Uint8Array =>
  scope(() => readBytes(amin(toDtype(reshape(isGood(values), [values.shape[0], -1]), "u8"), [1])));

export const heldBytes = (columns: readonly Column[]): number => {
  const stored = dtypeBytes(storedType(columns));
  return columns.reduce((sum, { shape }) => sum + product(shape) * stored, 0);
};

/** Joining also takes twice the largest column, as read and as a tensor. */
export const peakBytes = (columns: readonly Column[]): number =>
  heldBytes(columns) +
  2 * columns.reduce((most, { shape, dtype }) => Math.max(most, product(shape) * dtypeBytes(dtype)), 0);

// Only rows with finite numbers everywhere are trained with; null means all rows.

export function goodRows(
  { path, noun, absent: marked }: Table,
  fields: readonly Field[],
  samples: number,
  mode: "fail" | "skip",
  notes: string[],
): Int32Array | null {
  const absent = marked?.();
  const bad = fields.flatMap((field) => field.bad).flatMap(({ name, rows }) => {
    const judged = absent ? rows.map((ok, i) => ok | absent[i]) : rows;
    return judged.includes(0) ? [{ name, rows: judged }] : [];
  });
  const without = absent?.includes(1) ? countOf(absent, 1) : 0;
  if (without > 0) notes.push(`Left out ${without} of ${formatPlural(samples, "sample")} marked as missing`);
  if (bad.length === 0 && without === 0) return null;
  const counts = bad.map(({ name, rows }) => `${name} (${countOf(rows, 0)})`);
  if (mode === "fail" && bad.length > 0) {
    const { name, rows } = bad[0];
    throw new UserError(
      "data",
      `${path}: the ${noun} "${name}" is NaN, infinite or missing in ${countOf(rows, 0)} ` +
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

interface ClassTargets {
  readonly values: Tensor;
  readonly task: "classification" | "segmentation";
  readonly outputs: number;
  readonly note: string;
}

const MOST_CLASSES = 1e6;

export interface ClassShapes {
  readonly input: readonly number[];
  /** Each position of a series or text may have a class. */
  readonly lengths: readonly number[];
}

/** Null means that the target is no class: several numbers a sample, or fractions. */
export function classTargets(
  table: Table,
  column: Column,
  { values }: Field,
  { input, lengths }: ClassShapes,
  ignored: number,
): ClassTargets | null {
  const { name } = column, classes = column.text?.classes();
  const [samples, channels, ...map] = values.shape;
  const perPixel = map.length > 0 && channels === 1 && map.join() === input.slice(1).join();
  const perPosition = map.length === 0 && channels > 1 && lengths.includes(channels);
  if (!perPixel && !perPosition && (map.length > 0 || channels > 1)) return null;
  return scope(() => {
    const plain = perPosition ? values : reshape(values, perPixel ? [samples, ...map] : [samples]);
    const numbers = counted(plain, ignored);
    if (numbers === null) return null;
    const least = minValue(numbers).item(), most = maxValue(numbers).item();
    if (least < 0 || most >= MOST_CLASSES) throw outside(table, name, plain, ignored);
    const outputs = classes?.length ?? most + 1;
    const of = perPosition ? ` of each of ${channels} positions` : "";
    const meaning = classes
      ? `text, taken as classes in sorted order: ${shorten(classes)}`
      : `whole numbers, taken as ${outputs} classes${of} (0 to ${most}); for a quantity say --loss mse`;
    return {
      values: toDtype(missingAs(ignored, plain), "i32"),
      task: perPixel || perPosition ? "segmentation" : "classification",
      outputs,
      note: `Target ${name} is ${meaning}`,
    } as const;
  });
}

/** A missing class is the ignored one. */
const missingAs = (ignored: number, values: Tensor): Tensor =>
  isFloating(values.dtype) ? maskedFill(values, isnan(values), constant(ignored, values.dtype)) : values;

/** Bad rows, which nobody sees, and the ignored class become 0. */
function counted(values: Tensor, ignored: number): Tensor | null {
  const { dtype } = values;
  const wide = dtype === "f32" || dtype === "i64"
    ? values
    : toDtype(values, isFloating(dtype) ? "f32" : "i64");
  const floating = isFloating(dtype);
  const zero = constant(0, wide.dtype);
  const finite = floating ? maskedFill(wide, logicalNot(isfinite(wide)), zero) : wide;
  if (floating && allTrue(eq(finite, floor(finite))).item() === 0) return null;
  return maskedFill(finite, eq(finite, constant(ignored, wide.dtype)), zero);
}

function outside({ path, noun }: Table, name: string, values: Tensor, ignored: number): UserError {
  const all = toNumbers(values);
  const at = all.findIndex((value) => value !== ignored && (value < 0 || value >= MOST_CLASSES));
  const sample = Math.floor(at * values.shape[0] / all.length);
  return new UserError(
    "data",
    `${path}: the ${noun} "${name}" is whole numbers, so it is taken as classes, but in sample ${sample} ` +
      `(counted from 0) it is ${all[at]}, and classes are numbered 0 to ${MOST_CLASSES - 1}. ` +
      `If it is a quantity, say --loss mse; if ${
        all[at]
      } stands for "unknown", set training.ignore_index to it.`,
  );
}

function shorten(classes: readonly string[]): string {
  const shown = classes.slice(0, 10).map((text, i) => `${i} = ${text}`).join(", ");
  return classes.length > 10 ? `${shown}, ... (${classes.length} in all)` : shown;
}

export interface Streamed {
  readonly path: string;
  readonly parts: readonly ColumnPart[];
  readonly stored: DType;
  readonly shape: readonly number[];
  /** Nobody has looked for missing points, and there may be some. */
  readonly mayMiss: boolean;
  readonly notes: readonly string[];
}

/** A string says why the features cannot be streamed. */
export function streamColumns(table: Table, features: readonly Column[], flat = false): Streamed | string {
  const shape = joinedShape(table, features, flat);
  const parts: ColumnPart[] = [], notes: string[] = [];
  for (const { name, shape, stream } of features) {
    const rows = stream ? stream.rows() : "is text, which has to be read from the beginning";
    if (!stream || typeof rows === "string") return `the ${table.noun} "${name}" ${rows}`;
    const { raw, rule } = stream;
    const channelsLast = channelsAreLast(shape) ? shape.slice(1) : null;
    if (channelsLast) notes.push(channelsNote(name, shape));
    parts.push({ name, rows, count: product(shape.slice(1)), raw, rule, channelsLast });
  }
  const usual = storedType(features);
  // The host cannot compute with halves, so they are floats from the start.
  const stored = usual === "f16" ? "f32" : usual;
  const mayMiss = parts.some(({ raw, rule }) => rule !== null || isFloating(raw));
  return {
    path: table.path,
    parts: merged(parts),
    stored,
    shape,
    mayMiss,
    notes: [...notes, ...chunkNotes(parts)],
  };
}

/** Columns that lie side by side in a table's rows are read at once. */
function merged(parts: readonly ColumnPart[]): ColumnPart[] {
  const found: ColumnPart[] = [];
  for (const part of parts) {
    const before = found.at(-1);
    const rows = before && joinedRows(before, part);
    if (rows) found[found.length - 1] = { ...before, rows, count: before.count + part.count };
    else found.push(part);
  }
  return found;
}

function joinedRows({ rows: a, ...one }: ColumnPart, { rows: b, ...other }: ColumnPart): FileRows | null {
  if (a.layout !== "file" || b.layout !== "file") return null;
  const adjoin = a.file.path === b.file.path && a.begin + a.bytes === b.begin && a.step === b.step &&
    !a.blocks && !b.blocks &&
    one.raw === other.raw && !one.rule && !other.rule && !one.channelsLast && !other.channelsLast;
  return adjoin ? { ...a, bytes: a.bytes + b.bytes } : null;
}

function chunkNotes(parts: readonly ColumnPart[]): string[] {
  return parts.flatMap((part) => {
    const together = rowsUnpackedAtOnce(part);
    return together === 1 ? [] : [
      `${part.name} is packed in chunks of ${together} samples: for one, all of them are unpacked (hpctrain pack ` +
      "makes a copy that is read faster)",
    ];
  });
}

function rowsUnpackedAtOnce({ rows }: ColumnPart): number {
  const ofSamples = (stored: StoredRows) =>
    rows.layout === "picked" && stored.layout !== "file" ? { ...stored, lead: rows.outer.length } : stored;
  return Math.max(1, ...storedRows(rows).map((stored) => rowsAtOnce(ofSamples(stored))));
}

export function readAlone(column: Column): Column {
  const { stream, shape } = column;
  const rows = stream && stream.rule === null ? stream.rows() : "";
  if (typeof rows === "string" || rows.layout !== "file" || rows.bytes === rows.step) return column;
  return { ...column, stored: undefined, read: () => readAllRows(rows, shape[0], dtypeBytes(stream!.raw)) };
}

/** A copy of more would take time and room. */
const COPIED_BYTES = 16 * 2 ** 20;

function sharedTargets(targets: Tensor): ArraysSpec["targets"] {
  if (targets.byteLength > COPIED_BYTES) return memoryBlockOf(keep(targets));
  const shared = new Uint8Array(new SharedArrayBuffer(targets.byteLength));
  shared.set(borrowBytes(targets));
  return shared;
}

type Facts = Omit<ThreadedParts, "length" | "indices" | "reader" | "stored" | "target">;

export function streamedSource(
  { path, parts, stored, shape }: Streamed,
  { targets, deferred, windows, ...facts }: Facts & {
    readonly targets: Tensor;
    readonly deferred?: Deferred;
    readonly windows: Windows | null;
  },
): (rows: Int32Array) => Source {
  const of = ([first, ...rest]: readonly number[], times: number) =>
    times > 1 ? [first * times, ...rest] : first === undefined ? [] : [first, ...rest];
  const input = of(shape, windows?.inputs.length ?? 1);
  const target = of(targets.shape.slice(1), windows?.targets.length ?? 1);
  const reader: ArraysSpec = {
    module: arraysReader,
    grouped: parts.some((part) => rowsUnpackedAtOnce(part) > 1),
    path,
    parts,
    stored,
    shape: input,
    targets: sharedTargets(targets),
    deferred,
    targetBytes: targets.byteLength / targets.shape[0],
    ...(windows && { windows: { inputs: windows.inputs, targets: windows.targets } }),
    missing: facts.missing?.input,
  };
  return (rows) =>
    threadedSource({
      ...facts,
      length: rows.length,
      indices: rows,
      reader,
      stored: { name: "features", shape: input, dtype: stored },
      target: { name: "targets", shape: target, dtype: targets.dtype },
    });
}
