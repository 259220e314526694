// The times of a forecast. With one lead the samples' dimension is the time of what is predicted. With several it is the
// reference time, the last one that the model sees, beside a dimension of leads; the times of what is predicted have both.
import { isTimeUnits, timeCoding } from "../data/arrays/calendar.ts";
import { product } from "../data/arrays/numbers.ts";
import type { ClassicVariable } from "../data/writers/netcdf.ts";
import type { Grid, GridCoordinate } from "../data/arrays/grid.ts";
import { type Later, stepsLater } from "../data/arrays/coordinate.ts";
import { along, converted } from "./coordinates.ts";

export interface ForecastTimes {
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
