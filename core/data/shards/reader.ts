// Each row of a packed shard is checked against its checksum before use.
import { crc32 } from "node:zlib";
import { join } from "../../../deps/path.ts";
import { closeFile, openForReading, pread } from "../../../ffi/libc.ts";
import { BadSample } from "../arrays/rows.ts";
import type { Reader, ReaderModule, ReaderSpec } from "../source/reader.ts";
import { numbersOf, partOf } from "../arrays/numbers.ts";
import { HEADER_BYTES, type RowLayout, type Shard, type StoredField } from "./schema.ts";

interface PackedSpec extends ReaderSpec {
  readonly folder: string;
  readonly names: readonly string[];
  /** The first sample of each shard, and the number of all, are in shared memory. */
  readonly starts: Int32Array;
  readonly input: Pick<StoredField, "shape" | "dtype">;
  readonly layout: RowLayout;
}

export function packedSpec(
  folder: string,
  shards: readonly Shard[],
  input: StoredField,
  layout: RowLayout,
): PackedSpec {
  return {
    module: packedReader,
    folder,
    names: shards.map(({ name }) => name),
    starts: startsOf(shards),
    input,
    layout,
  };
}

export function startsOf(shards: readonly Shard[]): Int32Array {
  const starts = new Int32Array(new SharedArrayBuffer(4 * (shards.length + 1)));
  shards.forEach(({ samples }, i) => starts[i + 1] = starts[i] + samples);
  return starts;
}

export const packedReader: string = import.meta.url;

export default { open: openRows } satisfies ReaderModule<PackedSpec>;

function openRows({ folder, names, starts, input, layout }: PackedSpec): Reader {
  const { rowBytes, inputBytes, targetAt, targetBytes, crcAt } = layout;
  const files = openShards(folder, names);
  const tail = new Uint8Array(crcAt + 4 - targetAt), tailView = new DataView(tail.buffer);
  const readInto = (index: number, into: Uint8Array, target: Uint8Array) => {
    const shard = partOf(starts, index);
    const at = HEADER_BYTES + (index - starts[shard]) * rowBytes;
    files.read(shard, into, at);
    files.read(shard, tail, at + targetAt);
    const wanted = tailView.getUint32(crcAt - targetAt, true);
    target.set(targetBytes === tail.length ? tail : tail.subarray(0, targetBytes));
    if (crc32(target, crc32(into)) !== wanted) throw damagedSample(files.path(shard));
  };
  let row: Uint8Array | null = null;
  return {
    read(index, target) {
      readInto(index, row ??= new Uint8Array(inputBytes), target);
      return { data: numbersOf(input.dtype, row), shape: input.shape };
    },
    readInto,
    close: files.close,
  };
}

export const damagedSample = (path: string): BadSample =>
  new BadSample(
    path,
    "is damaged: its checksum is wrong (delete the shard and run the same pack command again, and it is written again)",
  );

const MOST_OPEN = 256;

export function openShards(folder: string, names: readonly string[]) {
  const open = new Map<number, number>(); // in the order of their opening
  const path = (shard: number) => join(folder, names[shard]);
  const descriptorOf = (shard: number): number => {
    const known = open.get(shard);
    if (known !== undefined) return known;
    if (open.size >= MOST_OPEN) {
      const [[oldest, descriptor]] = open;
      closeFile(descriptor);
      open.delete(oldest);
    }
    const descriptor = openForReading(path(shard));
    if (descriptor < 0) throw new BadSample(path(shard), `can't be opened (system error ${-descriptor})`);
    open.set(shard, descriptor);
    return descriptor;
  };
  return {
    path,
    read(shard: number, into: Uint8Array, at: number): void {
      const count = pread(descriptorOf(shard), into, at);
      if (count === into.length) return;
      throw new BadSample(
        path(shard),
        count < 0
          ? `can't be read (system error ${-count})`
          : `is cut off: it ends before byte ${at + into.length}`,
      );
    },
    close(): void {
      for (const descriptor of open.values()) closeFile(descriptor);
      open.clear();
    },
  };
}
