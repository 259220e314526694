// Columns of predictions are spooled to disk, so memory holds at most one batch.
import { join } from "../../deps/path.ts";
import { temporaryFor, writeAll } from "../base/atomic.ts";
import { reading, writing } from "../base/new_file.ts";
import { UserError } from "../base/errors.ts";
import type { Loss } from "../models/losses.ts";
import type { PredictedColumn } from "./predict.ts";

/** Whole numbers, and floats: f64 of a model that computes in it (--amp fp64). */
export const COLUMN_ARRAYS = { i32: Int32Array, f32: Float32Array, f64: Float64Array } as const;
export type ColumnType = keyof typeof COLUMN_ARRAYS;
export type ColumnValues = Int32Array | Float32Array | Float64Array;

export interface PredictionColumn {
  readonly name: string;
  readonly dtype: ColumnType;
  readonly shape: readonly number[];
  readonly names?: readonly string[];
  /** Callers read in rising order. */
  read(from: number, count: number): ColumnValues;
  /** Tables of text have these in place of the numbers. */
  texts?(from: number, count: number): readonly string[];
  /** A row has all of its image, where this has such sides: it may be in another size, and nothing of it was cut off. */
  whole?(image: { readonly height: number; readonly width: number }): boolean;
}

export const elementsOf = ({ shape }: Pick<PredictionColumn, "shape">): number =>
  shape.slice(1).reduce((product, size) => product * size, 1);

/** The column of parts has the place of each here, whichever there are. */
const ROLES = ["train", "val", "test"] as const;

export type ColumnRole = typeof ROLES[number];

export interface PredictedPart {
  readonly role: ColumnRole;
  /** Each rank has one, in order. */
  readonly spools: readonly Spool[];
  /** It is known where samples are files of their own. */
  readonly pathOf?: (index: number) => string;
}

export interface RowOrder {
  /** The rows have the data's order; otherwise one part follows the other. */
  readonly oneTable: boolean;
  readonly split: boolean;
}

export interface ColumnNames {
  readonly predicted: readonly string[];
  readonly target: readonly string[];
}

/** Quantiles have names such as ice_q0.1: the loss's parts of each target. */
export function outputNames(
  { parts, logVariance }: Pick<Loss, "parts" | "logVariance">,
  targets: readonly string[],
  count: number,
): readonly string[] {
  if (parts === undefined || logVariance !== undefined) return targets; // a standard deviation is a column of its own
  if (targets.length === count) return parts.flatMap((part) => targets.map((target) => `${target}_${part}`));
  return count === 1 ? parts : [];
}

interface Run {
  readonly spool: Spool;
  readonly part: number;
  readonly from: number;
  readonly count: number;
}

export function outlineOf(
  kept: readonly SpooledColumn[],
  samples: number,
  roles: readonly ColumnRole[],
  names: ColumnNames,
): PredictionColumn[] {
  const classes = kept.some(({ name }) => name === "label");
  const column = ({ name, shape, dtype }: SpooledColumn): PredictionColumn => {
    const called = calledIn({ name, shape, dtype }, classes, names);
    const of = called.length > 0 ? { names: called } : {};
    return { name, dtype, shape: [samples, ...shape], read: () => new Int32Array(0), ...of };
  };
  const [id, ...others] = kept;
  const role: SpooledColumn = { name: "split", shape: [], dtype: "i32" };
  return [
    column(id),
    ...(roles.length > 1 ? [{ ...column(role), names: ROLES }] : []),
    ...others.map(column),
  ];
}

function calledIn(
  { name, shape, dtype }: SpooledColumn,
  classes: boolean,
  names: ColumnNames,
): readonly string[] {
  const ofClasses = name === "label" || name === "probabilities";
  if (ofClasses || (name === "target" && classes && dtype === "i32")) return names.predicted;
  if (name === "members" && shape.length === 2) {
    return eachMembers(shape, classes ? names.predicted : names.target);
  }
  if (classes) return [];
  return name === "prediction" || name === "std" ? names.predicted : name === "target" ? names.target : [];
}

const eachMembers = ([members, count]: readonly number[], names: readonly string[]): readonly string[] =>
  Array.from({ length: members }, (_, m) => Array.from({ length: count }, (_, k) => `${m}_${names[k] ?? k}`))
    .flat();

export function predictionColumns(
  parts: readonly PredictedPart[],
  { oneTable, split }: RowOrder,
  names: ColumnNames,
): PredictionColumn[] {
  const spools = parts.flatMap(({ spools }, part) => spools.map((spool) => ({ spool, part })));
  const kept = spools.find(({ spool }) => spool.rows() > 0)!.spool.columns();
  const samples = spools.reduce((sum, { spool }) => sum + spool.rows(), 0);
  const runs = oneTable && parts.length > 1 ? inOrder(spools) : spools.map(({ spool, part }) => ({
    spool,
    part,
    from: 0,
    count: spool.rows(),
  }));
  const column = (name: string, dtype: ColumnType, each: number) =>
    reader(runs, dtype, each, ({ spool, from, count }) => spool.read(name, from, count));
  const roles = split ? parts.map(({ role }) => role) : [];
  const places = parts.map((_, part) => part);
  const ofPart = (values: readonly number[]) =>
    reader(runs, "i32", 1, ({ part, count }) => new Int32Array(count).fill(values[part]));
  const made = outlineOf(kept, samples, roles, names).map((one) => ({
    ...one,
    read: one.name === "split"
      ? ofPart(roles.map((role) => ROLES.indexOf(role)))
      : column(one.name, one.dtype, elementsOf(one)),
  }));
  if (parts.some(({ pathOf }) => !pathOf)) return made;
  const idAt = column("id", "i32", 1), partAt = ofPart(places);
  const texts = (from: number, count: number) => {
    const of = partAt(from, count);
    return Array.from(idAt(from, count), (id, i) => parts[of[i]].pathOf!(id));
  };
  const [id, ...others] = made;
  return [id, { ...id, name: "path", read: column("id", "i32", 1), texts }, ...others];
}

/** Rows of several runs as one column's. */
function reader(
  runs: readonly Run[],
  dtype: ColumnType,
  each: number,
  take: (run: Run) => ArrayLike<number>,
): PredictionColumn["read"] {
  let at = 0, before = 0; // the last run that was read, and the rows before it
  return (from, count) => {
    if (from < before) [at, before] = [0, 0];
    const made = new COLUMN_ARRAYS[dtype](count * each);
    for (let filled = 0; filled < count;) {
      const run = runs[at], skip = from + filled - before;
      if (skip >= run.count) {
        before += run.count;
        at++;
        continue;
      }
      const some = Math.min(count - filled, run.count - skip);
      made.set(take({ ...run, from: run.from + skip, count: some }), filled * each);
      filled += some;
    }
    return made;
  };
}

function inOrder(spools: readonly { spool: Spool; part: number }[]): Run[] {
  const ids = spools.map(({ spool }) =>
    spool.rows() > 0 ? spool.read("id", 0, spool.rows()) : new Int32Array(0)
  );
  const starts: number[] = [];
  let samples = 0;
  for (const { length } of ids) {
    starts.push(samples);
    samples += length;
  }
  const all = new Int32Array(samples);
  ids.forEach((some, i) => all.set(some, starts[i]));
  const order = Uint32Array.from({ length: samples }, (_, i) => i).sort((a, b) => all[a] - all[b]);
  const runs: Run[] = [];
  let source = 0;
  for (let i = 0; i < samples;) {
    const first = order[i];
    let count = 1;
    source = starts.findLastIndex((start, k) => start <= first && ids[k].length > 0);
    const end = starts[source] + ids[source].length;
    while (i + count < samples && order[i + count] === first + count && first + count < end) count++;
    runs.push({ ...spools[source], from: first - starts[source], count });
    i += count;
  }
  return runs;
}

/** All rows of a column have this shape. */
export interface SpooledColumn {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: ColumnType;
}

export interface Spool {
  add(rows: readonly PredictedColumn[]): void;
  /** It is empty before the first rows. */
  columns(): readonly SpooledColumn[];
  rows(): number;
  read(column: string, from: number, count: number): ColumnValues;
  close(): void;
}

interface ColumnFile {
  readonly kept: SpooledColumn;
  readonly file: Deno.FsFile;
}

/** The files have no name, so they vanish with this process, however it ends. */
export function openSpool(out: string): Spool {
  return spool(out, () => {
    const path = temporaryFor(out);
    return writing(out, () => {
      const file = Deno.openSync(path, { read: true, write: true, createNew: true });
      Deno.removeSync(path);
      return file;
    });
  }, null);
}

/** Another rank reads the folder. */
export function openNamedSpool(folder: string, name: string): Spool {
  return spool(folder, (column) => {
    const path = join(folder, `${name}.${column}`);
    return writing(path, () => Deno.openSync(path, { read: true, write: true, createNew: true }));
  }, null);
}

/** Another rank has written the columns. */
export function readSpool(
  folder: string,
  name: string,
  columns: readonly SpooledColumn[],
  rows: number,
): Spool {
  const open = (column: string) => {
    const path = join(folder, `${name}.${column}`);
    return reading(path, () => Deno.openSync(path, { read: true }));
  };
  return spool(folder, open, { columns: rows === 0 ? [] : columns, rows });
}

function spool(
  where: string,
  open: (column: string) => Deno.FsFile,
  previous: { columns: readonly SpooledColumn[]; rows: number } | null,
): Spool {
  let count = previous?.rows ?? 0;
  const files = new Map<string, ColumnFile>();
  for (const kept of previous?.columns ?? []) files.set(kept.name, { kept, file: open(kept.name) });
  const fileOf = ({ name, shape, values }: PredictedColumn): ColumnFile => {
    const dtype = values instanceof Int32Array ? "i32" : values instanceof Float64Array ? "f64" : "f32";
    const kept = { name, shape, dtype } as const;
    const found = files.get(name) ?? { kept, file: open(name) };
    files.set(name, found);
    if (found.kept.shape.join() === shape.join()) return found;
    throw new UserError(
      "data",
      `The model's ${name} has the shape [${found.kept.shape.join(", ")}] for the first samples and [${
        shape.join(", ")
      }] for some after sample ${count}: a file has room for one shape. Predict samples of one size at a time.`,
    );
  };
  return {
    add(rows) {
      for (const some of rows) {
        const { file } = fileOf(some);
        const { buffer, byteOffset, byteLength } = some.values;
        writing(where, () => writeAll(file, new Uint8Array(buffer, byteOffset, byteLength)));
      }
      count += rows[0].values.length;
    },
    columns: () => [...files.values()].map(({ kept }) => kept),
    rows: () => count,
    read(column, from, count) {
      const { kept: { shape, dtype }, file } = files.get(column)!;
      const each = shape.reduce((product, size) => product * size, 1);
      const made = new COLUMN_ARRAYS[dtype](count * each);
      const bytes = new Uint8Array(made.buffer);
      reading(where, () => file.seekSync(from * each * made.BYTES_PER_ELEMENT, Deno.SeekMode.Start));
      for (let done = 0; done < bytes.length;) {
        const got = reading(where, () => file.readSync(bytes.subarray(done)));
        if (!got) throw new UserError("data", `${where}: what was predicted is no longer all there.`);
        done += got;
      }
      return made;
    },
    close() {
      for (const { file } of files.values()) file.close();
    },
  };
}
