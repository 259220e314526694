import { crc32 } from "node:zlib";
import { headerOf } from "../images/header.ts";
import { openImageDecoder } from "../images/reader.ts";
import type { Reader, ReaderModule, ReaderSpec } from "../source/reader.ts";
import type { Shard } from "./schema.ts";
import { damagedSample, openShards, startsOf } from "./reader.ts";
import { partOf } from "../arrays/numbers.ts";
import { naming } from "../images/listing.ts";

interface EncodedSpec extends ReaderSpec {
  readonly folder: string;
  readonly names: readonly string[];
  /** Shared memory has each shard's length and first sample, and then the number of all samples. */
  readonly bytes: Float64Array;
  readonly starts: Int32Array;
  readonly targetBytes: number;
  readonly turbo: string | null;
  readonly deep: boolean;
}

export function encodedSpec(
  folder: string,
  shards: readonly Shard[],
  targetBytes: number,
  turbo: string | null,
  deep: boolean,
): EncodedSpec {
  const bytes = new Float64Array(new SharedArrayBuffer(8 * shards.length));
  shards.forEach((shard, i) => bytes[i] = shard.bytes);
  const names = shards.map(({ name }) => name);
  return { module: encodedReader, folder, names, bytes, starts: startsOf(shards), targetBytes, turbo, deep };
}

export const encodedReader: string = import.meta.url;

export default { open: openEncoded } satisfies ReaderModule<EncodedSpec>;

function openEncoded(spec: EncodedSpec): Reader {
  const decode = openImageDecoder(spec.turbo, spec.deep);
  const files = openRecords(spec);
  return {
    read(index, target) {
      const { path, image, target: stored } = files.record(index);
      target.set(stored);
      return naming(path, () => decode(image));
    },
    close() {
      files.close();
    },
  };
}

export function encodedSize(
  spec: EncodedSpec,
  index: number,
): { path: string; width: number; height: number } {
  const files = openRecords(spec);
  try {
    const { path, image } = files.record(index);
    return naming(path, () => ({ path, ...headerOf(image) }));
  } finally {
    files.close();
  }
}

/** No image file is as large: such a length is damage. */
const MOST_BYTES = 2 ** 30;

function openRecords({ folder, names, bytes, starts, targetBytes }: EncodedSpec) {
  const files = openShards(folder, names);
  const ends = new BigUint64Array(2), endsBytes = new Uint8Array(ends.buffer);
  let buffer = new Uint8Array(1 << 16);
  return {
    /** Image and target are valid until the next call. */
    record(index: number): { path: string; image: Uint8Array<ArrayBuffer>; target: Uint8Array } {
      const shard = partOf(starts, index), path = files.path(shard);
      const table = bytes[shard] - 8 * (starts[shard + 1] - starts[shard] + 1);
      files.read(shard, endsBytes, table + 8 * (index - starts[shard]));
      const [from, to] = [Number(ends[0]), Number(ends[1])];
      const length = to - from;
      if (!(length >= targetBytes + 4 && length < MOST_BYTES && to <= table)) throw damagedSample(path);
      if (buffer.length < length) buffer = new Uint8Array(2 * length);
      const record = buffer.subarray(0, length);
      files.read(shard, record, from);
      const image = record.subarray(0, length - targetBytes - 4);
      const target = record.subarray(image.length, image.length + targetBytes);
      const sum = new DataView(record.buffer, length - 4, 4).getUint32(0, true);
      if (crc32(target, crc32(image)) !== sum) throw damagedSample(path);
      return { path, image, target };
    },
    close: files.close,
  };
}
