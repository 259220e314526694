// The training samples are measured in one pass; a hash of what they are keeps the result beside the data.
import * as ops from "../../../ffi/ops.ts";
import { constant, sub, toBigInts, toNumbers } from "../../../ffi/make.ts";
import { isFloating } from "../../../ffi/dtype.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { notInfinite } from "../source/missing.ts";
import type { Batch, Source } from "../source/source.ts";
import { join, resolve } from "../../../deps/path.ts";
import { cacheFolder } from "../../../ffi/libraries/find.ts";
import { writeAll, writeAtomically } from "../../base/atomic.ts";
import { filesNamed, isUrl } from "../arrays/paths.ts";
import { formatDuration, formatPlural } from "../../base/format.ts";
import { openProgress } from "../../base/progress.ts";
import { digest, fingerprint } from "../arrays/remembered.ts";

export interface Moments {
  readonly count: number;
  /** Each channel has so many values where some may be missing; `count` is of all points then. */
  readonly valid?: readonly number[];
  readonly mean: readonly number[];
  /** Squares are about the mean. */
  readonly squares: readonly number[];
  readonly min: readonly number[];
  readonly max: readonly number[];
}

/** Chan, Golub and LeVeque's update subtracts no large sums, so a mean of 1e6 costs no digits. */
function mergeTwo(a: Moments, b: Moments): Moments {
  if (a.valid || b.valid) return mergeValid(a, b);
  if (a.count === 0) return b;
  if (b.count === 0) return a;
  const count = a.count + b.count;
  const difference = a.mean.map((mean, i) => b.mean[i] - mean);
  return {
    count,
    mean: a.mean.map((mean, i) => mean + difference[i] * (b.count / count)),
    squares: a.squares.map((sum, i) =>
      sum + b.squares[i] + difference[i] ** 2 * (a.count * (b.count / count))
    ),
    min: a.min.map((least, i) => Math.min(least, b.min[i])),
    max: a.max.map((most, i) => Math.max(most, b.max[i])),
  };
}

const validOf = ({ count, valid, mean }: Moments): readonly number[] => valid ?? mean.map(() => count);

function mergeValid(a: Moments, b: Moments): Moments {
  const own = validOf(a), other = validOf(b), valid = own.map((count, i) => count + other[i]);
  const share = other.map((count, i) => count === 0 ? 0 : count / valid[i]);
  const difference = a.mean.map((mean, i) => b.mean[i] - mean);
  return {
    count: a.count + b.count,
    valid,
    mean: a.mean.map((mean, i) => mean + difference[i] * share[i]),
    squares: a.squares.map((sum, i) => sum + b.squares[i] + difference[i] ** 2 * (own[i] * share[i])),
    min: a.min.map((least, i) => Math.min(least, b.min[i])),
    max: a.max.map((most, i) => Math.max(most, b.max[i])),
  };
}

/** The same parts in the same order give the same bits. */
export const mergeMoments = (parts: readonly Moments[]): Moments => parts.reduce(mergeTwo);

/** It divides by the count, as numpy does by default. */
export const deviations = (moments: Moments): number[] => {
  const valid = validOf(moments);
  return moments.squares.map((sum, i) => Math.sqrt(sum / valid[i]));
};

/** Samples are measured before normalisation and mixing. */
export interface Measurable extends Pick<Source, "name" | "length" | "facts" | "missing"> {
  batch(ids: Int32Array): Batch;
}

interface Measures {
  readonly samples: number;
  readonly input: Moments;
  readonly classes: readonly number[] | null;
}

/** So many values take 8 MiB as doubles. */
const VALUES_AT_ONCE = 2 ** 20;
const MOST_SAMPLES = 4096;
const LEAST_SAMPLES = 1000;

/**
 * All samples, or so many of a large data set as have about `most` numbers, and at least LEAST_SAMPLES: evenly spread, so
 * that each year and each file has its part.
 */
export function spreadOver(
  { length, input, target }: Pick<Source, "length" | "input" | "target">,
  most: number,
): { readonly count: number; readonly at: (i: number) => number } {
  const numbers = (of: { readonly shape: readonly number[] }) =>
    of.shape.reduce((all, side) => all * side, 1);
  const wanted = Math.max(LEAST_SAMPLES, Math.floor(most / (numbers(input) + numbers(target))));
  const count = Math.min(length, wanted);
  return { count, at: (i) => count === length ? i : Math.floor(i * length / count) };
}

/** Each of `world` ranks measures a contiguous share; null is an empty one. `seen` gets the number done. */
export function measure(
  what: Measurable,
  rank = 0,
  world = 1,
  seen: (done: number, of: number) => void = () => {},
): Measures | null {
  const { length, facts } = what;
  const [first, end] = [rank, rank + 1].map((at) => Math.floor(at * length / world));
  const size = facts.input.shape.reduce((total, side) => total * side, 1);
  const together = Math.max(1, Math.min(MOST_SAMPLES, Math.floor(VALUES_AT_ONCE / size)));
  const classes = classesOf(facts);
  let input: Moments | null = null;
  for (let from = first; from < end; from += together) {
    const ids = Int32Array.from({ length: Math.min(together, end - from) }, (_, i) => from + i);
    scope(() => {
      const batch = what.batch(ids);
      const part = what.missing?.input ? validMomentsOf(batch.input) : momentsOf(batch.input);
      if (!part.mean.every(Number.isFinite)) throw notFinite(what, batch.input, from);
      input = input ? mergeTwo(input, part) : part;
      if (classes) countClasses(batch.target, classes);
    });
    seen(Math.min(from + together, end) - first, end - first);
  }
  return input && { samples: end - first, input, classes };
}

/** The order of ranks decides the bits. */
export function mergeMeasures(shares: readonly (Measures | null)[]): Measures {
  const parts = shares.filter((share) => share !== null);
  return {
    samples: parts.reduce((sum, { samples }) => sum + samples, 0),
    input: mergeMoments(parts.map(({ input }) => input)),
    classes: parts[0].classes &&
      parts[0].classes.map((_, at) => parts.reduce((sum, { classes }) => sum + classes![at], 0)),
  };
}

function momentsOf(values: Tensor): Moments {
  const [samples, channels = 1] = values.shape;
  return scope(() => {
    const stored = ops.reshape(values, [samples, channels, -1]);
    const wide = ops.toDtype(stored, "f64");
    const count = samples * wide.shape[2];
    const mean = ops.div(ops.sumDim(wide, [0, 2], true), constant(count, "f64"));
    const squares = ops.sumDim(ops.square(sub(wide, mean)), [0, 2]);
    const plain = (t: Tensor) => [...toNumbers(t)];
    return {
      count,
      mean: plain(mean),
      squares: plain(squares),
      min: plain(ops.amin(stored, [0, 2])),
      max: plain(ops.amax(stored, [0, 2])),
    };
  });
}

/** NaN is a missing value and counts nowhere. */
function validMomentsOf(values: Tensor): Moments {
  const [samples, channels = 1] = values.shape;
  return scope(() => {
    const stored = ops.reshape(values, [samples, channels, -1]), present = ops.eq(stored, stored);
    const zero = constant(0, "f64"), known = (t: Tensor) => ops.where(present, t, zero);
    const instead = (value: number) => ops.where(present, stored, constant(value, stored.dtype));
    const valid = ops.sumDim(present, [0, 2], true, "f64");
    const wide = known(ops.toDtype(stored, "f64"));
    const mean = ops.div(ops.sumDim(wide, [0, 2], true), ops.clamp(valid, constant(1, "f64")));
    const squares = ops.sumDim(ops.square(known(sub(wide, mean))), [0, 2]);
    const plain = (t: Tensor) => [...toNumbers(t)];
    return {
      count: samples * stored.shape[2],
      valid: plain(valid),
      mean: plain(mean),
      squares: plain(squares),
      min: plain(ops.amin(instead(Infinity), [0, 2])),
      max: plain(ops.amax(instead(-Infinity), [0, 2])),
    };
  });
}

const classesOf = ({ task, outputs }: Source["facts"]): number[] | null =>
  task === "classification" || task === "segmentation" ? Array<number>(outputs).fill(0) : null;

/** Labels outside of the classes are ignored. One-hot shares count by their sums. */
function countClasses(target: Tensor, counts: number[]): void {
  if (isFloating(target.dtype)) {
    toNumbers(ops.sumDim(target, [0])).forEach((sum, label) => counts[label] += sum);
    return;
  }
  for (const label of toBigInts(target)) if (label >= 0 && label < counts.length) counts[Number(label)]++;
}

function notFinite({ name, missing }: Measurable, values: Tensor, from: number): UserError {
  const good = missing?.input ? notInfinite(values) : ops.isfinite(values);
  const rows = toNumbers(ops.amin(ops.toDtype(ops.reshape(good, [values.shape[0], -1]), "u8"), [1]));
  return new UserError(
    "data",
    `${name}: training sample ${from + rows.indexOf(0)} (counted from 0) has ${
      missing?.input ? "" : "NaN or "
    }infinity in it, ` +
      "so its mean can't be measured. Repair it, or leave such samples out with --bad-samples skip.",
  );
}

interface Statistics {
  readonly samples: number;
  readonly mean: readonly number[];
  readonly std: readonly number[];
  readonly min: readonly number[];
  readonly max: readonly number[];
  readonly classes: readonly number[] | null;
}

const FORMAT = "hpctrain statistics 1";
/** The file keeps so many splits and settings; the oldest goes first. */
const MOST_ENTRIES = 16;

interface Entry {
  readonly of: string;
  readonly sum: string;
  readonly statistics: Statistics;
}

/** The data's folder is the user's, and may be shared: the cache is elsewhere. */
function cachePathFor(path: string, env = Deno.env.toObject()): string | null {
  if (isUrl(path)) return null; // what a server has may have changed
  const of = filesNamed(path) ? resolve(path) : Deno.realPathSync(path);
  return join(cacheFolder(env), "statistics", `${digest(of).slice(0, 32)}.json`);
}

interface CachedStatistics {
  readonly statistics: Statistics | null;
  readonly damaged: string | null;
}

function lookUp(place: string, of: string): CachedStatistics {
  const entries = read(place);
  const found = entries?.find((entry) => entry?.of === of);
  if (found && found.sum === digest(JSON.stringify(found.statistics))) {
    return { statistics: found.statistics, damaged: null };
  }
  return { statistics: null, damaged: found || entries === null ? place : null };
}

/** False means that the place can't be written: only time is lost. */
function remember(place: string, of: string, statistics: Statistics): boolean {
  const entry: Entry = { of, sum: digest(JSON.stringify(statistics)), statistics };
  const others = (read(place) ?? []).filter((other) => other?.of !== of).slice(1 - MOST_ENTRIES);
  const text = JSON.stringify({ format: FORMAT, entries: [...others, entry] }, null, 1) + "\n";
  try {
    writeAtomically(place, (file) => writeAll(file, new TextEncoder().encode(text)));
    return true;
  } catch {
    return false;
  }
}

/** Empty means no file, null a file that is not ours. */
function read(place: string): Entry[] | null {
  let text: string;
  try {
    text = Deno.readTextFileSync(place);
  } catch {
    return [];
  }
  try {
    const { format, entries } = JSON.parse(text);
    return format === FORMAT && Array.isArray(entries) ? entries : null;
  } catch {
    return null;
  }
}

interface StatisticsScope {
  readonly path: string;
  /** All that decides the samples and their processing is plain data here. */
  readonly settings: unknown;
  readonly indices?: Int32Array | null;
}

interface Stated {
  readonly statistics: Statistics;
  /** The user sees what was measured or found, and where it is kept. */
  readonly notes: readonly string[];
}

/** The model must know nothing of other samples. */
export function statisticsOf(samples: Measurable, what: StatisticsScope, quiet = true): Stated {
  if (what.path === "") return { statistics: measured(samples, quiet), notes: [] };
  const of = hashOf(samples, what), place = cachePathFor(what.path);
  const { statistics, damaged } = place ? lookUp(place, of) : { statistics: null, damaged: null };
  if (statistics) {
    return { statistics, notes: [`Statistics of ${samplesText(statistics)}, as measured before`] };
  }
  const start = performance.now();
  const found = measured(samples, quiet);
  const kept = place !== null && remember(place, of, found);
  const took = formatDuration((performance.now() - start) / 1000);
  const where = kept
    ? `kept in ${place}`
    : isUrl(what.path)
    ? "and not kept, as the server's data may change"
    : `kept nowhere, as ${place} can't be written`;
  return {
    statistics: found,
    notes: [
      `Statistics of ${samplesText(found)}, measured in ${took}, ${where}` +
      (damaged ? `; what was kept in ${damaged} is damaged` : ""),
    ],
  };
}

/** All of the data is read for it, so it shows progress. */
function measured(samples: Measurable, quiet: boolean): Statistics {
  const progress = openProgress("Measuring", { quiet });
  try {
    const all = measure(samples, 0, 1, (done, total) => progress.update({ done, kept: 0, total }));
    const merged = mergeMeasures([all]);
    const input = overSteps(merged.input, samples.facts.input.history ?? 1);
    refuseEmpty(samples.name, input);
    return stated({ ...merged, input });
  } finally {
    progress.clear();
  }
}

/** The steps of a history have the same channels, and these one mean. */
function overSteps(moments: Moments, steps: number): Moments {
  if (steps === 1) return moments;
  const channels = moments.mean.length / steps;
  const lists = (of: Moments, each: (list: readonly number[]) => readonly number[]): Moments => ({
    count: of.count,
    ...(of.valid && { valid: each(of.valid) }),
    mean: each(of.mean),
    squares: each(of.squares),
    min: each(of.min),
    max: each(of.max),
  });
  const places = Array.from({ length: steps }, (_, k) => k * channels);
  const merged = mergeMoments(places.map((at) => lists(moments, (list) => list.slice(at, at + channels))));
  return lists(merged, (list) => places.flatMap(() => list));
}

function refuseEmpty(name: string, { valid }: Moments): void {
  const channel = valid?.indexOf(0) ?? -1;
  if (channel < 0) return;
  throw new UserError(
    "data",
    `${name}: channel ${channel} (counted from 0) is missing (NaN) at every point of the training samples, so its mean ` +
      "can't be measured. Leave it out with --features.",
  );
}

const samplesText = ({ samples }: Statistics) => formatPlural(samples, "training sample");

export const stated = ({ samples, input, classes }: Measures): Statistics => ({
  samples,
  mean: input.mean,
  std: deviations(input),
  min: input.min,
  max: input.max,
  classes,
});

function hashOf({ length, facts }: Measurable, { path, settings, indices }: StatisticsScope): string {
  const which = indices ? digest(new Uint8Array(Int32Array.from(indices).buffer)) : null;
  return digest(JSON.stringify({ files: fingerprint(path), length, facts, settings, which }));
}
