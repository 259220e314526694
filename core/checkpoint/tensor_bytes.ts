// The bytes of a described tensor, row by row whatever its strides. Imports value, core/errors.ts.
import { UserError } from "../errors.ts";
import { contiguousStrides, DTYPE_BYTES, type TensorData } from "./value.ts";

// An expanded tensor can claim any size for a few bytes of file.
const MAX_EXPANDED_BYTES = 2 ** 30;

export function isContiguous({ shape, strides }: TensorData): boolean {
  const expected = contiguousStrides(shape);
  return shape.includes(0) || shape.every((size, i) => size === 1 || strides[i] === expected[i]);
}

/** May be a view of the storage's memory: copy it to keep it. */
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
    // Steps to the next row, carrying like an odometer.
    for (let axis = inner - 1; axis >= 0; axis--) {
      base += strides[axis];
      if (++index[axis] < shape[axis]) break;
      base -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return new Uint8Array(to.buffer);
}
