// What reader and writer of safetensors files share. Imports value.
import type { DType } from "./value.ts";

/** The format's names, from the last to the first in the order in which the reference lays tensors out. */
export const NAMES: readonly (readonly [string, DType])[] = [
  ["U64", "u64"],
  ["I64", "i64"],
  ["F64", "f64"],
  ["C64", "c64"],
  ["F32", "f32"],
  ["U32", "u32"],
  ["I32", "i32"],
  ["BF16", "bf16"],
  ["F16", "f16"],
  ["U16", "u16"],
  ["I16", "i16"],
  ["I8", "i8"],
  ["U8", "u8"],
  ["BOOL", "bool"],
];
export const DTYPES: ReadonlyMap<string, DType> = new Map(NAMES);
export const RANK: ReadonlyMap<DType, number> = new Map(NAMES.map(([, dtype], i) => [dtype, i]));

// The reference implementation's own limit.
export const MAX_HEADER_BYTES = 100_000_000;

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
