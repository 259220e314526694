// The types of tensors' numbers.
import { NativeError } from "./errors.ts";

/** The data types of tensors: f32, bf16, i64, ..., by the number of their bits. */
export type DType =
  | "u8"
  | "i8"
  | "i16"
  | "i32"
  | "i64"
  | "f16"
  | "f32"
  | "f64"
  | "c64"
  | "c128"
  | "bool"
  | "bf16"
  | "u16"
  | "u32"
  | "u64";

/** Name -> [c10::ScalarType code, bytes per element]. The codes are part of libtorch's file formats and never change. */
const table: Readonly<Record<DType, readonly [code: number, bytes: number]>> = {
  u8: [0, 1],
  i8: [1, 1],
  i16: [2, 2],
  i32: [3, 4],
  i64: [4, 8],
  f16: [5, 2],
  f32: [6, 4],
  f64: [7, 8],
  c64: [9, 8],
  c128: [10, 16],
  bool: [11, 1],
  bf16: [15, 2],
  u16: [27, 2],
  u32: [28, 4],
  u64: [29, 8],
};

const nameOf = new Map<number, DType>(
  Object.entries(table).map(([name, [code]]) => [code, name as DType]),
);

export const dtypeCode = (name: DType): number => table[name][0];
export const dtypeBytes = (name: DType): number => table[name][1];
/** Kernels of libtorch compute in it: for halves in f32. */
export const opmathType = (name: DType): "f32" | "f64" => name === "f64" ? "f64" : "f32";

export const isFloating = (name: DType): boolean => name[0] === "f" || name === "bf16";

export function dtypeName(code: number): DType {
  const name = nameOf.get(code);
  if (name === undefined) {
    // An exported program may make complex numbers of halves.
    throw new NativeError("dtype", "", `tensors of this type are not supported (libtorch's number ${code})`);
  }
  return name;
}
