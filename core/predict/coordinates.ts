// The data's coordinates and attributes, as a classic NetCDF file can have them, and the times of a forecast. With one lead
// the samples' dimension is the time of what is predicted. With several it is the reference time, the last one that the
// model sees, beside a dimension of leads; the times of what is predicted have both.
import type { DType } from "../../ffi/dtype.ts";
import { product, type VariableValues } from "../data/arrays/numbers.ts";
import {
  ARRAYS,
  type AttributeValue,
  type ClassicAttributes,
  type ClassicType,
  type ClassicVariable,
  type NetcdfNumbers,
} from "../data/writers/netcdf.ts";
import type { PredictionColumn } from "./columns.ts";
import type { PredictionAxis } from "./fields.ts";
import { type Grid, type GridCoordinate, type GridTarget, listOf } from "../data/arrays/grid.ts";
import { isTimeUnits, timeCoding } from "../data/arrays/calendar.ts";
import { type Later, stepsLater } from "../data/arrays/coordinate.ts";

export function coordinateVariable(coordinate: GridCoordinate, { coordinates }: Grid): ClassicVariable {
  const { role, name, dimensions, attributes } = coordinate;
  const numbers = converted(coordinate.dtype, coordinate.values);
  const written = new Set(coordinates.map(({ name }) => name));
  const made: Record<string, AttributeValue> = {};
  for (const [key, value] of attributes) {
    // A coordinate has no missing values, and its bounds may be of text.
    if (role === "coordinate" && /^(_FillValue|missing_value)$/.test(key)) continue;
    if (NAMING.test(key) && !listOf(attributes, key).every((name) => written.has(name))) continue;
    const as = attribute(key, value, numbers.type);
    if (as !== null) made[key] = as;
  }
  return { name, type: numbers.type, dimensions, attributes: made, pieces: () => [numbers.values] };
}

/** These attributes name variables, which the file may lack. */
const NAMING =
  /^(bounds|climatology|coordinates|grid_mapping|ancillary_variables|cell_measures|formula_terms)$/;

/** The values at these indices of one dimension; all of them where there is no such dimension. */
function along(
  { shape, values }: Pick<GridCoordinate, "shape" | "values">,
  axis: number,
  indices: readonly number[],
): VariableValues {
  if (axis < 0) return values;
  const inner = product(shape.slice(axis + 1)), blocks = product(shape.slice(0, axis));
  const found = new Float64Array(blocks * indices.length * inner);
  let at = 0;
  for (let block = 0; block < blocks; block++) {
    for (const index of indices) {
      const from = (block * shape[axis] + index) * inner;
      for (let i = 0; i < inner; i++) found[at++] = Number(values[from + i]);
    }
  }
  return found;
}

const LEAST = -(2 ** 31), MOST = 2 ** 31 - 1;

const SAME = new Set<DType>(["i8", "i16", "i32", "f32", "f64"]);

const WIDER: Partial<Record<DType, ClassicType>> = { bool: "i8", u8: "i16", u16: "i32", f16: "f32" };

/** CDF-2 has no unsigned or 64-bit whole numbers: they become a type that holds them, as xarray does it. */
function converted(dtype: DType, found: VariableValues): { type: ClassicType; values: NetcdfNumbers } {
  const numbers = found instanceof Float64Array ? found : Float64Array.from(found, Number);
  const whole = () => numbers.every((value) => Number.isInteger(value) && value >= LEAST && value <= MOST);
  const type = SAME.has(dtype) ? dtype as ClassicType : WIDER[dtype] ?? (whole() ? "i32" : "f64");
  const values = new ARRAYS[type](numbers);
  // Times that go on behind the data's may be no whole numbers, or beyond those of the type.
  const holds = /^f/.test(type) || numbers.every((value, i) => values[i] === value);
  return holds ? { type, values } : { type: "f64", values: numbers };
}

const OF_VALUES = /^(_FillValue|missing_value|valid_min|valid_max|valid_range|flag_values|flag_masks)$/;

/** Null where the type can't hold the attribute. */
function attribute(key: string, value: readonly number[] | string, type: ClassicType): AttributeValue | null {
  if (typeof value === "string") return value;
  if (OF_VALUES.test(key)) {
    const made = new ARRAYS[type](value);
    return value.every((one, i) => Object.is(made[i], one) || type === "f32")
      ? { type, values: value }
      : null;
  }
  const whole = value.every((one) => Number.isInteger(one) && one >= LEAST && one <= MOST);
  return { type: whole && !/^(scale_factor|add_offset)$/.test(key) ? "i32" : "f64", values: value };
}

/** These are of the packed values, or name variables that the file does not have. */
const LEFT =
  /^(_FillValue|missing_value|valid_min|valid_max|valid_range|actual_range|scale_factor|add_offset|_Unsigned|flag_.*|ancillary_variables|cell_measures|coordinates|grid_mapping)$/;

/** A target's attributes, for values that are not packed. */
export function kept(
  { attributes, dimensions }: GridTarget,
  { coordinates, dimensions: all }: Grid,
  { type, fill }: { readonly type: ClassicType; readonly fill: number },
): ClassicAttributes {
  const made: Record<string, AttributeValue> = { _FillValue: { type, values: [fill] } };
  for (const [key, value] of attributes) {
    const as = LEFT.test(key) ? null : attribute(key, value, type);
    if (as !== null) made[key] = as;
  }
  const own = new Set(dimensions.length > 0 ? dimensions : all.map(({ name }) => name));
  const places = coordinates.filter(({ role, dimensions }) =>
    role === "auxiliary" && dimensions.every((name) => own.has(name))
  );
  if (places.length > 0) made.coordinates = places.map(({ name }) => name).join(" ");
  const mapping = attributes.get("grid_mapping");
  const mapped = listOf(attributes, "grid_mapping").some((name) =>
    coordinates.some((one) => one.role === "mapping" && one.name === name)
  );
  return typeof mapping === "string" && mapped ? { ...made, grid_mapping: mapping } : made;
}

/** The members of an ensemble, along which a column has its second dimension. */
export const memberAxis = ({ shape: [, members] }: PredictionColumn): PredictionAxis => ({
  name: "member",
  values: Array.from({ length: members }, (_, member) => member),
  attributes: { standard_name: "realization", long_name: "member of the ensemble", units: "1" },
});

interface ForecastTimes {
  /** Its coordinates lie along the rows of the file, and its samples' dimension has the name of the file's. */
  readonly grid: Grid;
  /** The samples' dimension has these rows of the data, which may go on behind its last one. */
  readonly outer: readonly number[];
  readonly leadAxis: boolean;
  /** Null where a lead is no dimension, or nobody knows how long a step is. */
  readonly valid: ClassicVariable | null;
}

const REFERENCE = "forecast_reference_time", VALID = "valid_time";

/** `seen`: rows of the data, the last ones that the model sees. */
export function forecastTimes(grid: Grid, seen: readonly number[]): ForecastTimes {
  const { leads: [lead, ...more], dimensions: [{ name, size }], coordinates } = grid;
  const own = coordinates.find((one) => one.role === "coordinate" && one.name === name) ?? null;
  const later = own && (lead > 0 || more.length > 0) ? stepsLater(seriesOf(own, own)) : null;
  if (more.length === 0 && (lead === 0 || !later || seen.every((row) => knows(later, row, lead)))) {
    const outer = seen.map((row) => row + lead);
    const reached = seen.every((row) =>
      lead === 0 || (later ? later.row(row, lead) !== null : row + lead < size)
    );
    const moved = coordinates.flatMap((one) =>
      reached ? [atRows(one, name, outer)] : beyond(one, own, grid, seen) ?? []
    );
    return { grid: { ...grid, coordinates: moved }, outer, leadAxis: false, valid: null };
  }
  const renamed = own && isTime(own) ? withReference(grid, own) : grid, [samples] = renamed.dimensions;
  return {
    grid: { ...renamed, coordinates: renamed.coordinates.map((one) => atRows(one, samples.name, seen)) },
    outer: seen,
    leadAxis: true,
    valid: own && validTimes(own, later!, { seen, leads: grid.leads, samples: samples.name }),
  };
}

const knows = ({ row, isRegular }: Later, index: number, steps: number): boolean =>
  isRegular || row(index, steps) !== null;

const isTime = ({ name, attributes }: GridCoordinate): boolean =>
  isTimeUnits(textOf(attributes, "units")) || /^(time|date|datetime)$/i.test(name);

function textOf(attributes: GridCoordinate["attributes"], key: string): string | undefined {
  const text = attributes.get(key);
  return typeof text === "string" ? text : undefined;
}

/** A coordinate's numbers, or those of a column of its bounds, as what its attributes say. */
function seriesOf({ attributes }: GridCoordinate, { values }: Pick<GridCoordinate, "values">) {
  const units = textOf(attributes, "units");
  const times = isTimeUnits(units) ? timeCoding(units!, textOf(attributes, "calendar")) : null;
  return {
    values: Float64Array.from(values as ArrayLike<number>, Number),
    times: typeof times === "string" ? null : times,
  };
}

function atRows(one: GridCoordinate, samples: string, rows: readonly number[]): GridCoordinate {
  const axis = one.dimensions.indexOf(samples);
  if (axis < 0) return one;
  return { ...one, shape: one.shape.with(axis, rows.length), values: along(one, axis, rows) };
}

/** Behind the last row, or a gap, the samples' own coordinate and its bounds go on in regular steps; nothing else is known there. */
function beyond(
  one: GridCoordinate,
  own: GridCoordinate | null,
  { dimensions: [{ name }], leads: [lead] }: Grid,
  seen: readonly number[],
): GridCoordinate | null {
  if (!one.dimensions.includes(name)) return one;
  const isBounds = own && one.role === "bounds" && textOf(own.attributes, "bounds")?.endsWith(one.name);
  if (!own || (one !== own && !isBounds) || one.dimensions[0] !== name) return null;
  const columns = product(one.shape.slice(1)), values = new Float64Array(seen.length * columns);
  for (let k = 0; k < columns; k++) {
    const column = Float64Array.from({ length: one.shape[0] }, (_, i) => Number(one.values[i * columns + k]));
    const { value } = stepsLater(seriesOf(own, { values: column }));
    seen.forEach((row, i) => values[i * columns + k] = value(row, lead));
  }
  return { ...one, shape: one.shape.with(0, seen.length), values };
}

/** A reference is a moment, and has no bounds; `time` is then the valid one. */
function withReference(grid: Grid, own: GridCoordinate): Grid {
  const bounds = textOf(own.attributes, "bounds"), taken = [REFERENCE, VALID];
  const renamed = (name: string) => name === own.name ? REFERENCE : name;
  const attributes = new Map([
    ...[...own.attributes].filter(([key]) =>
      !/^(bounds|climatology|axis|standard_name|long_name)$/.test(key)
    ),
    ["standard_name", REFERENCE] as const,
    ["long_name", "last time that the model sees"] as const,
  ]);
  const kept = grid.coordinates.filter((one) =>
    one === own || !taken.includes(one.name) && !(one.role === "bounds" && bounds?.endsWith(one.name))
  );
  return {
    ...grid,
    dimensions: grid.dimensions.map((one) => ({ ...one, name: renamed(one.name) })),
    targets: grid.targets.map((one) => ({ ...one, dimensions: one.dimensions.map(renamed) })),
    coordinates: kept.map((one) => ({
      ...one,
      ...(one === own && { name: REFERENCE, attributes }),
      dimensions: one.dimensions.map(renamed),
    })),
  };
}

interface Forecasts {
  readonly seen: readonly number[];
  readonly leads: readonly number[];
  readonly samples: string;
}

function validTimes(
  { dtype, attributes }: GridCoordinate,
  later: Later,
  { seen, leads, samples }: Forecasts,
): ClassicVariable | null {
  if (!seen.every((row) => leads.every((lead) => knows(later, row, lead)))) return null;
  const { type, values } = converted(
    dtype,
    Float64Array.from(seen.flatMap((row) => leads.map((lead) => later.value(row, lead)))),
  );
  const coding = ["units", "calendar"].flatMap((key) => {
    const text = textOf(attributes, key);
    return text === undefined ? [] : [[key, text]];
  });
  return {
    name: VALID,
    type,
    dimensions: [samples, "lead"],
    attributes: {
      ...Object.fromEntries(coding),
      ...(isTimeUnits(textOf(attributes, "units")) && { standard_name: "time" }),
      long_name: "time of what is predicted",
    },
    pieces: () => [values],
  };
}
