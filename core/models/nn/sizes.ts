// Sizes per dimension, as PyTorch's layers take them. Imports nothing.

/** One number for all dimensions, or one each. */
export type Size = number | readonly number[];

/** A list of `dims` numbers, made once so that forward allocates none. */
export function perDimension(size: Size, dims: number): readonly number[] {
  return typeof size === "number" ? new Array<number>(dims).fill(size) : size;
}
