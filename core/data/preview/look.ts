// A report shows of a field how its numbers are spread, maps of their mean and of what is missing, and the share
// that is there along the samples. Of large data evenly spread samples are read.
import { type Histogram, histogramOf, layoutOf, type Preview } from "./preview.ts";
import type { PreviewField } from "./axes.ts";

export interface Plane {
  readonly width: number;
  readonly height: number;
  /** Row by row; NaN is missing. */
  readonly values: Float64Array;
}

interface FieldMap {
  /** The channel's place; null where there is one map. */
  readonly channel: number | null;
  readonly mean: Plane;
  /** Shares from 0 to 1. */
  readonly missing: Plane;
}

export interface FieldOverview {
  readonly field: PreviewField;
  /** Null without finite values. */
  readonly numbers: {
    readonly min: number;
    readonly max: number;
    readonly mean: number;
    readonly std: number;
    readonly histogram: Histogram;
    /** Few whole numbers are counted, the smallest first. */
    readonly counts: readonly (readonly [value: number, count: number])[] | null;
  } | null;
  readonly values: number;
  readonly missing: number;
  readonly infinite: number;
  /** The rows that were read. */
  readonly rows: readonly number[];
  /** The share of values that each of these rows has. */
  readonly present: readonly number[];
  readonly maps: readonly FieldMap[];
}

/** Values that are read of one field, and of all. */
const MOST_OF_FIELD = 2 ** 24, MOST_OF_ALL = 2 ** 27;
const AT_ONCE = 2 ** 20;
/** Larger maps are not held as sums. */
const LARGEST_ROW = 2 ** 24;
const MOST_KEPT = 2 ** 19;
const BINS = 40, MOST_COUNTED = 20, MOST_CHANNELS = 3;

/** Null where a field has no numbers. */
export function overviewOf(field: PreviewField, fields: number): FieldOverview | null {
  const row = field.shape.slice(1), size = row.reduce((product, side) => product * side, 1);
  const total = field.shape.length === 0 ? 1 : field.shape[0];
  if (!field.read || size === 0 || total === 0 || size > LARGEST_ROW) return null;
  const budget = Math.min(MOST_OF_FIELD, Math.floor(MOST_OF_ALL / Math.max(1, fields)));
  const count = Math.min(total, Math.max(1, Math.floor(budget / size)));
  const rows = Array.from({ length: count }, (_, i) => Math.floor(i * total / count));
  const layout = size > 1 && !field.texts ? layoutOf(row) : null;
  const sums = layout && { sum: new Float64Array(size), count: new Uint32Array(size) };
  const keptEach = Math.ceil(count * size / MOST_KEPT), kept: number[] = [];
  const found = { min: Infinity, max: -Infinity, missing: 0, infinite: 0, finite: 0, sum: 0, squares: 0 };
  let near = NaN, seen = 0; // without a number near them, squares would lose the spread of values far from zero
  const present = new Float64Array(count),
    each = count === total ? Math.max(1, Math.floor(AT_ONCE / size)) : 1;
  for (let first = 0; first < count; first += each) {
    const values = field.read(rows[first], Math.min(each, count - first));
    for (let i = 0; i < values.length; i++, seen++) {
      const value = Number(values[i]);
      if (value - value !== 0) {
        if (value !== value) found.missing++;
        else found.infinite++;
        continue;
      }
      found.finite++;
      if (near !== near) near = value;
      if (value < found.min) found.min = value;
      if (value > found.max) found.max = value;
      const deviation = value - near;
      found.sum += deviation;
      found.squares += deviation * deviation;
      present[first + Math.floor(i / size)]++;
      if (seen % keptEach === 0) kept.push(value);
      if (sums) {
        sums.sum[i % size] += value;
        sums.count[i % size]++;
      }
    }
  }
  const { min, max, missing, infinite, finite, sum, squares } = found, mean = sum / finite;
  return {
    field,
    numbers: finite === 0 ? null : {
      ...{ min, max, mean: near + mean, std: Math.sqrt(Math.max(0, squares / finite - mean * mean)) },
      histogram: histogramOf([kept], min, max, BINS),
      counts: keptEach === 1 ? countsOf(kept) : null,
    },
    values: count * size,
    ...{ missing, infinite, rows },
    present: Array.from(present, (filled) => filled / size),
    maps: layout && sums ? mapsOf(sums, layout.shape, layout.strides, count) : [],
  };
}

function countsOf(values: readonly number[]): [number, number][] | null {
  const counts = new Map<number, number>();
  for (const value of values) {
    counts.set(value, (counts.get(value) ?? 0) + 1);
    if (counts.size > MOST_COUNTED || !Number.isInteger(value)) return null;
  }
  return counts.size <= values.length / 2 ? [...counts].sort(([a], [b]) => a - b) : null;
}

/** The first channels, or the first, the middle and the last one. */
function mapsOf(
  { sum, count }: { readonly sum: Float64Array; readonly count: Uint32Array },
  [channels, height, width]: readonly number[],
  strides: readonly number[],
  rows: number,
): FieldMap[] {
  const some = channels <= MOST_CHANNELS
    ? Array.from({ length: channels }, (_, c) => c)
    : [0, Math.floor((channels - 1) / 2), channels - 1];
  return some.map((channel) => {
    const mean = new Float64Array(width * height), missing = new Float64Array(width * height);
    for (let y = 0, at = 0; y < height; y++) {
      for (let x = 0; x < width; x++, at++) {
        const from = channel * strides[0] + y * strides[1] + x * strides[2];
        mean[at] = count[from] === 0 ? NaN : sum[from] / count[from];
        missing[at] = 1 - count[from] / rows;
      }
    }
    const plane = (values: Float64Array): Plane => ({ width, height, values });
    return { channel: channels === 1 ? null : channel, mean: plane(mean), missing: plane(missing) };
  });
}

/** A field that is the same for all samples: its two dimensions are a map. */
function overviewOfStatic(field: PreviewField): FieldOverview | null {
  const { shape, read } = field;
  if (!read || layoutOf(shape) === null) return null;
  const overview = overviewOf({ ...field, shape: [1, ...shape], read: () => read(0, shape[0]) }, 1);
  return overview && { ...overview, field, rows: [], present: [] };
}

/** Coordinates of dimensions are in neither list. */
export function fieldOverviews(
  { fields, dimensions = [] }: Preview,
  most: { readonly maps: number; readonly columns: number },
): { looks: FieldOverview[]; others: PreviewField[] } {
  const overviews: FieldOverview[] = [], others: PreviewField[] = [], left = { ...most };
  const wanted = fields.filter(({ remark, read }) => read !== null && remark === undefined);
  const samples = samplesDimension(wanted), count = Math.min(most.maps + most.columns, wanted.length);
  for (const field of fields) {
    if (dimensions.some(({ name }) => name === field.name)) continue;
    const isStatic = field.dimensions?.length === 2 && field.dimensions[0] !== samples;
    const kind = isStatic || layoutOf(field.shape.slice(1)) ? "maps" : "columns";
    const isShown = wanted.includes(field) && left[kind] > 0;
    const overview = !isShown ? null : isStatic ? overviewOfStatic(field) : overviewOf(field, count);
    if (overview) {
      overviews.push(overview);
      left[kind]--;
    } else others.push(field);
  }
  return { looks: overviews, others };
}

function samplesDimension(fields: readonly PreviewField[]): string | undefined {
  const numbers = ({ shape }: PreviewField) => shape.reduce((product, side) => product * side, 1);
  const named = fields.filter(({ dimensions = [] }) => dimensions.length > 0);
  return named.toSorted((a, b) => numbers(b) - numbers(a))[0]?.dimensions?.[0];
}

/** A plane of at most so many points: each is the mean of those it covers. */
export function shrunkPlane(plane: Plane, most: number): Plane {
  const { width, height, values } = plane;
  const scale = Math.sqrt(most / (width * height));
  if (scale >= 1) return plane;
  const w = Math.max(1, Math.floor(width * scale)), h = Math.max(1, Math.floor(height * scale));
  const sum = new Float64Array(w * h), count = new Uint32Array(w * h);
  for (let y = 0, at = 0; y < height; y++) {
    const row = Math.floor(y * h / height) * w;
    for (let x = 0; x < width; x++, at++) {
      if (Number.isNaN(values[at])) continue;
      const to = row + Math.floor(x * w / width);
      sum[to] += values[at];
      count[to]++;
    }
  }
  return { width: w, height: h, values: sum.map((total, i) => count[i] === 0 ? NaN : total / count[i]) };
}

/** Maps are drawn with the north on top, so rows that begin in the south change places. */
export function upsideDown({ width, height, values }: Plane): Plane {
  const turned = new Float64Array(values.length);
  for (let y = 0; y < height; y++) {
    turned.set(values.subarray(y * width, (y + 1) * width), (height - 1 - y) * width);
  }
  return { width, height, values: turned };
}
