// A sample of a forecast takes several rows: inputs of the last steps, and targets of later ones.
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import type { Config } from "../../settings/settings.ts";
import type { Table } from "../arrays/table.ts";
import { rolloutOf } from "../source/rollout.ts";
import { axisText, type Coordinate, regularStep, timeCoordinate } from "../arrays/coordinate.ts";

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
function leadsOf(text: string): number[] {
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
  const time = timeCoordinate(table, samples);
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
  const text = (i: number) => `${axisText(time, values[i])} (index ${i})`;
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
