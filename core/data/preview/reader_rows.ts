// Samples that a loader thread's reader brings, as rows of two fields. May import errors, reading, its siblings.
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import { UserError } from "../../errors.ts";
import { BadSample, type Reader, type Stored } from "../reading/reader.ts";
import { view } from "../variables.ts";
import { type Raster, rowMajor } from "./picture.ts";
import type { PreviewField, Values } from "./preview.ts";

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

/** Inputs that are images of bytes. */
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
