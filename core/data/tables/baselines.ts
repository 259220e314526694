// A forecast has to beat two others: nothing changes (persistence), and the season is as in the mean of the
// training years (climatology). Both follow from the data alone. A mean of a day over few years has the weather of
// those years in it: it is taken over a month around the day, and never over the year that is judged.
import type { DType } from "../../../ffi/dtype.ts";
import type { DateTime } from "../arrays/calendar.ts";
import { isDaily } from "./climatology.ts";
import type { Coordinate } from "../arrays/coordinate.ts";
import { typedView } from "../arrays/numbers.ts";
import type { Baselines, Lack, Seasonal } from "../source/climate.ts";

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

export function baselinesOf(forecast: Forecast): Baselines {
  const { values, dtype, shape: [, targets, ...map], leads, each, judged, weights } = forecast;
  const all = typedView(values, dtype) as ArrayLike<number>;
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
  const yearOf = (row: number) => mean?.year(row) ?? 0;
  const years = new Set(leads.flatMap((lead) => Array.from(judged, (row) => yearOf(row + lead * each))));
  for (const year of years) {
    const means = mean?.without(year);
    for (const row of judged) {
      leads.forEach((lead, l) => {
        const later = row + lead * each, season = mean?.place(later) ?? 0;
        if (yearOf(later) !== year) return;
        for (let j = 0; j < width; j++) {
          const output = l * targets + Math.floor(j / pixels), value = Number(all[later * width + j]);
          const weight = weights ? weights[j % pixels] : 1;
          add(persistence, output, Number(all[row * width + j]) - value, weight);
          if (means) add(climatology, output, means[season + j] - value, weight);
        }
      });
    }
  }
  const roots = ({ sum, count }: typeof persistence) =>
    Array.from(sum, (total, k) => Math.sqrt(total / count[k]));
  const known = mean && roots(climatology), some = known?.some(Number.isFinite) ? known : null;
  return { persistence: roots(persistence), climatology: some, lack: lackOf(forecast, known) };
}

/** `known` is null where there are no means. */
function lackOf({ time, alone }: Forecast, known: readonly number[] | null): Lack | null {
  if (known) return known.every((error) => !Number.isNaN(error)) ? null : "other seasons";
  return alone ? "judged alone" : time?.times ? "too large" : "no dates";
}

/** More means than this are taken by month and not by day. */
const MOST_MEANS = 2 ** 26;
/** Each month has room for 31 days. */
const MONTHS = 12, DAYS = 12 * 31;

/** A day's mean is over so many days before and after it, too. */
const AROUND = 15;

interface Dates {
  /** The place of the means of a row's season and point. */
  place(row: number): number;
  year(row: number): number;
}

type Climate = Dates & Pick<Seasonal, "without">;

function climateOf(forecast: Forecast, width: number): Climate | null {
  const { time, each, seasonal, alone } = forecast;
  if (alone) return null;
  const known = seasonal ? seasonal() : seasonalOf(forecast);
  if (!known || !time?.times || known.size !== each * width) return null;
  return { ...datesOf(time, known, each, width), without: known.without };
}

function datesOf(
  { values, times, each: rows }: Coordinate,
  { daily, size }: Pick<Seasonal, "daily" | "size">,
  each: number,
  width: number,
): Dates {
  const seasonOf = ({ month, day }: DateTime) => daily ? (month - 1) * 31 + day - 1 : month - 1;
  const dates = Array.from(values, (value) => times!.decode(value));
  const seasons = Int32Array.from(dates, (date) => date ? seasonOf(date) : 0);
  const years = Int32Array.from(dates, (date) => date ? date.year : 0);
  const step = (row: number) => Math.floor(row / rows) % seasons.length;
  return {
    place: (row) => seasons[step(row)] * size + row % each * width,
    year: (row) => years[step(row)],
  };
}

/** The mean of each point and season over the steps that training sees as targets. */
export function seasonalOf(
  { values: bytes, dtype, shape, leads, each, time, trained }: Omit<Forecast, "judged" | "weights">,
): Seasonal | null {
  if (!time?.times) return null;
  const [rows, ...row] = shape, width = row.reduce((product, size) => product * size, 1), size = each * width;
  const daily = DAYS * size <= MOST_MEANS && isDaily(time), seasons = daily ? DAYS : MONTHS;
  if (seasons * size > 2 * MOST_MEANS) return null;
  const all = typedView(bytes, dtype) as ArrayLike<number>,
    dates = datesOf(time, { daily, size }, each, width);
  const seen = new Uint8Array(rows), years = new Set<number>();
  for (const row of trained) for (const lead of leads) seen[row + lead * each] = 1;
  for (let row = 0; row < rows; row++) if (seen[row] === 1) years.add(dates.year(row));
  const meansWithout = (year: number | null) => {
    const sums = new Float64Array(seasons * size), counts = new Int32Array(seasons * size);
    for (let row = 0; row < rows; row++) {
      if (seen[row] === 0 || dates.year(row) === year) continue;
      const at = dates.place(row);
      for (let j = 0; j < width; j++) {
        const value = Number(all[row * width + j]);
        if (value - value !== 0) continue;
        sums[at + j] += value;
        counts[at + j]++;
      }
    }
    return means(sums, counts, { size, around: daily ? AROUND : 0 });
  };
  let whole: Float32Array | undefined;
  return {
    ...{ daily, size },
    without: (year) => years.has(year) ? meansWithout(year) : whole ??= meansWithout(null),
  };
}

/** Each season's mean has those `around` it in it, through the turn of the year. */
function means(
  sums: Float64Array,
  counts: Int32Array,
  { size, around }: { readonly size: number; readonly around: number },
): Float32Array {
  const seasons = sums.length / size, found = new Float32Array(sums.length);
  for (let j = 0; j < size; j++) {
    let sum = 0, count = 0;
    const add = (season: number, sign: 1 | -1) => {
      const at = (season + seasons) % seasons * size + j;
      sum += sign * sums[at];
      count += sign * counts[at];
    };
    for (let season = -around; season <= around; season++) add(season, 1);
    for (let season = 0; season < seasons; season++) {
      found[season * size + j] = count > 0 ? sum / count : NaN;
      add(season - around, -1);
      add(season + around + 1, 1);
    }
  }
  return found;
}
