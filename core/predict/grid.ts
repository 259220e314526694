// Predictions on the grid of their data: CF NetCDF with the data's dimensions, coordinates and attributes, in
// which each target's name has what the model predicts of it.
import { basename, dirname } from "../../deps/path.ts";
import { writeAtomically } from "../base/atomic.ts";
import { checkDisk } from "../base/new_file.ts";
import { VERSION } from "../base/version.ts";
import { product } from "../data/columns/rows.ts";
import {
  ARRAYS,
  classicBytes,
  type ClassicFile,
  type ClassicVariable,
  type Numbers,
  writeClassic,
} from "../data/formats/netcdf/write.ts";
import type { Grid } from "../data/grid.ts";
import type { PredictionColumn } from "./columns.ts";
import { coordinateVariable } from "./coordinates.ts";
import { type Field, fieldsOf, type GridJob, SPLIT } from "./fields.ts";

export interface WrittenVariable {
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
  const fields = fieldsOf(columns, job);
  if (!fields) return null;
  const { grid } = job, named = (name: string) => columns.find((column) => column.name === name);
  const ids = named("id")!.read(0, columns[0].shape[0]);
  const { outer, variable } = placed(grid, ids);
  const [samples, ...others] = grid.dimensions;
  const own = fields.map(variable),
    coordinates = grid.coordinates.map((one) => coordinateVariable(one, grid, outer));
  const split = grid.pointwise ? undefined : named("split");
  const known = coordinates.some(({ name }) => name === samples.name);
  const content: ClassicFile = {
    dimensions: [{ ...samples, size: outer.length }, ...others, ...furtherDimensions(grid)],
    attributes: aboutFile(job, command),
    variables: [
      ...coordinates,
      ...(known ? [] : [numbersOf(samples.name, outer)]),
      ...(split
        ? [{
          ...SPLIT,
          dimensions: [samples.name],
          pieces: () => [Int8Array.from(split.read(0, ids.length))],
        }]
        : []),
      ...own,
    ],
  };
  checkDisk(
    `Predicting to ${path}`,
    dirname(path),
    classicBytes(content),
    "Free some space, or name a file on another disk.",
  );
  writeAtomically(path, (file) => writeClassic(file, content));
  const size = new Map(content.dimensions.map(({ name, size }) => [name, size]));
  return own.map(({ name, dimensions }) => ({
    name,
    dimensions,
    shape: dimensions.map((name) => size.get(name)!),
  }));
}

/** Bounds have a dimension that the targets do not have. */
function furtherDimensions({ dimensions, coordinates }: Grid) {
  const found = new Map<string, number>();
  for (const { dimensions, shape } of coordinates) dimensions.forEach((name, i) => found.set(name, shape[i]));
  for (const { name } of dimensions) found.delete(name);
  return [...found].map(([name, size]) => ({ name, size }));
}

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

interface Placed {
  /** Indices of the first dimension that the file has, ascending. */
  readonly outer: readonly number[];
  variable(field: Field): ClassicVariable;
}

function placed({ pointwise, dimensions: [samples, ...others] }: Grid, ids: ArrayLike<number>): Placed {
  const about = ({ name, type, attributes }: Field) => ({ name, type, attributes });
  if (!pointwise) {
    return {
      outer: Array.from(ids),
      variable: (field) => ({
        ...about(field),
        dimensions: [samples.name, ...field.dimensions],
        *pieces() {
          const rows = Math.max(1, Math.floor(PIECE / Math.max(1, field.elements)));
          for (let from = 0; from < ids.length; from += rows) {
            yield field.values(from, Math.min(rows, ids.length - from));
          }
        },
      }),
    };
  }
  const points = product(others.map(({ size }) => size));
  const outer: number[] = [], begins: number[] = [];
  for (let at = 0; at < ids.length; at++) {
    const index = Math.floor(ids[at] / points);
    if (index !== outer.at(-1)) begins.push(at), outer.push(index);
  }
  return {
    outer,
    variable: (field) => ({
      ...about(field),
      dimensions: [samples, ...others].map(({ name }) => name),
      *pieces() {
        for (const [i, index] of outer.entries()) {
          yield slab(field, ids, begins[i], begins[i + 1] ?? ids.length, points, index * points);
        }
      },
    }),
  };
}

/** Points that are no samples, or were not predicted, are missing. */
function slab(
  { type, fill, values }: Field,
  ids: ArrayLike<number>,
  from: number,
  end: number,
  points: number,
  first: number,
): Numbers {
  const found = values(from, end - from), made = new ARRAYS[type](points).fill(fill);
  for (let i = from; i < end; i++) made[ids[i] - first] = found[i - from];
  return made;
}
