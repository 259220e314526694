// Features that are read from their files a sample at a time, and the targets beside them.
import type { Column } from "../arrays/table.ts";
import { borrowBytes, longLivedUninitialised, memoryBlockOf } from "../../../ffi/make.ts";
import { channelLayout, channelsAreLast, channelsNote, type Choice, joinedShape } from "./choose.ts";
import { keep, type Tensor } from "../../../ffi/tensor.ts";
import { type DType, dtypeBytes, isFloating } from "../../../ffi/dtype.ts";
import { product } from "../arrays/numbers.ts";
import { readAllRows } from "../arrays/files.ts";
import { arraysReader, type ArraysSpec, type Deferred } from "./reader.ts";
import {
  type ColumnPart,
  type FileRows,
  type Rows,
  rowsAtOnce,
  type StoredRows,
  storedRows,
} from "../arrays/rows.ts";
import { type Source, type ThreadedParts, threadedSource } from "../source/source.ts";
import type { Windows } from "./windows.ts";
import { recall, remember } from "../arrays/remembered.ts";
import { isForThreads } from "../arrays/all_rows.ts";
import { reshape } from "../../../ffi/ops.ts";
import { formatBytes } from "../../base/format.ts";
import { checkFreeMemory, heldInMemory } from "../../base/memory.ts";
import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";
import { isOfClasses } from "../../settings/losses.ts";
import { joinColumns, storedType, type TensorField } from "./tensors.ts";

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
function streamColumns({ table, features, flat, separateInputs, floats }: Choice): Streamed | string {
  const shape = joinedShape(table, features, flat);
  const parts: ColumnPart[] = [], notes: string[] = [];
  for (const { name, shape, dtype, stream } of features) {
    const rows = stream ? stream.rows() : "is text, which has to be read from the beginning";
    if (!stream || typeof rows === "string") return `the ${table.noun} "${name}" ${rows}`;
    const { raw, rule } = stream;
    const channelsLast = channelsAreLast(shape) ? shape.slice(1) : null;
    if (channelsLast) notes.push(channelsNote(name, shape));
    // Where a program takes inputs apart, they may be indices.
    const exact = separateInputs && rule === null && !isFloating(dtype) && dtypeBytes(raw) > 2;
    parts.push({ name, rows, count: product(shape.slice(1)), raw, rule, exact, channelsLast });
  }
  const usual = storedType(features, floats);
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

function readAlone(column: Column): Column {
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

/** Targets beside streamed features; they wait for the first sample that needs them where nothing has to be known of them. */
export function targetField(
  { table, targets, floats }: Choice,
  keep: boolean,
  loss: Config["training"]["loss"],
): TensorField {
  const [column] = targets, alone = targets.length === 1 && !isOfClasses(loss);
  const known = alone ? deferredOf(column) : null;
  if (known) return { ...known, bad: [], missing: [], notes: [] };
  return joinColumns(table, targets.map(readAlone), false, keep, floats, (whole) => {
    if (alone && whole === column) rememberWhole(column);
  });
}

const KIND = "whole-columns";

/** Null for a column that an earlier start has not seen, or that had missing or infinite numbers in it. */
function deferredOf(column: Column): { values: Tensor; deferred: Deferred } | null {
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
      present: new Uint8Array(new SharedArrayBuffer(count)),
    },
  };
}

/** Threads saw that each number of the column is there. */
function rememberWhole(column: Column): void {
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

export function planReading(
  choice: Choice,
  mode: Config["data"]["in_memory"],
): { streamed: Streamed | null; notes: string[] } {
  const { table, features, targets, rows: samples, floats } = choice, { path } = table;
  const of = (bytes: typeof heldBytes, columns: readonly Column[]) =>
    columns.length > 0 ? bytes(columns, floats) : 0;
  const held = of(heldBytes, features) + of(heldBytes, targets);
  const peak = of(peakBytes, features) + of(peakBytes, targets);
  const advice = "Choose fewer with --features.";
  let because = "";
  // The data takes a quarter of free memory in the end, and half on the way.
  if (!heldInMemory(mode, Math.max(held, peak / 2))) {
    const streamed = streamColumns(choice);
    if (typeof streamed !== "string") {
      checkFreeMemory(
        `${path}: what is predicted`,
        of(peakBytes, targets),
        samples,
        "Choose fewer with --targets.",
      );
      const why = mode === "no"
        ? "--in-memory no"
        : `in memory it would take ${formatBytes(held)}, and ${formatBytes(peak)} on the way there`;
      return {
        streamed,
        notes: [`Features are read from the file a sample at a time: ${why}`, ...streamed.notes],
      };
    }
    if (mode === "no") {
      throw new UserError(
        "data",
        `${path}: ${streamed}. So single samples of it can't be read: hold it in memory (--in-memory yes), or pack ` +
          "it once (hpctrain pack).",
      );
    }
    because =
      ` It can't be read a sample at a time, either: ${streamed}, or pack it once where there is more memory ` +
      "(hpctrain pack).";
  }
  checkFreeMemory(path, peak, samples, advice + because);
  return { streamed: null, notes: [] };
}

const heldBytes = (columns: readonly Column[], floats: Choice["floats"]): number => {
  const stored = dtypeBytes(storedType(columns, floats));
  return columns.reduce((sum, { shape }) => sum + product(shape) * stored, 0);
};

/** Joining also takes twice the largest column, as read and as a tensor. */
const peakBytes = (columns: readonly Column[], floats: Choice["floats"]): number =>
  heldBytes(columns, floats) +
  2 * columns.reduce((most, { shape, dtype }) => Math.max(most, product(shape) * dtypeBytes(dtype)), 0);
