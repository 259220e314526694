// Predictions on the grid of their data: CF NetCDF or Zarr with the data's dimensions, coordinates and attributes, in
// which each target's name has what the model predicts of it.
import { basename, dirname } from "../../deps/path.ts";
import { writeAtomically } from "../base/atomic.ts";
import { checkDisk } from "../base/new_file.ts";
import { VERSION } from "../base/version.ts";
import { product } from "../data/arrays/numbers.ts";
import {
  ARRAYS,
  classicBytes,
  type ClassicFile,
  type ClassicVariable,
  type NetcdfNumbers,
  writeClassic,
} from "../data/writers/netcdf.ts";
import { writeZarr } from "../data/writers/zarr.ts";
import type { Grid } from "../data/arrays/grid.ts";
import type { PredictionColumn } from "./columns.ts";
import { coordinateVariable, forecastTimes } from "./coordinates.ts";
import { fieldsOf, type GridJob, type PredictionAxis, type PredictionField, splitAbout } from "./fields.ts";

interface WrittenVariable {
  readonly name: string;
  readonly dimensions: readonly string[];
  readonly shape: readonly number[];
}

/** Null, and no file, where what the model answers does not fit the grid. */
export function writeGrid(
  path: string,
  columns: readonly PredictionColumn[],
  job: GridJob,
  command: string,
): WrittenVariable[] | null {
  const named = (name: string) => columns.find((column) => column.name === name);
  const ids = named("id")!.read(0, columns[0].shape[0]), rows = rowsOf(job.grid, ids);
  const { grid, outer, leadAxis, valid } = forecastTimes(job.grid, rows.seen);
  const [samples, ...others] = grid.dimensions, variable = placed(grid, ids, rows);
  const fields = fieldsOf(columns, { ...job, grid }, leadAxis);
  if (!fields) return null;
  const own = fields.map((field) => variable(valid ? describedBy(field, valid) : field));
  const coordinates = grid.coordinates.map((one) => coordinateVariable(one, grid));
  const known = coordinates.some(({ name }) => name === samples.name);
  const axes = [...new Map(fields.flatMap(({ axes }) => axes).map((axis) => [axis.name, axis])).values()];
  const split = grid.pointwise ? undefined : named("split");
  const content: ClassicFile = {
    dimensions: [{ ...samples, size: outer.length }, ...others, ...furtherDimensions(grid, axes)],
    attributes: aboutFile(job, command),
    variables: [
      ...coordinates,
      ...axes.map(axisVariable),
      ...(valid ? [valid] : []),
      ...(known ? [] : [numbersOf(samples.name, outer)]),
      ...(split ? [splitOf(samples.name, split)] : []),
      ...own,
    ],
  };
  checkDisk(
    `Predicting to ${path}`,
    dirname(path),
    classicBytes(content),
    "Free some space, or name a file on another disk.",
  );
  if (path.endsWith(".zarr")) writeZarr(path, content);
  else writeAtomically(path, (file) => writeClassic(file, content));
  const size = new Map(content.dimensions.map(({ name, size }) => [name, size]));
  return own.map(({ name, dimensions }) => ({
    name,
    dimensions,
    shape: dimensions.map((name) => size.get(name)!),
  }));
}

/** The times of leads describe what has leads. */
function describedBy(
  field: PredictionField,
  { name, dimensions: [, lead] }: ClassicVariable,
): PredictionField {
  if (!field.axes.some(({ name }) => name === lead)) return field;
  const { coordinates } = field.attributes;
  const all = typeof coordinates === "string" ? `${coordinates} ${name}` : name;
  return { ...field, attributes: { ...field.attributes, coordinates: all } };
}

/** Bounds have a dimension that the targets do not have, and so may predictions. */
function furtherDimensions({ dimensions, coordinates }: Grid, axes: readonly PredictionAxis[]) {
  const found = new Map(axes.map(({ name, values }) => [name, values.length]));
  for (const { dimensions, shape } of coordinates) dimensions.forEach((name, i) => found.set(name, shape[i]));
  for (const { name } of dimensions) found.delete(name);
  return [...found].map(([name, size]) => ({ name, size }));
}

const axisVariable = ({ name, values, attributes }: PredictionAxis): ClassicVariable => {
  const type = values.every(Number.isInteger) ? "i32" : "f64";
  return { name, type, dimensions: [name], attributes, pieces: () => [new ARRAYS[type](values)] };
};

const splitOf = (samples: string, split: PredictionColumn): ClassicVariable => ({
  ...splitAbout(split),
  dimensions: [samples],
  pieces: () => [Int8Array.from(split.read(0, split.shape[0]))],
});

const numbersOf = (samples: string, outer: readonly number[]): ClassicVariable => ({
  name: "id",
  type: "i32",
  dimensions: [samples],
  attributes: { long_name: "number of the sample in the data, from 0" },
  pieces: () => [Int32Array.from(outer)],
});

function aboutFile({ grid, checkpoint }: GridJob, command: string) {
  const names = grid.targets.map(({ name }) => name).join(", ");
  return {
    Conventions: "CF-1.8",
    title: `Predictions of ${names}`,
    source: `hpctrain ${VERSION}, checkpoint ${basename(checkpoint)}`,
    history: `${new Date().toISOString().slice(0, 19)}Z hpctrain ${VERSION}: ${command}`,
    comment: "A variable of the data's name is the model's prediction; NAME_target is what the data has.",
  };
}

/** A piece has at most so many values, but at least one sample. */
const PIECE = 1 << 18;

interface Rows {
  /** Indices of the first dimension, ascending: the samples', or those of their points. */
  readonly seen: readonly number[];
  /** The points of each begin at this sample. */
  readonly begins: readonly number[];
}

function rowsOf({ pointwise, dimensions: [, ...others] }: Grid, ids: ArrayLike<number>): Rows {
  const points = pointwise ? product(others.map(({ size }) => size)) : 1;
  const seen: number[] = [], begins: number[] = [];
  for (let at = 0; at < ids.length; at++) {
    const index = Math.floor(ids[at] / points);
    if (!pointwise || index !== seen.at(-1)) begins.push(at), seen.push(index);
  }
  return { seen, begins };
}

function placed(
  { pointwise, dimensions: [samples, ...others] }: Grid,
  ids: ArrayLike<number>,
  { seen, begins }: Rows,
): (field: PredictionField) => ClassicVariable {
  const about = ({ name, type, attributes, axes, dimensions }: PredictionField) => ({
    ...{ name, type, attributes },
    dimensions: [samples.name, ...axes.map(({ name }) => name), ...dimensions],
  });
  if (!pointwise) {
    return (field) => ({
      ...about(field),
      *pieces() {
        const rows = Math.max(1, Math.floor(PIECE / Math.max(1, field.elements)));
        for (let from = 0; from < ids.length; from += rows) {
          yield field.values(from, Math.min(rows, ids.length - from));
        }
      },
    });
  }
  const points = product(others.map(({ size }) => size)), names = others.map(({ name }) => name);
  return (field) => ({
    ...about({ ...field, dimensions: names }),
    *pieces() {
      for (const [i, index] of seen.entries()) {
        const place = (id: number) => id - index * points;
        yield slab(field, ids, begins[i], begins[i + 1] ?? ids.length, points, place);
      }
    },
  });
}

/** Points that are no samples, or were not predicted, are missing. */
function slab(
  { type, fill, elements, values }: PredictionField,
  ids: ArrayLike<number>,
  from: number,
  end: number,
  points: number,
  place: (id: number) => number,
): NetcdfNumbers {
  const found = values(from, end - from), made = new ARRAYS[type](elements * points).fill(fill);
  for (let i = from; i < end; i++) {
    const at = place(ids[i]);
    for (let j = 0; j < elements; j++) made[j * points + at] = found[(i - from) * elements + j];
  }
  return made;
}
