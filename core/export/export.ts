// `export` writes a checkpoint's weights into a copy of an exported program.
import { writeAtomically } from "../base/atomic.ts";
import { FileBytes } from "../base/file_bytes.ts";
import { compareStateDicts, withoutWrappers } from "../checkpoint/state_dict.ts";
import {
  DTYPE_BYTES,
  isContiguous,
  memoryStorage,
  type Storage,
  tensorBytes,
  TensorData,
} from "../checkpoint/value.ts";
import { openZip } from "../base/zip.ts";
import { zipWriter } from "../checkpoint/zip_writer.ts";
import { UserError } from "../base/errors.ts";
import { type Archive, type EntryStorage, isGraph, openExported } from "../models/exported/archive.ts";

/** Messages name `path`, the checkpoint's. */
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
        const content = isGraph(name) ? memoryStorage(withOutputs(zip.read(entry))) : zip.content(entry);
        writer.add(name, written.get(name) ?? content);
      }
      writer.finish();
    }, { needBytes: file.size, check: (temporary) => openExported(temporary).close() });
  } finally {
    file.close();
  }
  return archive.weights.size;
}

/** Tied weights and views share an entry. */
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

// Regions of a graph (torch.no_grad, torch.autocast) that give nothing, such as those that move a buffer. PyTorch
// writes them without outputs, and torch.export.load refuses what it wrote: "Node.meta wrap_with_set_grad_enabled
// is missing val". An output that is None is taken.

const REGION =
  /"target":\s*"torch\.ops\.higher_order\.wrap_with_(?:set_grad_enabled|autocast)",\s*"inputs":\s*(?=\[)/g;
const NO_OUTPUTS = /,\s*"outputs":\s*\[/y;

/**
 * The graph's JSON, in which each such region has an output. All else stays as it is written, since JavaScript
 * has no 64-bit whole numbers.
 */
function withOutputs(json: Uint8Array): Uint8Array {
  const text = new TextDecoder().decode(json), places: number[] = [];
  for (const { index, 0: { length } } of text.matchAll(REGION)) {
    NO_OUTPUTS.lastIndex = endOfList(text, index + length);
    if (NO_OUTPUTS.test(text) && text[NO_OUTPUTS.lastIndex] === "]") places.push(NO_OUTPUTS.lastIndex);
  }
  if (places.length === 0) return json;
  places.sort((a, b) => a - b);
  const parts = [0, ...places].map((from, i) => text.slice(from, places[i]));
  return new TextEncoder().encode(parts.join('{"as_none": true}'));
}

/** The place behind the list that begins at `from`. */
function endOfList(text: string, from: number): number {
  const mark = /"(?:[^"\\]|\\.)*"|[[\]]/gs;
  mark.lastIndex = from;
  for (let depth = 0;;) {
    const found = mark.exec(text);
    if (!found) return text.length;
    if (found[0] === "[") depth++;
    else if (found[0] === "]" && --depth === 0) return mark.lastIndex;
  }
}
