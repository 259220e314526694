// Tensors described by plain data, so that the same input can be made here and in Python. Test helper.
import type { DType } from "../../ffi/dtype.ts";
import { tensor } from "../../ffi/make.ts";
import { toCopy, viewAsComplex } from "../../ffi/ops.ts";
import type { Tensor } from "../../ffi/tensor.ts";

export interface Input {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

const count = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
const filled = (dtype: DType, shape: readonly number[], value: (i: number) => number): Input => ({
  dtype,
  shape,
  values: Array.from({ length: count(shape) }, (_, i) => Math.fround(value(i))),
});

/** Numbers between -1 and 1 without a pattern. */
export const x = (...shape: number[]): Input => filled("f32", shape, (i) => Math.sin(1 + 12.9 * i));
/** Other such numbers. */
export const y = (...shape: number[]): Input => filled("f32", shape, (i) => Math.cos(2 + 7.3 * i));
/** Numbers between 0.1 and 0.9. */
export const positive = (...shape: number[]): Input =>
  filled("f32", shape, (i) => 0.5 + 0.4 * Math.sin(3 * i));
export const f32 = (...values: number[]): Input => ({ dtype: "f32", shape: [values.length], values });
export const i64 = (...values: number[]): Input => ({ dtype: "i64", shape: [values.length], values });
export const bool = (...values: number[]): Input => ({ dtype: "bool", shape: [values.length], values });
export const as = (dtype: DType, input: Input): Input => ({ ...input, dtype });
export const scalar = (value: number, dtype: DType = "f32"): Input => ({ dtype, shape: [], values: [value] });
/** Complex numbers from pairs: the last dimension of the shape must be 2 and goes. */
export const complex = (...shape: number[]): Input => ({ ...x(...shape), dtype: "c64" });

export const isInput = (value: unknown): value is Input =>
  typeof value === "object" && value !== null && "dtype" in value;

export function make(input: Input): Tensor {
  const { dtype, shape, values } = input;
  if (dtype === "c64") return viewAsComplex(tensor(Float32Array.from(values), shape));
  if (dtype === "f32") return tensor(Float32Array.from(values), shape);
  return toCopy(tensor(Float64Array.from(values), shape), dtype);
}
