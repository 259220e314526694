// An exported program with other weights: the same zip, entry by entry, but for the tensors. May import core/checkpoint,
// core/errors, core/models/exported.
import { writeAtomically } from "../checkpoint/atomic.ts";
import { FileBytes } from "../checkpoint/file_bytes.ts";
import { compareStateDicts, withoutWrappers } from "../checkpoint/state_dict.ts";
import { isContiguous, tensorBytes } from "../checkpoint/tensor_bytes.ts";
import { DTYPE_BYTES, memoryStorage, type Storage, type TensorData } from "../checkpoint/value.ts";
import { openZip } from "../checkpoint/zip_reader.ts";
import { zipWriter } from "../checkpoint/zip_writer.ts";
import { UserError } from "../errors.ts";
import { type Archive, type EntryStorage, openExported } from "../models/exported/archive.ts";

/** Writes `from` to `to` with these weights; `path` is the checkpoint's, for messages. */
export function writeProgram(
  from: string,
  to: string,
  given: ReadonlyMap<string, TensorData>,
  path: string,
): number {
  using archive = openExported(from);
  const expected = [...archive.weights].map(([name, { shape }]) => ({ name, shape }));
  const { tensors } = withoutWrappers(expected, given);
  compareStateDicts(expected, tensors, path);
  const written = entriesOf(archive, tensors, path);
  const file = new FileBytes(from);
  try {
    const zip = openZip(file);
    writeAtomically(to, (out) => {
      const writer = zipWriter(out);
      for (const [name, entry] of zip.entries) {
        const same: Storage = {
          byteLength: entry.size,
          read: (offset, length) => zip.read(entry, offset, length),
        };
        writer.add(name, written.get(name) ?? same);
      }
      writer.finish();
    }, { needBytes: file.size, check: (temporary) => openExported(temporary).close() });
  } finally {
    file.close();
  }
  return archive.weights.size;
}

/** The new content of each entry that holds weights. Tied ones, and views of one memory, share an entry. */
function entriesOf(
  { weights, path: program }: Archive,
  tensors: ReadonlyMap<string, TensorData>,
  path: string,
): Map<string, Storage> {
  const found = new Map<string, Uint8Array>();
  for (const [name, place] of weights) {
    const tensor = tensors.get(name)!;
    if (tensor.dtype !== place.dtype) {
      throw new UserError(
        "checkpoint",
        `${path}: ${name} is ${tensor.dtype}, and ${place.dtype} in ${program}: write the state dict (OUT.pt) instead.`,
      );
    }
    if (place.byteLength === 0) continue;
    const { entry, byteLength } = place.storage as Partial<EntryStorage> & Storage;
    if (entry === undefined) throw tooOld(program);
    let bytes = found.get(entry);
    if (!bytes) found.set(entry, bytes = place.storage.read(0, byteLength).slice());
    put(bytes, place, tensorBytes(tensor));
  }
  return new Map([...found].map(([entry, bytes]) => [entry, memoryStorage(bytes)]));
}

/** Numbers that come row by row into a tensor's place, whatever its strides. */
function put(bytes: Uint8Array, place: TensorData, values: Uint8Array): void {
  const width = DTYPE_BYTES[place.dtype], { shape, strides, offset } = place;
  if (isContiguous(place)) return bytes.set(values, offset * width);
  const index = new Array<number>(shape.length).fill(0);
  for (let from = 0, at = offset; from < values.length; from += width) {
    bytes.set(values.subarray(from, from + width), at * width);
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      at += strides[axis];
      if (++index[axis] < shape[axis]) break;
      at -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

const tooOld = (program: string) =>
  new UserError(
    "checkpoint",
    `${program}: this PyTorch wrote its weights as a pickle, in which they can't be replaced. Write the state dict (OUT.pt): ` +
      "the module takes it by load_state_dict. Or save the program with PyTorch 2.9 or later.",
  );
