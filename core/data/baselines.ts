// A forecast has to beat two others: nothing changes (persistence), and the season is as in the mean of the
// training years (climatology). Both follow from the data alone.
import type { DType } from "../../ffi/dtype.ts";
import type { DateTime } from "./calendar.ts";
import { type Coordinate, unitsInDay } from "./columns/coordinate.ts";
import { view } from "./columns/variables.ts";

/** @internal */
export interface Baselines {
  /** The root mean square error of each output. */
  readonly persistence: readonly number[];
  /** Null where the samples have no dates. */
  readonly climatology: readonly number[] | null;
}

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
}

export function baselinesOf(forecast: Forecast): Baselines {
  const { values, dtype, shape: [, targets, ...map], leads, each, judged, weights } = forecast;
  const all = view(values, dtype) as ArrayLike<number>;
  const pixels = map.reduce((product, size) => product * size, 1), width = targets * pixels;
  const mean = climateOf(forecast, all, width);
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
  return { persistence: roots(persistence), climatology: mean && roots(climatology) };
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

/** The mean of each point and season over the steps that training sees as targets. */
function climateOf(
  { shape: [rows], leads, each, time, trained }: Forecast,
  all: ArrayLike<number>,
  width: number,
): Climate | null {
  const times = time?.times;
  if (!time || !times) return null;
  const daily = DAYS * each * width <= MOST_MEANS && isDaily(time);
  const seasons = daily ? DAYS : MONTHS, size = each * width;
  if (seasons * size > 2 * MOST_MEANS) return null;
  const seasonOf = ({ month, day }: DateTime) => daily ? (month - 1) * 31 + day - 1 : month - 1;
  const steps = Int32Array.from(time.values, (value) => {
    const date = times.decode(value);
    return date ? seasonOf(date) : 0;
  });
  const of = (row: number) => steps[Math.floor(row / time.each) % steps.length] * size + row % each * width;
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
  return { values: Float32Array.from(sums, (sum, i) => sum / counts[i]), of };
}

/** Longer steps, such as months, have seasons by their month. */
const isDaily = ({ values, times }: Coordinate): boolean =>
  values.length > 1 && (values.at(-1)! - values[0]) / (values.length - 1) < 20 * unitsInDay(times!);
