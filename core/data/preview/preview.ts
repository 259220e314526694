// A preview shows data of any kind before settings choose what to train with.
import { mapAxesOf, type PreviewField, rises } from "./axes.ts";
import type { DimensionSummary } from "./dimensions.ts";
import { type Raster, rowMajorStrides } from "./picture.ts";
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import { UserError } from "../../base/errors.ts";
import { BadSample } from "../arrays/rows.ts";
import type { Reader } from "../source/reader.ts";
import type { Stored } from "../augment/planes.ts";
import { typedView, type VariableValues } from "../arrays/numbers.ts";

export interface Pictures {
  readonly field: string;
  readonly count: number;
  raster(sample: number): Raster;
  /** It chooses samples by default; without it the first ones count. */
  some?(count: number): number[];
  caption?(sample: number): string;
}

export interface Preview {
  readonly path: string;
  readonly kind: string;
  readonly bytes: number | null;
  readonly samples: number | null;
  readonly row?: string;
  readonly noun: string;
  readonly facts: Readonly<Record<string, string>>;
  readonly dimensions?: readonly DimensionSummary[];
  readonly fields: readonly PreviewField[];
  readonly classes: readonly { readonly name: string; readonly samples: number }[] | null;
  readonly pictures: Pictures | null;
}

/** A shorter side is a small table, not a map. */
const SHORTEST = 4;

export function layoutOf(row: readonly number[]): Pick<Raster, "shape" | "strides"> | null {
  if (row.length === 2) return layoutOf([1, ...row]);
  if (row.length !== 3) return null;
  const [a, b, c] = row;
  // Training makes the same choice for channels that are last.
  const shape = c <= 4 && a > 4 && b > 4 ? [c, a, b] : row;
  const strides = shape === row ? rowMajorStrides(row) : [1, b * c, c];
  return Math.min(shape[1], shape[2]) >= SHORTEST ? { shape, strides } : null;
}

/** Coordinates among `all` say which way is up. */
export function picturesOf(
  fields: readonly PreviewField[],
  all: readonly PreviewField[] = fields,
): Pictures | null {
  const layoutIn = (field: PreviewField, row: readonly number[]) => {
    const layout = layoutOf(row);
    return layout && { ...layout, fromBelow: rises(mapAxesOf(all, field)?.y.values ?? null) };
  };
  const usable = fields.filter(({ read }) => read !== null);
  for (const field of usable) {
    const layout = layoutIn(field, field.shape.slice(1));
    if (layout) return pictures(field, field.shape[0], layout, (sample) => field.read!(sample, 1));
  }
  // A grid with named dimensions and no others is a single map.
  for (const field of usable) {
    const layout = field.dimensions?.length === 2 ? layoutIn(field, field.shape) : null;
    if (layout) return pictures(field, 1, layout, () => field.read!(0, field.shape[0]));
  }
  return null;
}

function pictures(
  { name, dtype }: PreviewField,
  count: number,
  layout: Pick<Raster, "shape" | "strides" | "fromBelow">,
  read: (sample: number) => Raster["values"],
): Pictures {
  const isImage = dtype === "u8" && [1, 3, 4].includes(layout.shape[0]);
  return { field: name, count, raster: (sample) => ({ ...layout, isImage, values: read(sample) }) };
}

interface Sample {
  readonly input: Stored;
  readonly target: VariableValues;
}

export type SampleAt = (index: number) => Sample;

/** A sample that cannot be read is named as in training. */
export function openSamples(
  reader: Reader,
  target: { readonly shape: readonly number[]; readonly dtype: DType },
): SampleAt {
  const bytes = new Uint8Array(
    target.shape.reduce((product, size) => product * size, dtypeBytes(target.dtype)),
  );
  return (index) => {
    try {
      const input = reader.read(index, bytes, 0);
      return { input, target: typedView(bytes, target.dtype) };
    } catch (error) {
      if (!(error instanceof BadSample)) throw error;
      throw new UserError("data", `Sample ${index} (${error.path}) ${error.reason}.`, { cause: error });
    }
  };
}

export const sampleImages = (sampleAt: SampleAt) => (index: number): Raster => {
  const { input: { data, shape, strides } } = sampleAt(index);
  return { values: data, shape, strides: strides ?? rowMajorStrides(shape), isImage: true };
};

export function previewRows(
  sampleAt: SampleAt,
  part: (sample: Sample) => VariableValues,
): NonNullable<PreviewField["read"]> {
  return (first, count) => {
    let rows = new Float64Array(0);
    for (let i = 0; i < count; i++) {
      const row = part(sampleAt(first + i));
      if (i === 0) rows = new Float64Array(count * row.length);
      for (let j = 0; j < row.length; j++) rows[i * row.length + j] = Number(row[j]);
    }
    return rows;
  };
}

export interface Histogram {
  /** Bins are of the same width, and the last one has its upper end, too. */
  readonly from: number;
  readonly to: number;
  readonly counts: readonly number[];
}

/** The standard deviation is of the population, as numpy's. */
export function spreadOf(pieces: readonly VariableValues[]): { mean: number | null; std: number | null } {
  let count = 0, sum = 0;
  eachFinite(pieces, (value) => {
    count++;
    sum += value;
  });
  if (count === 0) return { mean: null, std: null };
  const mean = sum / count;
  let squares = 0;
  eachFinite(pieces, (value) => squares += (value - mean) ** 2);
  return { mean, std: Math.sqrt(squares / count) };
}

/** Bins have the edges of numpy.histogram. Values outside are left out. */
export function histogramOf(
  pieces: readonly VariableValues[],
  from: number,
  to: number,
  bins: number,
): Histogram {
  const counts = new Array<number>(bins).fill(0);
  if (!(to > from) || to - from === Infinity) {
    eachFinite(pieces, () => counts[bins >> 1]++);
    return { from, to, counts };
  }
  const edge = (i: number) => i === bins ? to : from + i * ((to - from) / bins);
  eachFinite(pieces, (value) => {
    if (value < from || value > to) return;
    let bin = Math.min(bins - 1, Math.floor((value - from) / (to - from) * bins));
    if (value < edge(bin)) bin--;
    else if (bin < bins - 1 && value >= edge(bin + 1)) bin++;
    counts[bin]++;
  });
  return { from, to, counts };
}

function eachFinite(pieces: readonly VariableValues[], use: (value: number) => void): void {
  for (const values of pieces) {
    for (let i = 0; i < values.length; i++) {
      const value = Number(values[i]);
      if (value - value === 0) use(value);
    }
  }
}
