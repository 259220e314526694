// Samples lie along coordinates: a time, a latitude, a station's name.
import { UserError } from "../../base/errors.ts";
import { didYouMean } from "../../base/suggest.ts";
import {
  type DateTime,
  formatDate,
  isTimeUnits,
  parseDate,
  type TimeCoding,
  timeCoding,
} from "./calendar.ts";
import type { Column, Table, Variable } from "./table.ts";
import { bytesOf, typedView } from "./numbers.ts";
import { toColumn } from "./variables.ts";

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
export function timeCoordinate(table: Table, samples: number): Coordinate | null {
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
  const values = Float64Array.from(typedView(bytesOf(column.read()), dtype) as ArrayLike<number>, Number);
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
export function axisText(
  { texts, times }: Partial<Pick<Coordinate, "texts" | "times">>,
  value: number,
): string {
  if (texts) return texts[value] ?? "missing";
  const date = times?.decode(value);
  return date ? formatDate(date) : numberText(value);
}

export const coordinateValue = ({ values, each }: Coordinate, row: number): number =>
  values[Math.floor(row / each) % values.length];

/** How many units of the times are a day. */
export function unitsInDay(times: TimeCoding): number {
  const midnight = { year: 2001, month: 1, day: 1, hour: 0, minute: 0, second: 0, microsecond: 0 };
  return times.encode({ ...midnight, day: 2 }) - times.encode(midnight);
}

/** The shortest month has 28 days. */
const MONTH_OF_DAYS = 27;

type Series = Pick<Coordinate, "values" | "times">;

interface Steps {
  readonly follows: (i: number) => boolean;
  /** In months where these are what most steps have in common. */
  readonly usual: number;
  readonly inMonths: boolean;
}

/** It tells whether a step follows the one before it as most do; months and years are steps, too. */
export const regularStep = (series: Series): (i: number) => boolean => stepsOf(series).follows;

function stepsOf({ values, times }: Series): Steps {
  const apart = (of: ArrayLike<number>) => Array.from({ length: of.length - 1 }, (_, i) => of[i + 1] - of[i]);
  const measured = (steps: readonly number[], inMonths: boolean) => {
    const usual = medianOf(steps), equal = steps.map((step) => Math.abs(step - usual) <= 0.01 * usual);
    return {
      usual,
      inMonths,
      count: equal.filter((one) => one).length,
      follows: (i: number) => equal[i - 1],
    };
  };
  const steps = apart(values), even = measured(steps, false);
  if (!times || steps.length === 0 || even.usual / unitsInDay(times) < MONTH_OF_DAYS) return even;
  const months = measured(apart(Array.from(values, (value) => times.decode(value)!).map(monthOf)), true);
  return months.count > even.count ? months : even;
}

/** It finds what lies so many steps behind the value at an index. */
export interface Later {
  /** Its index; null where the values end before it, or have a gap. */
  row(index: number, steps: number): number | null;
  /** As the data has it, or counted in regular steps from the last one that it has. */
  value(index: number, steps: number): number;
  /** False where nobody knows how long a step is. */
  readonly isRegular: boolean;
}

export function stepsLater(series: Series): Later {
  const { values, times } = series, { follows, usual, inMonths } = stepsOf(series);
  const reached = (index: number, steps: number) => {
    let at = index;
    while (at < index + steps && follows(at + 1)) at++;
    return at;
  };
  return {
    isRegular: values.length > 1 && usual > 0,
    row: (index, steps) => reached(index, steps) === index + steps ? index + steps : null,
    value(index, steps) {
      const at = reached(index, steps), left = index + steps - at;
      if (left === 0) return values[at];
      return inMonths ? monthsLater(values, times!, at, left * usual) : values[at] + left * usual;
    },
  };
}

/** On the day and hour that this month has elsewhere in the data, such as its middle or its end; else on that of `at`. */
function monthsLater(values: Float64Array, times: TimeCoding, at: number, months: number): number {
  const from = times.decode(values[at])!, count = monthOf(from) + months;
  const year = Math.floor((count - 1) / 12), month = count - 12 * year;
  const same = values.findLast((value) => times.decode(value)?.month === month);
  const like = same === undefined ? from : times.decode(same)!, next = { ...like, day: like.day + 1 };
  const isLast = times.decode(times.encode(next))!.month !== like.month; // 28 February stands for the 29th, too
  for (let day = isLast ? 31 : like.day; day > 1; day--) { // a month may have fewer days
    const value = times.encode({ ...like, year, month, day });
    if (times.decode(value)!.month === month) return value;
  }
  return times.encode({ ...like, year, month, day: 1 });
}

export const monthOf = ({ year, month }: DateTime): number => year * 12 + month;

export const medianOf = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

export interface Axis {
  readonly name: string;
  readonly path: string;
  readonly values: Float64Array;
  readonly attributes: Variable["attributes"];
  /** Null where the numbers are no times. */
  readonly times: TimeCoding | null;
  /** The numbers were in other units: it brings a number of those into these. */
  readonly rebase: ((value: number) => number) | null;
}

export function axisOf(variable: Variable, path: string): Axis {
  const { name, attributes } = variable;
  return {
    name,
    path,
    values: valuesOf(variable),
    attributes,
    times: timesOf(attributes, name, path),
    rebase: null,
  };
}

export function valuesOf(variable: Variable): Float64Array {
  const { dtype, read } = toColumn(variable, false);
  return Float64Array.from(typedView(bytesOf(read()), dtype) as ArrayLike<number>, Number);
}

function timesOf(attributes: Variable["attributes"], name: string, path: string): TimeCoding | null {
  const units = attributes.get("units"), calendar = attributes.get("calendar");
  if (typeof units !== "string" || !isTimeUnits(units)) return null;
  const times = timeCoding(units, typeof calendar === "string" ? calendar : undefined);
  if (typeof times === "string") throw new UserError("data", `${path}: the variable "${name}" ${times}.`);
  return times;
}

/** The same values in another file's units. */
export function rebased(along: Axis, to: Axis, noun: string): Axis {
  const { name, path, times, attributes } = along;
  const units = attributes.get("units") ?? "", wanted = to.attributes.get("units") ?? "";
  if (times?.calendar !== to.times?.calendar || (units !== wanted && !times)) {
    const text = (axis: Axis) => {
      const own = `the units "${axis.attributes.get("units") ?? ""}"`;
      return axis.times ? `${own} in the calendar ${axis.times.calendar}` : own;
    };
    throw new UserError(
      "data",
      `${path}: the ${noun} "${name}" has ${text(along)}, but in ${to.path} it has ${text(to)}. ` +
        "Files are joined along it, so it must count the same in all: write them again alike, or leave it out.",
    );
  }
  if (units === wanted || !times || !to.times) return along;
  const rebase = (value: number) => {
    const date = times.decode(value);
    return date ? to.times!.encode(date) : NaN;
  };
  return { ...along, values: along.values.map(rebase), times: to.times, attributes: to.attributes, rebase };
}

/** As short as it tells single precision apart. */
export const numberText = (value: number): string => String(Number(value.toPrecision(8)));
