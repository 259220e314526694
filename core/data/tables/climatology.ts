// The mean of each variable, point and season over the samples that are trained with: inputs are filled with it,
// anomalies are differences from it, and a model may see it as a channel.
import { readBytes } from "../../../ffi/make.ts";
import { contiguous, toDtype } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import type { Config } from "../../settings/settings.ts";
import type { DateTime } from "../arrays/calendar.ts";
import type { Table } from "../arrays/table.ts";
import { type Coordinate, timeCoordinate, unitsInDay } from "../arrays/coordinate.ts";
import { product } from "../arrays/numbers.ts";
import { type Batch, type Ids, plainPart, type Source } from "../source/source.ts";
import {
  type Climate,
  climateWanted,
  type Climatology,
  type Seasons,
  type VariableSpan,
} from "../source/climate.ts";

interface Looked {
  readonly table: Table;
  readonly samples: number;
  readonly data: Config["data"];
  readonly features: readonly VariableSpan[];
  /** Null where the data lacks them. */
  readonly targets: readonly VariableSpan[] | null;
  readonly inputs: readonly number[];
  readonly leads: readonly number[];
  /** The rows of the samples that are trained with. */
  readonly trained: Int32Array;
  /** The run's own, where the data is not what was trained with. */
  readonly known: Climatology | null;
  /** Single rows of the data. */
  read(rows: Int32Array): Source;
}

export function climateOf(of: Looked): Climate | null {
  const { table, samples, data, features, inputs, leads, known } = of;
  const wanted = climateWanted(data);
  if (wanted === null) return null;
  const targets = of.targets ?? known?.targets ?? [];
  const refuse = (why: string) => new UserError("data", `${table.path}: ${wanted} needs ${why}.`);
  const time = timeCoordinate(table, samples), times = time?.times;
  if (!time || !times) throw refuse("dates along the samples, such as a time in days since a date");
  const { each } = time, steps = time.values.length;
  if (steps * each !== samples) throw refuse("samples in which time is the first dimension");
  const twice = time.values.findIndex((value, i) => i > 0 && !(value > time.values[i - 1]));
  if (twice >= 0) {
    throw refuse(`times that rise, and ${time.name} does not at index ${twice} (counted from 0)`);
  }
  const names = namesIn(data, features, targets);
  const spans = [...features, ...targets];
  const strange = data.anomaly.find((name) => spans.every((span) => span.name !== name));
  if (strange !== undefined) {
    throw new UserError(
      "usage",
      `--anomaly names "${strange}", which is neither a feature nor a target: those are ${
        [...new Set(spans.map(({ name }) => name))].join(", ")
      }.`,
    );
  }
  const own = (name: string) => spans.find((span) => span.name === name)!.shape;
  const seasons = known?.seasons ??
    seasonsOf(data, time, each * Math.max(...names.map((name) => product(own(name)))));
  const place = placer(time, seasons);
  const shape = (name: string) => [SEASONS[seasons], each, ...own(name)];
  if (known) {
    for (const name of names) {
      const found = known.means[name]?.shape.join();
      if (found === shape(name).join()) continue;
      throw new UserError(
        "data",
        `${table.path}: the run's climatology of "${name}" is of [${found ?? ""}], and this data needs [${
          shape(name).join()
        }]: it must lie on the run's grid.`,
      );
    }
  }
  const climatology = known ?? { seasons, targets, means: measured({ ...of, targets }, names, place, shape) };
  return { climatology, features, targets, hasTargets: of.targets !== null, inputs, leads, place };
}

function namesIn(
  data: Config["data"],
  features: readonly VariableSpan[],
  targets: readonly VariableSpan[],
): string[] {
  const filled = data.fill.join() === "climatology" ? features : [];
  const shown = data.climatology_channel ? targets : [];
  return [...new Set([...data.anomaly, ...filled.map(({ name }) => name), ...shown.map(({ name }) => name)])];
}

/** Months, or days of months that may have 31. */
const SEASONS = { month: 12, day: 12 * 31 } as const;

/** Means of each day would take more numbers than this, so months are taken. */
const MOST_DAILY = 2 ** 26;

function seasonsOf({ climatology }: Config["data"], time: Coordinate, width: number): Seasons {
  if (climatology !== "auto") return climatology;
  return isDaily(time) && SEASONS.day * width <= MOST_DAILY ? "day" : "month";
}

/** Longer steps, such as months, have seasons by their month. */
export const isDaily = ({ values, times }: Coordinate): boolean =>
  values.length > 1 && (values.at(-1)! - values[0]) / (values.length - 1) < 20 * unitsInDay(times!);

const seasonOf = ({ month, day }: DateTime, seasons: Seasons): number =>
  seasons === "day" ? (month - 1) * 31 + day - 1 : month - 1;

function placer({ values, times, each }: Coordinate, seasons: Seasons): (row: number) => number {
  const season = (value: number) => {
    const date = times!.decode(value);
    return date ? seasonOf(date, seasons) : 0;
  };
  const known = Int32Array.from(values, season), last = values.length - 1;
  const step = last > 0 ? (values[last] - values[0]) / last : 1;
  return (row) => {
    const at = Math.floor(row / each);
    const own = at <= last ? known[at] : season(values[last] + (at - last) * step);
    return own * each + row % each;
  };
}

/** Rows are read so many at once. */
const AT_ONCE = 64;

function measured(
  { table, samples, features, targets, inputs, leads, trained, read }: Looked & {
    readonly targets: readonly VariableSpan[];
  },
  names: readonly string[],
  place: (row: number) => number,
  shape: (name: string) => number[],
): Climatology["means"] {
  const seen = new Uint8Array(samples);
  for (const row of trained) for (const offset of [...inputs, ...leads]) seen[row + offset] = 1;
  const rows = Int32Array.from({ length: samples }, (_, row) => row).filter((row) => seen[row] === 1);
  const source = read(rows);
  const all = names.map((name) => {
    const fromInput = features.some((span) => span.name === name), spans = fromInput ? features : targets;
    const at = spans.slice(0, spans.findIndex((span) => span.name === name));
    const size = product(shape(name));
    return {
      name,
      field: fromInput ? "input" as const : "target" as const,
      from: at.reduce((sum, { shape }) => sum + product(shape), 0),
      width: product(shape(name).slice(2)),
      sums: new Float64Array(size),
      counts: new Int32Array(size),
    };
  });
  for (let from = 0; from < rows.length; from += AT_ONCE) {
    const ids = Array.from({ length: Math.min(AT_ONCE, rows.length - from) }, (_, i) => from + i);
    const batch = floats(source, ids);
    for (const { field, from, width, sums, counts } of all) {
      const values = batch[field], row = values.length / ids.length;
      ids.forEach((id, i) => {
        const into = place(rows[id]) * width, own = i * row + from;
        for (let j = 0; j < width; j++) {
          const value = values[own + j];
          if (value - value !== 0) continue;
          sums[into + j] += value;
          counts[into + j]++;
        }
      });
    }
  }
  const empty = all.find(({ counts }) => counts.every((count) => count === 0));
  if (empty) {
    throw new UserError(
      "data",
      `${table.path}: "${empty.name}" is missing in all samples that are trained with.`,
    );
  }
  return Object.fromEntries(
    all.map((
      { name, sums, counts },
    ) => [name, { values: meansOf(sums, counts, shape(name)[0]), shape: shape(name) }]),
  );
}

function floats(source: Source, ids: Ids): Record<"input" | "target", Float32Array> {
  return scope(() => {
    const { input, target }: Batch = source.raw(plainPart(ids));
    const numbers = (t: Batch["input"]) => new Float32Array(readBytes(contiguous(toDtype(t, "f32"))).buffer);
    return { input: numbers(input), target: numbers(target) };
  });
}

/** A point that a season never has gets its mean over all seasons; NaN where it has none at all. */
function meansOf(sums: Float64Array, counts: Int32Array, seasons: number): Float32Array {
  const width = sums.length / seasons, found = new Float32Array(sums.length);
  for (let j = 0; j < width; j++) {
    let sum = 0, count = 0;
    for (let at = j; at < sums.length; at += width) {
      sum += sums[at];
      count += counts[at];
    }
    for (let at = j; at < sums.length; at += width) {
      found[at] = counts[at] > 0 ? sums[at] / counts[at] : sum / count;
    }
  }
  return found;
}
