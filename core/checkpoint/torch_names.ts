// Between our element types and PyTorch's names for them. Imports value.ts.
import type { DType } from "./value.ts";

/** torch.<name>Storage for the types that have one; the others are saved as untyped bytes. */
export const STORAGE_NAMES: Partial<Record<DType, string>> = {
  f32: "FloatStorage",
  f64: "DoubleStorage",
  f16: "HalfStorage",
  bf16: "BFloat16Storage",
  i8: "CharStorage",
  i16: "ShortStorage",
  i32: "IntStorage",
  i64: "LongStorage",
  u8: "ByteStorage",
  bool: "BoolStorage",
  c64: "ComplexFloatStorage",
  c128: "ComplexDoubleStorage",
};

export const TORCH_DTYPES: Record<DType, string> = {
  f32: "float32",
  f64: "float64",
  f16: "float16",
  bf16: "bfloat16",
  i8: "int8",
  i16: "int16",
  i32: "int32",
  i64: "int64",
  u8: "uint8",
  u16: "uint16",
  u32: "uint32",
  u64: "uint64",
  bool: "bool",
  c64: "complex64",
  c128: "complex128",
};

const invert = (names: Partial<Record<DType, string>>): ReadonlyMap<string, DType> =>
  new Map(Object.entries(names).map(([dtype, name]) => [`torch.${name}`, dtype as DType]));

/** "torch.FloatStorage" -> "f32". Untyped storages count bytes. */
export const STORAGE_DTYPES: ReadonlyMap<string, DType> = new Map([
  ...invert(STORAGE_NAMES),
  ["torch.storage.UntypedStorage", "u8"],
  ["torch.UntypedStorage", "u8"],
]);

/** "torch.float32" -> "f32". */
export const DTYPE_NAMES: ReadonlyMap<string, DType> = invert(TORCH_DTYPES);
