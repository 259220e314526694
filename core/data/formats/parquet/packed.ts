// A page of Parquet as it is stored becomes exactly as many bytes as its header says.
import { brotliDecompressSync } from "node:zlib";
import { snappyUncompress } from "../../../../deps/hyparquet.ts";
import type { ChunkBytes } from "../../columns/chunks.ts";
import { unpackLz4, unpackZstd } from "../zarr/blosc.ts";
import { gunzip } from "../zarr/codecs.ts";

/** True where the page fills `into` exactly. */
type Unpack = (packed: ChunkBytes, into: ChunkBytes) => boolean;

const UNPACK: Readonly<Record<string, Unpack>> = {
  UNCOMPRESSED(packed, into) {
    if (packed.length !== into.length) return false;
    into.set(packed);
    return true;
  },
  SNAPPY(packed, into) {
    try {
      snappyUncompress(packed, into);
      return true;
    } catch {
      return false;
    }
  },
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

export function unpackPage(codec: string, packed: ChunkBytes, bytes: number): ChunkBytes | null {
  if (codec === "UNCOMPRESSED") return packed.length === bytes ? packed : null;
  const into = new Uint8Array(bytes);
  return bytes === 0 || UNPACK[codec](packed, into) ? into : null;
}

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
