// Columns of predictions become variables of a grid's file: a field for each target and what belongs to it. Classes are
// whole numbers whose attributes say what each means, and how probable they are.
import { product } from "../data/arrays/numbers.ts";
import { channelsAreLast } from "../data/tables/choose.ts";
import type { ClassicAttributes, ClassicType, NetcdfNumbers } from "../data/writers/netcdf.ts";
import { type Grid, type GridTarget, listOf } from "../data/arrays/grid.ts";
import { ARRAYS } from "../data/writers/netcdf.ts";
import type { Source } from "../data/source/source.ts";
import { COLUMN_ARRAYS, elementsOf, type PredictionColumn } from "./columns.ts";
import { kept, memberAxis } from "./coordinates.ts";

/** A file on a grid needs this beside the columns. */
export interface GridJob {
  readonly grid: Grid;
  /** The target's own units are std * number + mean. */
  readonly units: Source["units"];
  /** The classes' names, or nothing for each; null for numbers. */
  readonly classes: readonly string[] | null;
  /** The model gives these parts one after the other, each for all targets. */
  readonly parts: AnswerParts;
  /** Predictions are missing where the target is. */
  readonly masked: boolean;
  /** Points of this class have none. */
  readonly ignored: number | null;
  readonly checkpoint: string;
}

interface AnswerParts {
  readonly count: number;
  /** The prediction is this one. */
  readonly point: number;
  /** All are quantiles of these levels. */
  readonly quantiles?: readonly number[];
}

/** A dimension that predictions have and the data have not, with its coordinate. */
export interface PredictionAxis {
  readonly name: string;
  readonly values: readonly number[];
  readonly attributes: ClassicAttributes;
}

export interface PredictionField {
  readonly name: string;
  readonly type: ClassicType;
  /** They come first, behind the samples' dimension. */
  readonly axes: readonly PredictionAxis[];
  /** The data's own dimensions of one sample. */
  readonly dimensions: readonly string[];
  readonly elements: number;
  readonly attributes: ClassicAttributes;
  readonly fill: number;
  /** Row-major; callers read in rising order. */
  values(from: number, count: number): NetcdfNumbers;
}

/**
 * Null where the columns are not on the grid: the model answers something of another shape. A single lead needs no
 * axis where the sample's coordinate is that of its target.
 */
export function fieldsOf(
  columns: readonly PredictionColumn[],
  job: GridJob,
  leadAxis = job.grid.leads.length > 1,
): PredictionField[] | null {
  const named = (name: string) => columns.find((column) => column.name === name) ?? null;
  const prediction = named("prediction");
  const numbers = { target: named("target"), std: named("std"), members: named("members") };
  const fields = job.classes
    ? job.grid.targets.length === 1 ? ofClasses(named, pointsOf(job.grid.targets[0], job.grid), job) : null
    : prediction && ofNumbers({ prediction, ...numbers }, job, leadAxis ? [leadsAxis(job.grid)] : []);
  const split = named("split");
  return fields && (split && job.grid.pointwise ? [...fields, splitField(split)] : fields);
}

const elementsIn = ({ shape }: GridTarget, { pointwise }: Grid): number =>
  pointwise ? 1 : product(shape.slice(1));

const dimensionsIn = ({ dimensions }: GridTarget, { pointwise }: Grid): readonly string[] =>
  pointwise ? [] : dimensions.slice(1);

const pointsOf = (one: GridTarget, grid: Grid) => ({
  elements: elementsIn(one, grid),
  dimensions: dimensionsIn(one, grid),
});

/** A part of the model's output, or of the target. */
interface Piece {
  readonly suffix: string;
  readonly column: PredictionColumn;
  /** Several parts lie along an axis. */
  readonly parts: readonly number[];
  readonly axis?: PredictionAxis;
  readonly value: (number: number, unit: { readonly std: number; readonly mean: number }) => number;
  readonly attributes: (own: ClassicAttributes, name: string) => ClassicAttributes;
}

interface NumberColumns {
  readonly prediction: PredictionColumn;
  readonly target: PredictionColumn | null;
  /** The standard deviation of each prediction. */
  readonly std: PredictionColumn | null;
  /** The members of an ensemble predict these, one after the other. */
  readonly members: PredictionColumn | null;
}

function ofNumbers(
  columns: NumberColumns,
  job: GridJob,
  axes: readonly PredictionAxis[],
): PredictionField[] | null {
  const { prediction, target } = columns, { grid, parts } = job;
  const each = grid.targets.reduce((sum, one) => sum + elementsIn(one, grid), 0);
  const all = each * grid.leads.length;
  if (elementsOf(prediction) !== parts.count * all || (target && elementsOf(target) !== all)) return null;
  const pieces = piecesOf(columns, parts);
  let begin = 0;
  return grid.targets.flatMap((one) => {
    const places = placesOf(one, grid, begin);
    begin += places.length;
    return pieces.map((piece) => numberField(piece, one, { all, each, places, target, axes }, job));
  });
}

function piecesOf({ prediction: column, target, std, members }: NumberColumns, parts: AnswerParts): Piece[] {
  const { point, quantiles } = parts;
  const scaled: Piece["value"] = (number, { std, mean }) => number * std + mean;
  const same: Piece["attributes"] = (own) => own;
  return [
    {
      ...{ suffix: "", column, parts: [point], value: scaled },
      attributes: std ? (own, name) => ({ ...own, ancillary_variables: `${name}_std` }) : same,
    },
    ...(std
      ? [{
        ...{ suffix: "_std", column: std, parts: [0], attributes: deviating },
        value: (number: number, { std }: { std: number }) => number * Math.abs(std),
      }]
      : []),
    ...(quantiles
      ? [{
        ...{
          suffix: "_quantile",
          column,
          parts: quantiles.map((_, i) => i),
          value: scaled,
          attributes: same,
        },
        axis: { name: "quantile", values: quantiles, attributes: { long_name: "quantile", units: "1" } },
      }]
      : []),
    ...(members ? [ofMembers(members, scaled)] : []),
    ...(target ? [{ suffix: "_target", column: target, parts: [0], value: scaled, attributes: same }] : []),
  ];
}

function ofMembers(column: PredictionColumn, value: Piece["value"]): Piece {
  const axis = memberAxis(column);
  return { suffix: "_members", column, parts: axis.values, value, attributes: (own) => own, axis };
}

interface Layout {
  /** Numbers of all targets at all leads, and of all targets at one. */
  readonly all: number;
  readonly each: number;
  readonly places: Int32Array;
  readonly target: PredictionColumn | null;
  readonly axes: readonly PredictionAxis[];
}

function numberField(
  { suffix, column, parts, axis, value, attributes }: Piece,
  one: GridTarget,
  { all, each, places, target, axes }: Layout,
  { grid, units, masked }: GridJob,
): PredictionField {
  const width = elementsOf(column), type = column.dtype === "f64" ? "f64" : "f32", fill = fillOf(one, type);
  // Row-major over leads, parts and the target's own points.
  const known = Int32Array.from(
    grid.leads.flatMap((_, lead) => parts.flatMap(() => Array.from(places, (place) => lead * each + place))),
  );
  const at = grid.leads.flatMap((_, lead) =>
    parts.flatMap((part) => Array.from(places, (place) => part * all + lead * each + place))
  );
  const unit = Array.from(known, (place) => {
    const k = units ? Math.floor(place * units.mean.length / all) : 0;
    return { std: units?.std[k] ?? 1, mean: units?.mean[k] ?? 0 };
  });
  const elements = at.length, hidden = masked && column !== target ? target : null;
  return {
    ...{ type, fill, elements },
    name: one.name + suffix,
    axes: [...axes, ...(axis ? [axis] : [])],
    dimensions: dimensionsIn(one, grid),
    attributes: attributes(kept(one, grid, { type, fill }), one.name),
    values(from, count) {
      const numbers = column.read(from, count), truth = hidden?.read(from, count);
      const made = new COLUMN_ARRAYS[type](count * elements);
      for (let i = 0; i < count; i++) {
        for (let j = 0; j < elements; j++) {
          const found = numbers[i * width + at[j]];
          const missing = found !== found || (truth !== undefined && Number.isNaN(truth[i * all + known[j]]));
          made[i * elements + j] = missing ? fill : value(found, unit[j]);
        }
      }
      return made;
    },
  };
}

const leadsAxis = ({ leads }: Grid): PredictionAxis => ({
  ...{ name: "lead", values: leads },
  attributes: { long_name: "steps from the last time that the model sees" },
});

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
function fillOf({ dtype, attributes }: GridTarget, type: "f32" | "f64"): number {
  const fill = attributes.get("_FillValue");
  if (typeof fill !== "object" || !/^f(32|64)$/.test(dtype ?? "")) return NaN;
  const number = type === "f64" ? fill[0] : Math.fround(fill[0]);
  return Number.isFinite(number) ? number : NaN;
}

const splitField = (split: PredictionColumn): PredictionField => ({
  ...splitAbout(split),
  axes: [],
  dimensions: [],
  elements: 1,
  fill: -1,
  values: (from, count) => new Int8Array(split.read(from, count)),
});

/** With --all: which part of the run's data a sample is of. */
export const splitAbout = ({ names = [] }: PredictionColumn) => ({
  name: "split",
  type: "i8",
  attributes: {
    long_name: "part of the run's data",
    flag_values: { type: "i8", values: names.map((_, i) => i) },
    flag_meanings: names.map((name) => name === "val" ? "validation" : name).join(" "),
  },
} as const);

/** Null where the columns are not on the grid. */
function ofClasses(
  named: (name: string) => PredictionColumn | null,
  { elements, dimensions }: Pick<PredictionField, "elements" | "dimensions">,
  { grid, masked, ignored, classes }: GridJob,
): PredictionField[] | null {
  const [one] = grid.targets, names = classes!, fill = -1;
  const [label, target, likeliest, all, members] = [
    "label",
    "target",
    "probability",
    "probabilities",
    "members",
  ]
    .map(named);
  const fits = (column: PredictionColumn | null, parts = 1) =>
    !column || elementsOf(column) === parts * elements;
  if (!label || ![label, target, likeliest].every((column) => fits(column)) || !fits(all, names.length)) {
    return null;
  }
  const type = names.length <= 127 ? "i8" : names.length <= 32_767 ? "i16" : "i32";
  const about = { type, axes: [], dimensions, elements, fill } as const;
  const own = { ...kept(one, grid, about), ...flagsOf(one, names, type) };
  /** Points without a class in `truth` are missing. */
  const read = (
    type: ClassicType,
    column: PredictionColumn,
    truth: PredictionColumn | null,
    missing: number,
  ): PredictionField["values"] => {
    const parts = elementsOf(column) / elements;
    return (from, count) => {
      const numbers = column.read(from, count);
      const known = truth === column ? numbers : truth?.read(from, count);
      const made = new ARRAYS[type](numbers);
      for (let i = 0; known && i < made.length; i++) {
        const seen = known[Math.floor(i / (parts * elements)) * elements + i % elements];
        if (!(seen >= 0) || seen === ignored) made[i] = missing;
      }
      return made;
    };
  };
  const truth = masked ? target : null, { name } = one, shown = all ?? likeliest;
  const shares = { ...about, type: "f32", fill: NaN } as const;
  return [
    { ...about, name, attributes: own, values: read(type, label, truth, fill) },
    ...(shown
      ? [{
        ...shares,
        name: `${name}_probability`,
        axes: shown === all ? [classAxis(own)] : [],
        elements: elementsOf(shown),
        attributes: {
          ...kept(placing(one), grid, shares),
          long_name: shown === all ? "probability of each class" : `probability of the class in ${name}`,
          units: "1",
        },
        values: read("f32", shown, truth, NaN),
      }]
      : []),
    ...(members && elementsOf(members) === members.shape[1] * names.length * elements
      ? [{
        ...shares,
        name: `${name}_members`,
        axes: [memberAxis(members), classAxis(own)],
        elements: elementsOf(members),
        attributes: {
          ...kept(placing(one), grid, shares),
          long_name: "probability of each class by each member",
          units: "1",
        },
        values: read("f32", members, truth, NaN),
      }]
      : []),
    ...(target
      ? [{ ...about, name: `${name}_target`, attributes: own, values: read(type, target, target, fill) }]
      : []),
  ];
}

/** Only the attributes that say where something lies, and not what it is. */
const placing = (one: GridTarget): GridTarget => ({
  ...one,
  attributes: new Map([...one.attributes].filter(([key]) => /^(coordinates|grid_mapping)$/.test(key))),
});

const classAxis = ({ flag_values, flag_meanings }: ClassicAttributes): PredictionAxis => {
  const values = typeof flag_values === "string" ? [] : flag_values.values;
  const numbers = { type: values.every(Number.isInteger) ? "i32" : "f64", values } as const;
  return {
    ...{ name: "class", values },
    attributes: { long_name: "class", flag_values: numbers, flag_meanings },
  };
};

/** Classes have the data's own meanings, where it has some, or else their names. */
function flagsOf(
  { attributes }: GridTarget,
  classes: readonly string[],
  type: ClassicType,
): ClassicAttributes {
  const values = attributes.get("flag_values"), meanings = listOf(attributes, "flag_meanings");
  const words = classes.map((name, i) => {
    const own = typeof values === "object" ? meanings[values.indexOf(i)] : undefined;
    return own ?? (name.trim().replaceAll(/\s+/g, "_") || `class_${i}`);
  });
  return { flag_values: { type, values: words.map((_, i) => i) }, flag_meanings: words.join(" ") };
}
