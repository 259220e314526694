// Preview: the fields, samples and pictures that data of any kind shows before anybody chooses what to train with.
import { type Raster, rowMajor } from "./picture.ts";
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import { UserError } from "../../base/errors.ts";
import { BadSample, type Reader, type Stored } from "../reading/reader.ts";
import { view } from "../columns/variables.ts";

// A preview shows data of any kind before anybody chooses what to train with.

export type Values = ArrayLike<number> | ArrayLike<bigint>;

export interface PreviewField {
  readonly name: string;
  /** The first dimension numbers the samples. */
  readonly shape: readonly number[];
  readonly dtype: string;
  /** One name a dimension, where they have some. */
  readonly dimensions?: readonly string[];
  readonly units?: string;
  /** Why it can't be trained with, or isn't unless it is named. */
  readonly remark?: string;
  /** The texts that its numbers 0, 1, 2, ... stand for. */
  readonly texts?: readonly string[];
  /** Rows of it, missing values as NaN; null where it has no numbers. */
  readonly read: ((first: number, count: number) => Values) | null;
}

export interface Pictures {
  readonly field: string;
  readonly count: number;
  raster(sample: number): Raster;
  /** So many of them, where nobody chose one; the first ones where left out. */
  some?(count: number): number[];
  /** Names a sample in a word: its class. */
  caption?(sample: number): string;
}

export interface Preview {
  readonly path: string;
  readonly kind: string;
  /** The size of the files; null where they are too many to be looked at. */
  readonly bytes: number | null;
  /** Null where the fields don't agree on it. */
  readonly samples: number | null;
  /** The noun for a row of a field; "sample" where left out. */
  readonly row?: string;
  /** The noun for a field: "array", "variable", ... */
  readonly noun: string;
  readonly facts: Readonly<Record<string, string>>;
  readonly fields: readonly PreviewField[];
  readonly classes: readonly { readonly name: string; readonly samples: number }[] | null;
  readonly pictures: Pictures | null;
}

// Fields that are images or maps can be drawn, a sample at a time.

/** A side of fewer is a small table, not a map. */
const SHORTEST = 4;

/** [channels, height, width] of a sample, and its strides; null where it is no picture. */
function layoutOf(row: readonly number[]): Pick<Raster, "shape" | "strides"> | null {
  if (row.length === 2) return layoutOf([1, ...row]);
  if (row.length !== 3) return null;
  const [a, b, c] = row;
  // Channels are last where there are at most four and far more rows and columns, as training takes it too.
  const shape = c <= 4 && a > 4 && b > 4 ? [c, a, b] : row;
  const strides = shape === row ? rowMajor(row) : [1, b * c, c];
  return Math.min(shape[1], shape[2]) >= SHORTEST ? { shape, strides } : null;
}

/** Takes the first field that has some. */
export function picturesOf(fields: readonly PreviewField[]): Pictures | null {
  const usable = fields.filter(({ read }) => read !== null);
  for (const field of usable) {
    const layout = layoutOf(field.shape.slice(1));
    if (layout) return pictures(field, field.shape[0], layout, (sample) => field.read!(sample, 1));
  }
  // A grid with named dimensions and no others is a single map.
  for (const field of usable) {
    const layout = field.dimensions?.length === 2 ? layoutOf(field.shape) : null;
    if (layout) return pictures(field, 1, layout, () => field.read!(0, field.shape[0]));
  }
  return null;
}

function pictures(
  { name, dtype }: PreviewField,
  count: number,
  layout: Pick<Raster, "shape" | "strides">,
  read: (sample: number) => Raster["values"],
): Pictures {
  const isImage = dtype === "u8" && [1, 3, 4].includes(layout.shape[0]);
  return { field: name, count, raster: (sample) => ({ ...layout, isImage, values: read(sample) }) };
}

// Samples that a loader thread's reader brings, as rows of two fields.

export interface Sample {
  readonly input: Stored;
  readonly target: Values;
}

export type SampleAt = (index: number) => Sample;

/** Reads one sample; one that can't be read is named, as training names it. */
export function openSamples(
  reader: Reader,
  target: { readonly shape: readonly number[]; readonly dtype: DType },
): SampleAt {
  const bytes = new Uint8Array(
    target.shape.reduce((product, size) => product * size, dtypeBytes(target.dtype)),
  );
  return (index) => {
    try {
      const input = reader.read(index, bytes);
      return { input, target: view(bytes, target.dtype) };
    } catch (error) {
      if (!(error instanceof BadSample)) throw error;
      throw new UserError("data", `Sample ${index} (${error.path}) ${error.reason}.`, { cause: error });
    }
  };
}

export const imagesOf = (sampleAt: SampleAt) => (index: number): Raster => {
  const { input: { data, shape, strides } } = sampleAt(index);
  return { values: data, shape, strides: strides ?? rowMajor(shape), isImage: true };
};

/** Rows of one part of the samples, read one after the other. */
export function rowsOf(
  sampleAt: SampleAt,
  part: (sample: Sample) => Values,
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
