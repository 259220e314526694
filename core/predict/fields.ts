// Columns of predictions become variables of a grid's file: a field for each target and what belongs to it.
import { product } from "../data/columns/rows.ts";
import { channelsAreLast } from "../data/columns/choose.ts";
import {
  ARRAYS,
  type ClassicAttributes,
  type ClassicType,
  type Numbers,
} from "../data/formats/netcdf/write.ts";
import type { Grid, GridTarget } from "../data/grid.ts";
import { listOf } from "../data/grid.ts";
import type { Source } from "../data/source.ts";
import { elementsOf, type PredictionColumn } from "./columns.ts";
import { kept } from "./coordinates.ts";

/** A file on a grid needs this beside the columns. */
export interface GridJob {
  readonly grid: Grid;
  /** The target's own units are std * number + mean. */
  readonly units: Source["units"];
  /** The classes' names, or nothing for each; null for numbers. */
  readonly classes: readonly string[] | null;
  /** The model gives means and then logarithms of variances. */
  readonly spread: boolean;
  /** Predictions are missing where the target is. */
  readonly masked: boolean;
  /** Points of this class have none. */
  readonly ignored: number | null;
  readonly checkpoint: string;
}

export interface Field {
  readonly name: string;
  readonly type: ClassicType;
  /** Those of one sample. */
  readonly dimensions: readonly string[];
  readonly elements: number;
  readonly attributes: ClassicAttributes;
  readonly fill: number;
  /** Row-major; callers read in rising order. */
  values(from: number, count: number): Numbers;
}

/** Null where the columns are not on the grid: the model answers something of another shape. */
export function fieldsOf(columns: readonly PredictionColumn[], job: GridJob): Field[] | null {
  const named = (name: string) => columns.find((column) => column.name === name) ?? null;
  const label = named("label"), prediction = named("prediction");
  const fields = job.classes
    ? label && ofClasses({ label, target: named("target"), probability: named("probability") }, job)
    : prediction && ofNumbers(prediction, named("target"), job);
  const split = named("split");
  return fields && (split && job.grid.pointwise ? [...fields, splitField(split)] : fields);
}

const elementsIn = ({ shape }: GridTarget, { pointwise }: Grid): number =>
  pointwise ? 1 : product(shape.slice(1));

const dimensionsIn = ({ dimensions }: GridTarget, { pointwise }: Grid): readonly string[] =>
  pointwise ? [] : dimensions.slice(1);

function ofNumbers(
  prediction: PredictionColumn,
  target: PredictionColumn | null,
  job: GridJob,
): Field[] | null {
  const { grid, units, spread, masked } = job;
  const all = grid.targets.reduce((sum, one) => sum + elementsIn(one, grid), 0);
  const given = elementsOf(prediction);
  if (given !== (spread ? 2 : 1) * all || (target && elementsOf(target) !== all)) return null;
  let begin = 0;
  return grid.targets.flatMap((one) => {
    const elements = elementsIn(one, grid), places = placesOf(one, grid, begin);
    begin += elements;
    const scales = Array.from(places, (place) => {
      const k = units ? Math.floor(place * units.mean.length / all) : 0;
      return { std: units?.std[k] ?? 1, mean: units?.mean[k] ?? 0 };
    });
    const about = { type: "f32", dimensions: dimensionsIn(one, grid), elements, fill: fillOf(one) } as const;
    const read = (
      { column, width, at }: { column: PredictionColumn; width: number; at: number },
      value: (number: number, j: number) => number,
      hidden: PredictionColumn | null,
    ): Field["values"] =>
    (from, count) => {
      const numbers = column.read(from, count), known = hidden?.read(from, count);
      const made = new Float32Array(count * elements);
      for (let i = 0; i < count; i++) {
        for (let j = 0; j < elements; j++) {
          const place = places[j], found = numbers[i * width + at + place];
          const missing = found !== found || (known !== undefined && Number.isNaN(known[i * all + place]));
          made[i * elements + j] = missing ? about.fill : value(found, j);
        }
      }
      return made;
    };
    const scaled = (number: number, j: number) => number * scales[j].std + scales[j].mean;
    const deviation = (number: number, j: number) => Math.exp(number / 2) * Math.abs(scales[j].std);
    const hidden = masked ? target : null;
    const mean = { column: prediction, width: given, at: 0 };
    const { name } = one, own = kept(one, grid, about);
    return [
      {
        ...about,
        name,
        attributes: spread ? { ...own, ancillary_variables: `${name}_std` } : own,
        values: read(mean, scaled, hidden),
      },
      ...(spread
        ? [{
          ...about,
          name: `${name}_std`,
          attributes: deviating(own, name),
          values: read({ ...mean, at: all }, deviation, hidden),
        }]
        : []),
      ...(target
        ? [{
          ...about,
          name: `${name}_target`,
          attributes: own,
          values: read({ column: target, width: all, at: 0 }, scaled, null),
        }]
        : []),
    ];
  });
}

/** CF's modifier for the standard deviation of a quantity. */
function deviating(own: ClassicAttributes, name: string): ClassicAttributes {
  const { standard_name, long_name } = own;
  return {
    ...own,
    ...(standard_name ? { standard_name: `${standard_name} standard_error` } : {}),
    long_name: `standard deviation of ${long_name ?? name}`,
  };
}

/** Where a sample's values are in the model's output, which has channels first. */
function placesOf({ shape }: GridTarget, { pointwise }: Grid, begin: number): Int32Array {
  const size = pointwise ? 1 : product(shape.slice(1));
  if (pointwise || !channelsAreLast(shape)) return Int32Array.from({ length: size }, (_, j) => begin + j);
  const channels = shape[3], pixels = size / channels;
  return Int32Array.from(
    { length: size },
    (_, j) => begin + j % channels * pixels + Math.floor(j / channels),
  );
}

/** The data's own, where a float can be it. */
function fillOf({ dtype, attributes }: GridTarget): number {
  const fill = attributes.get("_FillValue");
  if (typeof fill !== "object" || !/^f(32|64)$/.test(dtype ?? "")) return NaN;
  const number = Math.fround(fill[0]);
  return Number.isFinite(number) ? number : NaN;
}

interface ClassColumns {
  readonly label: PredictionColumn;
  readonly target: PredictionColumn | null;
  readonly probability: PredictionColumn | null;
}

function ofClasses({ label, target, probability }: ClassColumns, job: GridJob): Field[] | null {
  const { grid, masked, ignored } = job, [one, ...others] = grid.targets, classes = job.classes!;
  const elements = elementsIn(one, grid), fill = -1;
  const columns = [label, target, probability].filter((column) => column !== null);
  if (others.length > 0 || columns.some((column) => elementsOf(column) !== elements)) return null;
  const type = classes.length <= 127 ? "i8" : classes.length <= 32_767 ? "i16" : "i32";
  const about = { type, dimensions: dimensionsIn(one, grid), elements, fill } as const;
  const own = { ...kept(one, grid, about), ...flagsOf(one, classes, type) };
  const read = <T extends ClassicType>(
    type: T,
    column: PredictionColumn,
    fill: number,
    hidden: PredictionColumn | null,
  ): Field["values"] =>
  (from, count) => {
    const numbers = column.read(from, count), known = hidden?.read(from, count);
    return new ARRAYS[type](
      Array.from(numbers, (number, i) => {
        const seen = known?.[i] ?? (column === target ? number : 0);
        return Number.isNaN(seen) || seen < 0 || seen === ignored ? fill : number;
      }),
    );
  };
  const hidden = masked ? target : null, { name } = one;
  const shares = { ...about, type: "f32", fill: NaN } as const;
  return [
    { ...about, name, attributes: own, values: read(type, label, fill, hidden) },
    ...(probability
      ? [{
        ...shares,
        name: `${name}_probability`,
        attributes: {
          ...kept(
            { ...one, attributes: new Map([...one.attributes].filter(([key]) => PLACING.test(key))) },
            grid,
            shares,
          ),
          long_name: `probability of the class in ${name}`,
          units: "1",
        },
        values: read("f32", probability, NaN, hidden),
      }]
      : []),
    ...(target
      ? [{ ...about, name: `${name}_target`, attributes: own, values: read(type, target, fill, null) }]
      : []),
  ];
}

/** Attributes that say where something lies, and not what it is. */
const PLACING = /^(coordinates|grid_mapping)$/;

/** The data's own meanings, or the classes' names. */
function flagsOf(
  { attributes }: GridTarget,
  classes: readonly string[],
  type: ClassicType,
): ClassicAttributes {
  const values = attributes.get("flag_values"), meanings = listOf(attributes, "flag_meanings");
  const own = typeof values === "object" && values.length === meanings.length && meanings.length > 0;
  const words = classes.map((name, i) => name.trim().replaceAll(/\s+/g, "_") || `class_${i}`);
  return {
    flag_values: { type, values: own ? values : words.map((_, i) => i) },
    flag_meanings: own ? meanings.join(" ") : words.join(" "),
  };
}

const splitField = (split: PredictionColumn): Field => ({
  ...SPLIT,
  dimensions: [],
  elements: 1,
  fill: -1,
  values: (from, count) => new Int8Array(split.read(from, count)),
});

/** With --all: which part of the run's data a sample is of. */
export const SPLIT = {
  name: "split",
  type: "i8",
  attributes: {
    long_name: "part of the run's data",
    flag_values: { type: "i8", values: [0, 1] },
    flag_meanings: "train validation",
  },
} as const;
