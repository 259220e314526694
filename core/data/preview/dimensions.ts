// The dimensions of variables as a person looks at them: from where to where, in which steps, and where steps
// are missing.
import { UserError } from "../../base/errors.ts";
import { type Coordinate, coordinateNamed, unitsInDay, valueText } from "../columns/coordinate.ts";
import type { Table } from "../columns/columns.ts";
import { medianOf, monthOf, regularStep } from "../windows.ts";

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
    /** Each gap in time has the index before it and both sides. */
    readonly gaps: readonly { readonly index: number; readonly from: string; readonly to: string }[];
    /** The first index whose time is not after the one before. */
    readonly backwards: number | null;
  };
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
  const text = (i: number) => valueText(coordinate, values[i]);
  const shown = (i: number) => times ? text(i) : Number(text(i));
  const rising = values.length < 2 || values[1] >= values[0];
  const backwards = times ? values.findIndex((value, i) => i > 0 && value <= values[i - 1]) : -1;
  const ordered = times || rising ? coordinate : { ...coordinate, values: values.map((value) => -value) };
  const follows = values.length > 1 && backwards < 0 ? regularStep(ordered) : null;
  const gaps = follows
    ? Array.from({ length: values.length - 1 }, (_, i) => i).filter((i) => !follows(i + 1))
    : [];
  const regular = follows !== null && gaps.length < (times ? values.length / 2 : 1);
  return {
    ...(times ? { calendar: calendar ?? "standard" } : { units }),
    range: {
      from: shown(0),
      to: shown(values.length - 1),
      step: regular ? stepText(coordinate) : null,
      gaps: regular && times ? gaps.map((i) => ({ index: i, from: text(i), to: text(i + 1) })) : [],
      backwards: backwards < 0 ? null : backwards,
    },
  };
}

/** The shortest month has 28 days, and a year 360 in some calendars. */
const MONTH_OF_DAYS = 27;

function stepText({ values, times }: Coordinate): string {
  const apart = (of: ArrayLike<number>) => Array.from({ length: of.length - 1 }, (_, i) => of[i + 1] - of[i]);
  const usual = medianOf(apart(values));
  if (!times) return String(Number(usual.toPrecision(6)));
  const days = usual / unitsInDay(times);
  if (days >= MONTH_OF_DAYS) {
    const months = medianOf(apart(Array.from(values, (value) => monthOf(times.decode(value)!))));
    return months % 12 === 0 ? counted(months / 12, "year") : counted(months, "month");
  }
  const [size, word] = ([[1, "day"], [1 / 24, "hour"], [1 / 1440, "minute"]] as const)
    .find(([size]) => days >= size * 0.999) ?? [1 / 86400, "second"];
  return counted(days / size, word);
}

function counted(count: number, word: string): string {
  const short = Number(count.toPrecision(4));
  return `${short} ${word}${short === 1 ? "" : "s"}`;
}

const MOST_GAPS = 3;

export function dimensionCells({ name, size, units, calendar, range }: DimensionSummary): string[] {
  if (!range) return [name, String(size), "", ""];
  const { from, to, step, gaps, backwards } = range;
  const about = calendar ? ` (${calendar})` : units ? ` ${units}` : "";
  const shown = gaps.slice(0, MOST_GAPS).map(({ index, from, to }) => `${from} to ${to} (index ${index})`);
  const more = gaps.length > shown.length ? ` and ${gaps.length - shown.length} more` : "";
  const notes = [
    ...(step === null ? (size > 1 && backwards === null ? ["uneven steps"] : []) : [`steps of ${step}`]),
    ...(shown.length > 0 ? [`gap from ${shown.join(", ")}${more}`] : []),
    ...(backwards === null ? [] : [`not in order at index ${backwards}`]),
  ];
  const span = size === 1 ? `${from}` : `${from} to ${to}`;
  return [name, String(size), span + about, notes.join("; ")];
}
