// The dimensions of variables as a person looks at them: from where to where, in which steps, and where steps
// are missing.
import { UserError } from "../../base/errors.ts";
import {
  axisText,
  type Coordinate,
  coordinateNamed,
  medianOf,
  monthOf,
  regularStep,
  unitsInDay,
} from "../arrays/coordinate.ts";
import { formatDate } from "../arrays/calendar.ts";
import type { Table } from "../arrays/table.ts";

export interface DimensionSummary {
  readonly name: string;
  readonly size: number;
  /** Times have a calendar in place of units. */
  readonly units?: string;
  readonly calendar?: string;
  /** Absent where the dimension has no coordinate of numbers. */
  readonly range?: {
    readonly from: string | number;
    readonly to: string | number;
    /** "1 month", "6 hours" or "2.5"; null where most steps differ. */
    readonly step: string | null;
    readonly gaps: readonly Gap[];
    /** Times that were there before. */
    readonly repeats: readonly { readonly index: number; readonly at: string }[];
    /** The first index whose time is before the one before it. */
    readonly backwards: number | null;
    /** The first index that has no number. */
    readonly absent: number | null;
  };
}

interface Gap {
  /** The index before it. */
  readonly index: number;
  readonly from: string;
  readonly to: string;
  /** How many steps are missing between both; a gap may also be no whole number of steps. */
  readonly steps: number;
  /** The first of their times. */
  readonly missing: readonly string[];
}

/** A longer coordinate is not read to look at it. */
const MOST_VALUES = 2 ** 22;

export function dimensionsOf(table: Table): DimensionSummary[] {
  const sizes = new Map<string, number>();
  for (const { dimensions = [], shape, onlyByName } of table.columns) {
    if (onlyByName) continue;
    dimensions.forEach((name, i) => {
      if (!/^size \d+$/.test(name)) sizes.set(name, shape[i]);
    });
  }
  return [...sizes].map(([name, size]) => {
    const coordinate = size > 0 && size <= MOST_VALUES ? coordinateOf(table, name, size) : null;
    return { name, size, ...(coordinate && described(coordinate, table)) };
  });
}

function coordinateOf(table: Table, name: string, size: number): Coordinate | null {
  if (!table.columns.some((column) => column.name === name && column.dimensions?.join() === name)) {
    return null;
  }
  try {
    return coordinateNamed({ ...table, grid: [{ name, size }] }, name, size, "");
  } catch (error) {
    if (error instanceof UserError) return null; // training says what is wrong with it, if it needs it
    throw error;
  }
}

function described(coordinate: Coordinate, { columns }: Table): Omit<DimensionSummary, "name" | "size"> {
  const { name, values, times } = coordinate;
  const { units, calendar } = columns.find((column) => column.name === name)!;
  const shown = (i: number) =>
    times ? axisText(coordinate, values[i]) : Number(axisText(coordinate, values[i]));
  const absent = values.findIndex(Number.isNaN);
  const backwards = times ? values.findIndex((value, i) => i > 0 && value < values[i - 1]) : -1;
  return {
    ...(times ? { calendar: calendar ?? "standard" } : { units }),
    range: {
      from: shown(0),
      to: shown(values.length - 1),
      ...(absent < 0 && backwards < 0 ? stepsOf(coordinate) : { step: null, gaps: [] }),
      repeats: times ? repeatsOf(coordinate) : [],
      backwards: backwards < 0 ? null : backwards,
      absent: absent < 0 ? null : absent,
    },
  };
}

type Range = NonNullable<DimensionSummary["range"]>;

function stepsOf(coordinate: Coordinate): Pick<Range, "step" | "gaps"> {
  const { times } = coordinate;
  const places = Array.from(coordinate.values.keys()).filter((i) =>
    i === 0 || !times || coordinate.values[i] !== coordinate.values[i - 1]
  );
  const values = Float64Array.from(places, (i) => coordinate.values[i]), distinct = { ...coordinate, values };
  if (values.length < 2) return { step: null, gaps: [] };
  const rising = times || values[1] >= values[0];
  const follows = regularStep(rising ? distinct : { ...distinct, values: values.map((value) => -value) });
  const gaps = Array.from({ length: values.length - 1 }, (_, i) => i).filter((i) => !follows(i + 1));
  if (gaps.length >= (times ? values.length / 2 : 1)) return { step: null, gaps: [] };
  const usual = usualStep(distinct);
  return { step: stepText(usual), gaps: times ? gaps.map((i) => gapAt(distinct, usual, i, places[i])) : [] };
}

/** A file that repeats all of its times need not be listed whole. */
const MOST_REPEATS = 1000;

function repeatsOf(coordinate: Coordinate): Range["repeats"] {
  const seen = new Set<number>(), found: number[] = [];
  coordinate.values.forEach((value, i) => {
    if (seen.has(value)) found.push(i);
    seen.add(value);
  });
  return found.slice(0, MOST_REPEATS).map((index) => ({
    index,
    at: axisText(coordinate, coordinate.values[index]),
  }));
}

const MOST_MISSING = 100;

function gapAt(coordinate: Coordinate, usual: Step, i: number, index: number): Gap {
  const { values, times } = coordinate, [from, to] = [values[i], values[i + 1]];
  const { months } = usual, date = times!.decode(from)!;
  const distance = months ? (monthOf(times!.decode(to)!) - monthOf(date)) / months : (to - from) / usual.size;
  const steps = Math.max(0, Math.round(distance) - 1);
  const missing = Array.from({ length: Math.min(steps, MOST_MISSING) }, (_, k) => {
    if (!months) return axisText(coordinate, from + (k + 1) * usual.size);
    const month = monthOf(date) - 1 + (k + 1) * months;
    return formatDate({ ...date, year: Math.floor(month / 12), month: month % 12 + 1 });
  });
  return { index, from: axisText(coordinate, from), to: axisText(coordinate, to), steps, missing };
}

/** The shortest month has 28 days, and a year 360 in some calendars. */
const MONTH_OF_DAYS = 27;

interface Step {
  /** In units of the coordinate. */
  readonly size: number;
  /** Null where steps are shorter than a month, or no times. */
  readonly months: number | null;
  readonly days: number | null;
}

function usualStep({ values, times }: Coordinate): Step {
  const steps = (of: ArrayLike<number>) => Array.from({ length: of.length - 1 }, (_, i) => of[i + 1] - of[i]);
  const size = medianOf(steps(values));
  if (!times) return { size, months: null, days: null };
  const days = size / unitsInDay(times);
  if (days < MONTH_OF_DAYS) return { size, months: null, days };
  return {
    size,
    months: medianOf(steps(Array.from(values, (value) => monthOf(times.decode(value)!)))),
    days,
  };
}

function stepText({ size, months, days }: Step): string {
  if (days === null) return String(Number(size.toPrecision(6)));
  if (months) return months % 12 === 0 ? counted(months / 12, "year") : counted(months, "month");
  const [unit, word] = ([[1, "day"], [1 / 24, "hour"], [1 / 1440, "minute"]] as const)
    .find(([unit]) => days >= unit * 0.999) ?? [1 / 86400, "second"];
  return counted(days / unit, word);
}

function counted(count: number, word: string): string {
  const short = Number(count.toPrecision(4));
  return `${short} ${word}${short === 1 ? "" : "s"}`;
}

export function dimensionNotes(size: number, { step, gaps, repeats, backwards, absent }: Range): string[] {
  const odd = backwards !== null || absent !== null;
  return [
    ...(step === null ? (size > 1 && !odd ? ["uneven steps"] : []) : [`steps of ${step}`]),
    ...(gaps.length > 0 ? [gapsText(gaps)] : []),
    ...(repeats.length > 0
      ? [`${repeats.length} repeated: ${some(repeats.map(({ index, at }) => `${at} (index ${index})`))}`]
      : []),
    ...(backwards === null ? [] : [`not in order at index ${backwards}`]),
    ...(absent === null ? [] : [`no value at index ${absent}`]),
  ];
}

const MOST_SHOWN = 3;

const some = (texts: readonly string[]): string =>
  texts.slice(0, MOST_SHOWN).join(", ") +
  (texts.length > MOST_SHOWN ? ` and ${texts.length - MOST_SHOWN} more` : "");

function gapsText(gaps: readonly Gap[]): string {
  const steps = gaps.reduce((sum, { steps }) => sum + steps, 0);
  const each = gaps.map(({ index, from, to, steps, missing }) => {
    if (steps === 0) return `gap from ${from} to ${to} (index ${index})`;
    const last = steps === 1 ? "" : missing.length === steps ? ` to ${missing.at(-1)}` : ` to before ${to}`;
    return `${missing[0]}${last} (after index ${index})`;
  });
  return (steps > 0 ? `${steps} missing: ` : "") + some(each);
}
