// Samples lie along coordinates: a time, a latitude, a station's name.
import { UserError } from "../../base/errors.ts";
import { didYouMean } from "../../base/suggest.ts";
import { formatDate, isTimeUnits, parseDate, type TimeCoding, timeCoding } from "./calendar.ts";
import type { Column, Table } from "./table.ts";
import { view } from "./numbers.ts";

export interface Coordinate {
  readonly name: string;
  /** Row r has the value at floor(r / each) modulo their number. */
  readonly values: Float64Array;
  readonly each: number;
  /** The values are places in this list. */
  readonly texts: readonly string[] | null;
  /** The values are times. */
  readonly times: TimeCoding | null;
}

/** Users name it in `setting`. */
export function coordinateNamed(table: Table, name: string, samples: number, setting: string): Coordinate {
  const { path, noun, columns } = table;
  const column = columns.find((column) => column.name === name);
  if (!column) {
    const along = columns.filter((column) => placeOf(table, column, samples) !== null).map(({ name }) =>
      name
    );
    throw new UserError(
      "data",
      `${path} has no ${noun} "${name}" (${setting}).${didYouMean(name, along)} ` +
        `Along its samples are ${along.slice(0, 20).join(", ") || "none"}.`,
    );
  }
  const each = placeOf(table, column, samples);
  if (each === null || column.unusable) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${name}" (${setting}) ${
        column.unusable ?? `has the shape [${column.shape.join(", ")}], and not one value for each sample`
      }.`,
    );
  }
  return coordinateOf(table, column, each);
}

const TIME_NAMES = /^(time|date|datetime)$/i;

export const isTimeColumn = ({ name, shape, units }: Column): boolean =>
  shape.length === 1 && (TIME_NAMES.test(name) || isTimeUnits(units));

/** Null where the samples have no time. */
export function timeOf(table: Table, samples: number): Coordinate | null {
  const along = table.columns.filter((column) =>
    !column.unusable && placeOf(table, column, samples) !== null
  );
  const first = table.grid?.[0];
  const found =
    along.find(({ name, dimensions }) => first && name === first.name && dimensions?.length === 1) ??
      along.find(({ units, shape }) => isTimeUnits(units) && (!first || shape[0] === first.size)) ??
      along.find(({ name }) => TIME_NAMES.test(name) && !first);
  return found ? coordinateOf(table, found, placeOf(table, found, samples)!) : null;
}

/** The rows that follow each other at one value; null where the column is no coordinate of the samples. */
function placeOf({ grid }: Table, { shape, dimensions }: Column, samples: number): number | null {
  if (shape.length !== 1) return null;
  const at = grid?.findIndex(({ name, size }) => name === dimensions?.[0] && size === shape[0]) ?? -1;
  if (at >= 0) return grid!.slice(at + 1).reduce((product, { size }) => product * size, 1);
  return shape[0] === samples ? 1 : null;
}

function coordinateOf({ path, noun }: Table, column: Column, each: number): Coordinate {
  const { name, dtype, text, units, calendar } = column;
  const read = column.read();
  const stored = view(new Uint8Array(read.buffer, read.byteOffset, read.byteLength), dtype);
  const values = Float64Array.from(stored as ArrayLike<number>, Number);
  const texts = text?.classes() ?? null;
  if (texts) return { name, each, ...(datesOf(texts, values) ?? { values, texts, times: null }) };
  const times = isTimeUnits(units) ? timeCoding(units!, calendar) : null;
  if (typeof times === "string") throw new UserError("data", `${path}: the ${noun} "${name}" ${times}.`);
  return { name, values, each, texts: null, times };
}

/** Null where not all texts are dates. */
function datesOf(texts: readonly string[], places: Float64Array): Omit<Coordinate, "name" | "each"> | null {
  const times = timeCoding("days since 1970-01-01", "proleptic_gregorian");
  if (typeof times === "string") return null;
  const dates = texts.map(parseDate);
  if (!dates.every((date) => date !== null)) return null;
  const numbers = dates.map(([year, month = 1, day = 1, hour = 0, minute = 0, second = 0]) =>
    times.encode({ year, month, day, hour, minute, second, microsecond: 0 })
  );
  return { values: places.map((at) => numbers[at] ?? NaN), texts: null, times };
}

/** The value of a coordinate as users write it. */
export function valueText({ texts, times }: Coordinate, value: number): string {
  if (texts) return texts[value] ?? "missing";
  const date = times?.decode(value);
  return date ? formatDate(date) : String(Number(value.toPrecision(8)));
}

export const valueAt = ({ values, each }: Coordinate, row: number): number =>
  values[Math.floor(row / each) % values.length];

/** How many units of the times are a day. */
export function unitsInDay(times: TimeCoding): number {
  const midnight = { year: 2001, month: 1, day: 1, hour: 0, minute: 0, second: 0, microsecond: 0 };
  return times.encode({ ...midnight, day: 2 }) - times.encode(midnight);
}
