// Describes a checkpoint's content as plain values that need no libtorch.
import { UserError } from "../base/errors.ts";

/**
 * Element types, under the names that ffi uses.
 * @internal
 */
export type StoredDType =
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

export const DTYPE_BYTES: Readonly<Record<StoredDType, number>> = {
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
  /** The order is row-major unless `strides` says otherwise; other tensors may share the storage. */
  constructor(
    readonly dtype: StoredDType,
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

/** The key of a dict. */
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

function contiguousStrides(shape: readonly number[]): number[] {
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

export function dict(entries: Record<string, Value>): Map<Key, Value> {
  return new Map(Object.entries(entries));
}

/** Gives undefined where the value is no dictionary. */
export function field(value: Value | undefined, key: string): Value | undefined {
  return value instanceof Map ? value.get(key) : undefined;
}

/** Types without a torch.<name>Storage are saved as untyped bytes. */
export const STORAGE_NAMES: Partial<Record<StoredDType, string>> = {
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

export const TORCH_DTYPES: Record<StoredDType, string> = {
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

const invert = (names: Partial<Record<StoredDType, string>>): ReadonlyMap<string, StoredDType> =>
  new Map(Object.entries(names).map(([dtype, name]) => [`torch.${name}`, dtype as StoredDType]));

/** Untyped storages count bytes. */
export const STORAGE_DTYPES: ReadonlyMap<string, StoredDType> = new Map([
  ...invert(STORAGE_NAMES),
  ["torch.storage.UntypedStorage", "u8"],
  ["torch.UntypedStorage", "u8"],
]);

export const DTYPE_NAMES: ReadonlyMap<string, StoredDType> = invert(TORCH_DTYPES);

/** How a checkpoint is written. */
export interface WriteOptions {
  /** Read all of it back before it takes its place. */
  verify?: boolean;
  /** Those whose SHA-256 another thread makes, and how to wait for it. All others are summed where they are written. */
  known?: Sums;
  /** Is given the temporary file when it is whole, right before it takes its place. An exception keeps the old one there. */
  ready?: (temporary: string) => void;
  /** A part of a sentence says what to do where the folder takes no more. */
  elsewhere?: string;
}

/**
 * Waits for the SHA-256 of a storage, as hexadecimal digits.
 * @internal
 */
export type Sums = ReadonlyMap<Storage, () => string>;

// An expanded tensor can claim any size for a few bytes of file.
const MAX_EXPANDED_BYTES = 2 ** 30;

export function isContiguous({ shape, strides }: TensorData): boolean {
  const expected = contiguousStrides(shape);
  return shape.includes(0) || shape.every((size, i) => size === 1 || strides[i] === expected[i]);
}

/**
 * The bytes are row by row, whatever the strides. They may be a view of the storage's memory: copy them to
 * keep them.
 */
export function tensorBytes(tensor: TensorData): Uint8Array {
  const { shape, strides, storage, byteLength } = tensor;
  if (byteLength === 0) return new Uint8Array();
  const item = DTYPE_BYTES[tensor.dtype];
  if (isContiguous(tensor)) return storage.read(tensor.offset * item, byteLength);
  if (byteLength > Math.max(storage.byteLength, MAX_EXPANDED_BYTES)) {
    throw new UserError(
      "checkpoint",
      `a tensor of shape [${shape}] repeats ${storage.byteLength} bytes of file into ${byteLength}; refused as too large.`,
    );
  }
  const last = shape.reduce((sum, size, i) => sum + (size - 1) * strides[i], 0);
  const source = storage.read(tensor.offset * item, (last + 1) * item);
  return gather(source, shape, strides, item);
}

function gather(
  source: Uint8Array,
  shape: readonly number[],
  strides: readonly number[],
  item: number,
): Uint8Array {
  // Typed arrays need aligned bytes; a complex128 moves as two 8-byte words.
  const aligned = source.byteOffset % 8 === 0 ? source : source.slice();
  const Words = item === 1
    ? Uint8Array
    : item === 2
    ? Uint16Array
    : item === 4
    ? Uint32Array
    : BigUint64Array;
  const words = Math.max(1, item / 8);
  const from = new Words(
    aligned.buffer as ArrayBuffer,
    aligned.byteOffset,
    aligned.byteLength / Words.BYTES_PER_ELEMENT,
  );
  const to = new Words(shape.reduce((product, size) => product * size, words));
  const inner = shape.length - 1;
  const index = new Array<number>(shape.length).fill(0);
  let base = 0;
  for (let at = 0; at < to.length;) {
    for (let i = 0, position = base * words; i < shape[inner]; i++, position += strides[inner] * words) {
      for (let word = 0; word < words; word++) to[at++] = from[position + word];
    }
    // The indices carry like an odometer.
    for (let axis = inner - 1; axis >= 0; axis--) {
      base += strides[axis];
      if (++index[axis] < shape[axis]) break;
      base -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return new Uint8Array(to.buffer);
}
