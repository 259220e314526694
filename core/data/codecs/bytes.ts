// Bytes as codecs take and give them, and how much any codec can make of a few.
import { gunzipSync } from "node:zlib";

export type ChunkBytes = Uint8Array<ArrayBuffer>;

/** The reason follows the place: a file and its column. */
export class Damaged extends Error {}

export function refuseDamaged(reason: string): never {
  throw new Damaged(reason);
}

/** No writer packs better than so many bytes into one. */
export const MOST_RATIO = {
  none: 1,
  packbits: 64,
  lz4: 260,
  deflate: 1040,
  lzw: 4096,
  zstd: 2 ** 17,
} as const;

export function repeat(element: Uint8Array, into: Uint8Array, at: number, bytes: number): void {
  if (bytes === 0) return;
  into.set(element, at);
  for (let done = element.length; done < bytes;) {
    const more = Math.min(done, bytes - done);
    into.copyWithin(at + done, at, at + more);
    done += more;
  }
}

const LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** `bytes` begins at a multiple of `size` in its buffer. */
export function swapBytes(bytes: Uint8Array, size: number): void {
  if (!LITTLE || size === 1) return;
  const { buffer, byteOffset, byteLength } = bytes;
  if (size === 2) {
    const words = new Uint16Array(buffer, byteOffset, byteLength / 2);
    for (let i = 0; i < words.length; i++) words[i] = words[i] << 8 | words[i] >> 8;
    return;
  }
  const words = new Uint32Array(buffer, byteOffset, byteLength / 4);
  for (let i = 0; i < words.length; i++) {
    const w = words[i];
    words[i] = w << 24 | (w & 0xff00) << 8 | w >>> 8 & 0xff00 | w >>> 24;
  }
  if (size === 4) return;
  for (let i = 0; i < words.length; i += 2) {
    const first = words[i];
    words[i] = words[i + 1];
    words[i + 1] = first;
  }
}

export const word = (bytes: Uint8Array, at: number): number =>
  (bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | bytes[at + 3] << 24) >>> 0;

export function gunzip(packed: Uint8Array, into: Uint8Array): boolean {
  try {
    const bytes = gunzipSync(packed, { maxOutputLength: into.length + 1, chunkSize: into.length + 64 });
    if (bytes.length !== into.length) return false;
    into.set(bytes);
    return true;
  } catch {
    return false;
  }
}
