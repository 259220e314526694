// npz arrays are written uncompressed, so that they can be read in place, and as they come, so that memory
// need not hold them.
import { dirname } from "../../../deps/path.ts";
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import { remove, syncFolder, temporaryFor } from "../../base/atomic.ts";
import { zipWriter } from "../../checkpoint/zip_writer.ts";
import { UserError } from "../../base/errors.ts";
import type { Column } from "../arrays/table.ts";
import { checkFreeMemory } from "../../base/memory.ts";
import { checkDisk, fileSizeOf, makeFolder, writing } from "../../base/new_file.ts";
import { inputOf, rowLayoutOf, type StoredField, targetOf } from "../shards/schema.ts";
import type { Packing } from "../shards/samples.ts";
import type { Progress } from "../../base/progress.ts";
import { npyHeader } from "../arrays/npy.ts";
import { bytesOf } from "../arrays/numbers.ts";

interface NpyArray {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: DType;
  pieces(): Iterable<Uint8Array>;
}

export interface WrittenArchive {
  readonly arrays: readonly { readonly name: string; readonly shape: readonly number[] }[];
  readonly bytes: number;
}

export function writeColumns(path: string, columns: readonly Column[]): WrittenArchive {
  const size = ({ shape, dtype }: Column) =>
    shape.reduce((product, size) => product * size, dtypeBytes(dtype));
  const largest = columns.reduce((a, b) => size(a) >= size(b) ? a : b);
  checkFreeMemory(
    `"${largest.name}"`,
    2 * size(largest),
    null,
    "Leave it out: name the others with --features.",
  );
  return writeArrays(
    path,
    columns.map((column) => ({
      ...column,
      *pieces() {
        yield bytesOf(column.read());
      },
    })),
  );
}

/** x and y are to train with, x_val and y_val to validate with. */
export function writeSamples(
  path: string,
  packing: Packing,
  progress: (at: Progress) => void,
): WrittenArchive {
  const { schema: { input, target }, samples, val } = packing;
  const sets = [["", 0, samples - val], ["_val", samples - val, samples]] as const;
  const arrays = sets.filter(([, first, end]) => end > first)
    .flatMap(([ending, first, end]) => setOf(packing, input, target, ending, first, end, progress));
  return writeArrays(path, arrays);
}

/** Targets pass with the inputs, and are kept until their turn. */
function setOf(
  { make, schema, samples }: Packing,
  input: StoredField,
  target: StoredField,
  ending: string,
  first: number,
  end: number,
  progress: (at: Progress) => void,
): NpyArray[] {
  const layout = rowLayoutOf(schema);
  const count = end - first;
  checkFreeMemory("What is predicted", count * layout.targetBytes, count, "Pack it into a folder instead.");
  const targets = new Uint8Array(count * layout.targetBytes);
  const array = (name: string, { shape, dtype }: StoredField, pieces: NpyArray["pieces"]) => ({
    name: name + ending,
    shape: [count, ...shape],
    dtype,
    pieces,
  });
  return [
    array("x", input, function* () {
      for (let at = first; at < end; at += AT_ONCE) {
        const some = Math.min(AT_ONCE, end - at);
        const rows = new Uint8Array(some * layout.rowBytes);
        make(at, some, rows);
        for (let i = 0; i < some; i++) {
          targets.set(targetOf(rows, layout, i), (at - first + i) * layout.targetBytes);
          yield inputOf(rows, layout, i);
        }
        progress({ done: at + some, kept: 0, total: samples });
      }
    }),
    array("y", target, function* () {
      yield targets;
    }),
  ];
}

const AT_ONCE = 64;

export function writeArrays(path: string, arrays: readonly NpyArray[]): WrittenArchive {
  const contents = arrays.map((array) => ({ name: `${array.name}.npy`, ...contentOf(array) }));
  const bytes = contents.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (fileSizeOf(path) >= 0) {
    throw new UserError("usage", `${path} exists already: name another file, or delete it first.`);
  }
  checkDisk(`Writing ${path}`, dirname(path), bytes, "Free some space, or name a file on another disk.");
  makeFolder(dirname(path));
  const temporary = temporaryFor(path);
  try {
    using file = writing(path, () => Deno.openSync(temporary, { write: true, createNew: true }));
    const zip = zipWriter(file);
    for (const content of contents) writing(path, () => zip.add(content.name, content));
    writing(path, () => {
      zip.finish();
      file.syncSync();
      Deno.renameSync(temporary, path);
    });
    syncFolder(dirname(path));
  } catch (error) {
    remove(temporary);
    throw error;
  }
  return { arrays, bytes };
}

function contentOf({ shape, dtype, pieces }: NpyArray) {
  const header = npyHeader(shape, dtype);
  let rest: Uint8Array = header, at = 0;
  let more: Iterator<Uint8Array> | null = null;
  return {
    byteLength: header.length + shape.reduce((product, size) => product * size, dtypeBytes(dtype)),
    read(offset: number, length: number): Uint8Array<ArrayBuffer> {
      if (offset !== at) throw new Error("internal: an array is written out of order.");
      const chunk = new Uint8Array(length);
      for (let filled = 0; filled < length;) {
        if (rest.length === 0) rest = (more ??= pieces()[Symbol.iterator]()).next().value!;
        const part = rest.subarray(0, length - filled);
        chunk.set(part, filled);
        rest = rest.subarray(part.length);
        filled += part.length;
      }
      at += length;
      return chunk;
    },
  };
}
