// A forecast has to beat two others: nothing changes (persistence), and the season is as in the mean of the
// training years (climatology). Both follow from the data alone.
import type { DType } from "../../ffi/dtype.ts";
import type { DateTime } from "./calendar.ts";
import { isDaily } from "./climatology.ts";
import type { Coordinate } from "./columns/coordinate.ts";
import { view } from "./columns/variables.ts";

/** @internal */
export interface Baselines {
  /** The root mean square error of each output. */
  readonly persistence: readonly number[];
  /** NaN where no judged time is of a season that training has seen; null where there is none. */
  readonly climatology: readonly number[] | null;
  /** Null where climatology has a number for each output. */
  readonly lack: Lack | null;
}

/** Why there is no climatology to compare with, or not for each output. */
export type Lack = "judged alone" | "no dates" | "too large" | "other seasons";

const LACKS: Readonly<Record<Lack, string>> = {
  "judged alone": "this data is judged whole, so its means by season would know what is judged",
  "no dates": "the samples have no dates, and so no seasons",
  "too large": "its means by season have other sizes than these samples, or are too many to hold",
  "other seasons": "training has seen no target in the seasons that are judged",
};

export const lackNote = ({ climatology, lack }: Baselines): string | null =>
  lack &&
  `No skill over climatology${climatology?.some(Number.isFinite) ? " for some of the outputs" : ""}: ${
    LACKS[lack]
  }.`;

export interface Forecast {
  /** The targets of all rows, as held: [rows, targets, ...]. */
  readonly values: Uint8Array;
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** Steps to each target, and the rows that one step has. */
  readonly leads: readonly number[];
  readonly each: number;
  readonly time: Coordinate | null;
  /** Samples that are trained with, and those that are judged, by their own rows. */
  readonly trained: Int32Array;
  readonly judged: Int32Array;
  /** Points of a map have these weights; null where all count alike. */
  readonly weights: ArrayLike<number> | null;
  /** The means of the data that is trained with, where the judged samples are of another file. */
  readonly seasonal?: (() => Seasonal | null) | null;
  /** The data has no samples but those that are judged. */
  readonly alone?: boolean;
}

/** Means of each point and season. */
export interface Seasonal {
  readonly values: Float32Array;
  readonly daily: boolean;
  /** All numbers of one step. */
  readonly size: number;
}

export function baselinesOf(forecast: Forecast): Baselines {
  const { values, dtype, shape: [, targets, ...map], leads, each, judged, weights } = forecast;
  const all = view(values, dtype) as ArrayLike<number>;
  const pixels = map.reduce((product, size) => product * size, 1), width = targets * pixels;
  const mean = climateOf(forecast, width);
  const squares = () => ({
    sum: new Float64Array(leads.length * targets),
    count: new Float64Array(leads.length * targets),
  });
  const persistence = squares(), climatology = squares();
  const add = ({ sum, count }: typeof persistence, output: number, error: number, weight: number) => {
    if (error - error !== 0) return; // missing in one of them
    sum[output] += error * error * weight;
    count[output] += weight;
  };
  for (const row of judged) {
    leads.forEach((lead, l) => {
      const later = row + lead * each, season = mean?.of(later) ?? 0;
      for (let j = 0; j < width; j++) {
        const output = l * targets + Math.floor(j / pixels), value = Number(all[later * width + j]);
        const weight = weights ? weights[j % pixels] : 1;
        add(persistence, output, Number(all[row * width + j]) - value, weight);
        if (mean) add(climatology, output, mean.values[season + j] - value, weight);
      }
    });
  }
  const roots = ({ sum, count }: typeof persistence) =>
    Array.from(sum, (total, k) => Math.sqrt(total / count[k]));
  const known = mean && roots(climatology);
  return { persistence: roots(persistence), climatology: known, lack: lackOf(forecast, known) };
}

function lackOf({ time, alone }: Forecast, climatology: readonly number[] | null): Lack | null {
  if (climatology) return climatology.every((error) => !Number.isNaN(error)) ? null : "other seasons";
  return alone ? "judged alone" : time?.times ? "too large" : "no dates";
}

/** More means than this are taken by month and not by day. */
const MOST_MEANS = 2 ** 26;
/** Each month has room for 31 days. */
const MONTHS = 12, DAYS = 12 * 31;

interface Climate {
  readonly values: Float32Array;
  /** The place of the means of a row's season and point. */
  of(row: number): number;
}

function climateOf(forecast: Forecast, width: number): Climate | null {
  const { time, each, seasonal, alone } = forecast;
  if (alone) return null;
  const known = seasonal ? seasonal() : seasonalOf(forecast);
  if (!known || !time?.times || known.size !== each * width) return null;
  return { values: known.values, of: placer(time, known, each, width) };
}

function placer(
  { values, times, each: rows }: Coordinate,
  { daily, size }: Omit<Seasonal, "values">,
  each: number,
  width: number,
) {
  const seasonOf = ({ month, day }: DateTime) => daily ? (month - 1) * 31 + day - 1 : month - 1;
  const steps = Int32Array.from(values, (value) => {
    const date = times!.decode(value);
    return date ? seasonOf(date) : 0;
  });
  return (row: number) => steps[Math.floor(row / rows) % steps.length] * size + row % each * width;
}

/** The mean of each point and season over the steps that training sees as targets. */
export function seasonalOf(
  { values: bytes, dtype, shape, leads, each, time, trained }: Forecast,
): Seasonal | null {
  if (!time?.times) return null;
  const [rows, ...row] = shape, width = row.reduce((product, size) => product * size, 1), size = each * width;
  const daily = DAYS * size <= MOST_MEANS && isDaily(time), seasons = daily ? DAYS : MONTHS;
  if (seasons * size > 2 * MOST_MEANS) return null;
  const all = view(bytes, dtype) as ArrayLike<number>, of = placer(time, { daily, size }, each, width);
  const seen = new Uint8Array(rows),
    sums = new Float64Array(seasons * size),
    counts = new Int32Array(seasons * size);
  for (const row of trained) for (const lead of leads) seen[row + lead * each] = 1;
  for (let row = 0; row < rows; row++) {
    if (seen[row] === 0) continue;
    const at = of(row);
    for (let j = 0; j < width; j++) {
      const value = Number(all[row * width + j]);
      if (value - value !== 0) continue;
      sums[at + j] += value;
      counts[at + j]++;
    }
  }
  return { values: Float32Array.from(sums, (sum, i) => sum / counts[i]), daily, size };
}
