// A page of Parquet as it is stored becomes exactly as many bytes as its header says.
import { brotliDecompressSync } from "node:zlib";
import { type ChunkBytes, gunzip } from "../../codecs/bytes.ts";
import { copyBack, unpackLz4, unpackZstd } from "../../codecs/blosc.ts";

/** True where the page fills `into` exactly. */
type Unpack = (packed: ChunkBytes, into: ChunkBytes) => boolean;

const UNPACK: Readonly<Record<string, Unpack>> = {
  UNCOMPRESSED(packed, into) {
    if (packed.length !== into.length) return false;
    into.set(packed);
    return true;
  },
  SNAPPY: unpackSnappy,
  GZIP: gunzip,
  BROTLI(packed, into) {
    try {
      const bytes = brotliDecompressSync(packed, { maxOutputLength: into.length + 1 });
      if (bytes.length !== into.length) return false;
      into.set(bytes);
      return true;
    } catch {
      return false;
    }
  },
  ZSTD: unpackZstd,
  LZ4_RAW: unpackLz4,
  LZ4: (packed, into) => unpackHadoop(packed, into) || unpackLz4(packed, into),
};

export const isKnownCodec = (codec: string): boolean => Object.hasOwn(UNPACK, codec);

export const unpackPage = (codec: string, packed: ChunkBytes, into: ChunkBytes): boolean =>
  UNPACK[codec](packed, into);

/** The length of all comes first; then literals, and copies from what is there already. */
function unpackSnappy(from: Uint8Array, into: Uint8Array): boolean {
  const end = from.length, full = into.length;
  let at = 0, length = 0, out = 0;
  for (let shift = 0;; shift += 7) {
    if (at >= end || shift > 28) return false;
    const byte = from[at++];
    length |= (byte & 127) << shift;
    if (byte < 128) break;
  }
  if (length >>> 0 !== full) return false;
  while (at < end) {
    const tag = from[at++], kind = tag & 3;
    if (kind === 0) {
      let count = (tag >> 2) + 1;
      if (count > 60) {
        const bytes = count - 60;
        if (bytes > end - at) return false;
        count = 0;
        for (let i = 0; i < bytes; i++) count |= from[at + i] << 8 * i;
        count = (count >>> 0) + 1;
        at += bytes;
      }
      if (count > end - at || count > full - out) return false;
      if (count > SHORT) into.set(from.subarray(at, at + count), out);
      else for (let i = 0; i < count; i++) into[out + i] = from[at + i];
      at += count;
      out += count;
      continue;
    }
    let count: number, distance: number;
    if (kind === 1) {
      if (at >= end) return false;
      count = (tag >> 2 & 7) + 4;
      distance = (tag >> 5) << 8 | from[at++];
    } else {
      const bytes = kind === 2 ? 2 : 4;
      if (bytes > end - at) return false;
      count = (tag >> 2) + 1;
      distance = from[at] | from[at + 1] << 8;
      if (bytes === 4) distance = (distance | from[at + 2] << 16 | from[at + 3] << 24) >>> 0;
      at += bytes;
    }
    if (distance === 0 || distance > out || count > full - out) return false;
    copyBack(into, out, distance, count);
    out += count;
  }
  return out === full;
}

/** Below this many bytes a loop is faster than a call. */
const SHORT = 32;

/** Old writers put frames around LZ4, each with the sizes of what is unpacked and packed. */
function unpackHadoop(packed: ChunkBytes, into: ChunkBytes): boolean {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  let at = 0, out = 0;
  while (at + 8 <= packed.length) {
    const bytes = view.getUint32(at), size = view.getUint32(at + 4);
    at += 8;
    if (size > packed.length - at || bytes > into.length - out) return false;
    if (!unpackLz4(packed.subarray(at, at + size), into.subarray(out, out + bytes))) return false;
    at += size;
    out += bytes;
  }
  return at === packed.length && out === into.length;
}
