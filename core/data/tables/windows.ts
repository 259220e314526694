// A sample of a forecast takes several rows: inputs of the last steps, and targets of later ones.
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import type { Config } from "../../settings/settings.ts";
import type { DateTime, TimeCoding } from "../arrays/calendar.ts";
import type { Table } from "../arrays/table.ts";
import { rolloutOf } from "../source/rollout.ts";
import { type Coordinate, timeOf, unitsInDay, valueText } from "../arrays/coordinate.ts";

export interface Windows {
  /** Rows from a sample's own to those of its inputs, in the order of time: -2, -1, 0. */
  readonly inputs: readonly number[];
  /** The same for its targets: 1, 2, 3. */
  readonly targets: readonly number[];
  readonly leads: readonly number[];
  /** Rows of one step. */
  readonly each: number;
  /** For people: "12 steps, and targets up to 6 steps later". */
  readonly says: string;
  /** The mark of all rows that the sample at a row needs; NONE where they are not all there or differ. */
  bases(marks: Uint8Array, isUniform?: boolean): Uint8Array;
}

const NONE = 255;

/** `1..6`, `1,3` and `6` in steps; the same step is 0. */
export function leadsOf(text: string): number[] {
  const leads = text.split(",").flatMap((part) => {
    const [from, to = from] = part.split("..").map(Number);
    return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i);
  });
  return text === "" ? [0] : [...new Set(leads)].sort((a, b) => a - b);
}

/** Those of the targets: a rollout has each step that it takes. */
export const forecastLeads = (data: Pick<Config["data"], "lead" | "rollout">): number[] => {
  const rollout = rolloutOf(data);
  return rollout ? Array.from({ length: rollout.most }, (_, i) => i + 1) : leadsOf(data.lead);
};

/** Targets are later than inputs, so a variable may be among both. */
export const isForecast = ({ lead }: Pick<Config["data"], "lead">): boolean => leadsOf(lead)[0] > 0;

/** Null where a sample is one row. */
export function windowsOf(
  table: Table,
  samples: number,
  data: Pick<Config["data"], "history" | "lead" | "rollout">,
  withTargets: boolean,
  notes: string[],
  ahead = 0,
): Windows | null {
  const { history } = data, leads = withTargets ? forecastLeads(data) : [];
  if (history === 1 && ahead === 0 && leads.every((lead) => lead === 0)) return null;
  const steps = table.grid?.[0].size ?? samples, each = samples / steps;
  const time = timeOf(table, samples);
  const run = time && time.each === each ? runsOf(table, time, notes) : new Int32Array(steps);
  if (time === null) notes.push("No time along the samples: they are taken as regular steps, in their order");
  const inputs = Array.from({ length: history + ahead }, (_, i) => (i + 1 - history) * each);
  const targets = leads.map((lead) => lead * each);
  const needed = [...new Set([...inputs, ...targets])];
  const first = Math.min(...needed), last = Math.max(...needed);
  return {
    inputs,
    targets,
    leads,
    each,
    says: formatPlural(history, "step") +
      (leads.some((lead) => lead > 0)
        ? `, and targets up to ${formatPlural(leads.at(-1)!, "step")} later`
        : ""),
    bases(marks, isUniform = false) {
      const found = new Uint8Array(samples).fill(NONE);
      const others = isUniform ? [] : needed.filter((offset) => offset !== 0);
      // All rows of a step lie in one run, and distances are whole steps.
      for (let row = Math.max(0, -first); row < samples - last; row += each) {
        if (run[(row + first) / each] !== run[(row + last) / each]) continue;
        found.set(marks.subarray(row, row + each), row);
        for (const offset of others) keepAlike(found, marks, row, row + each, offset);
      }
      return found;
    },
  };
}

/** A row keeps its mark where the one at the distance has it, too. */
function keepAlike(found: Uint8Array, marks: Uint8Array, from: number, to: number, offset: number): void {
  for (let row = from; row < to; row++) if (marks[row + offset] !== found[row]) found[row] = NONE;
}

/** Steps in one run follow each other without a gap. */
function runsOf({ path, noun }: Table, time: Coordinate, notes: string[]): Int32Array {
  const { name, values } = time;
  const text = (i: number) => `${valueText(time, values[i])} (index ${i})`;
  const missing = values.findIndex(Number.isNaN);
  if (missing >= 0) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${name}" has no time at index ${missing}. Repair it, or leave that step out.`,
    );
  }
  const back = values.findIndex((value, i) => i > 0 && value <= values[i - 1]);
  if (back > 0) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${name}" goes backwards or stands still: ${text(back - 1)}, then ${
        text(back)
      }. ` +
        `Steps of a forecast have to be in order: ds.sortby("${name}") and ds.drop_duplicates("${name}").`,
    );
  }
  const follows = regularStep(time), run = new Int32Array(values.length), gaps: string[] = [];
  for (let i = 1; i < values.length; i++) {
    const gap = !follows(i);
    run[i] = run[i - 1] + Number(gap);
    if (gap && gaps.length < MOST_GAPS) gaps.push(`between ${text(i - 1)} and ${text(i)}`);
  }
  const count = run.at(-1) ?? 0;
  if (count > 0) {
    const more = count > gaps.length ? `, and ${count - gaps.length} more` : "";
    notes.push(`No sample crosses a gap in ${name}: ${gaps.join(", ")}${more}`);
  }
  return run;
}

const MOST_GAPS = 3;
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
