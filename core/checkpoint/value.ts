// What a checkpoint holds, as plain values that need no libtorch. Imports nothing.

/**
 * Element types, under the names that ffi uses.
 * @internal
 */
export type DType =
  | "f32"
  | "f64"
  | "f16"
  | "bf16"
  | "i8"
  | "i16"
  | "i32"
  | "i64"
  | "u8"
  | "u16"
  | "u32"
  | "u64"
  | "bool"
  | "c64"
  | "c128";

export const DTYPE_BYTES: Readonly<Record<DType, number>> = {
  f32: 4,
  f64: 8,
  f16: 2,
  bf16: 2,
  i8: 1,
  i16: 2,
  i32: 4,
  i64: 8,
  u8: 1,
  u16: 2,
  u32: 4,
  u64: 8,
  bool: 1,
  c64: 8,
  c128: 16,
};

/** Bytes that tensors view, wherever they are. Tensors that share memory hold the same Storage object. */
export interface Storage {
  /** How many bytes it has. */
  readonly byteLength: number;
  /** May be a view of memory the storage owns: use it before the storage changes. */
  read(offset: number, length: number): Uint8Array;
}

/** A tensor by description: nothing is read until somebody asks for its bytes. */
export class TensorData {
  /** Of row-major order unless `strides` says otherwise; the storage may be shared with others. */
  constructor(
    readonly dtype: DType,
    readonly shape: readonly number[],
    readonly storage: Storage,
    /** In elements, as PyTorch counts them. */
    readonly strides: readonly number[] = contiguousStrides(shape),
    readonly offset = 0,
    readonly requiresGrad = false,
  ) {}
  /** How many elements it has. */
  get numel(): number {
    return this.shape.reduce((product, size) => product * size, 1);
  }
  /** How many bytes its elements take, shared ones counted. */
  get byteLength(): number {
    return this.numel * DTYPE_BYTES[this.dtype];
  }
}

/** A Python tuple (torch.Size too); a list is a plain array. */
export class Tuple {
  /** A Python tuple of these. */
  constructor(readonly items: Value[]) {}
}

/** Python's collections.OrderedDict, which state dicts are; a dict is a plain Map. */
export class OrderedDict extends Map<Key, Value> {}

/** A torch object that only has a name here, such as "torch.float32" or "device(cuda:0)". Read, never written. */
export class TorchName {
  /** `name` is the Python name, with its module. */
  constructor(readonly name: string) {}
}

/** What a dict may have for a key. */
export type Key = string | number | bigint | boolean | null | Tuple;

/** An integer beyond 2^53 is a bigint. A whole number is written as a Python int. */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Value[]
  | Tuple
  | Map<Key, Value>
  | Set<Value>
  | TensorData
  | TorchName;

/** The strides of a tensor laid out row by row. */
export function contiguousStrides(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = step;
    step *= Math.max(shape[i], 1);
  }
  return strides;
}

/** A storage over bytes that are already in memory (native memory included: nothing is copied). */
export function memoryStorage(bytes: Uint8Array): Storage {
  return { byteLength: bytes.byteLength, read: (offset, length) => bytes.subarray(offset, offset + length) };
}

/** A nested plain object as dicts: what save and convert hand to a writer. */
export function dict(entries: Record<string, Value>): Map<Key, Value> {
  return new Map(Object.entries(entries));
}

/** What a dictionary has under this key; undefined where it has not, or is none. */
export function field(value: Value | undefined, key: string): Value | undefined {
  return value instanceof Map ? value.get(key) : undefined;
}
