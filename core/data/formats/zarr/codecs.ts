// A chunk of a Zarr array as it is stored becomes numbers in row-major order and this machine's byte order.
import { openInflate } from "../../../../ffi/codecs.ts";
import { type ChunkBytes, gunzip, swapBytes, word } from "../../codecs/bytes.ts";
import { product } from "../../arrays/numbers.ts";
import { openBlosc, unpackLz4, unpackZstd, unshuffle } from "../../codecs/blosc.ts";

export interface Codec {
  readonly id: CodecName;
  /** `shuffle` has the bytes of an element. */
  readonly width: number;
}

export interface Coding {
  /** In the order of writing. */
  readonly codecs: readonly Codec[];
  /** Dimension i of the stored chunk is this dimension of the array; null leaves them as they are. */
  readonly order: readonly number[] | null;
  readonly swapped: boolean;
}

/** It fills `into`; the result says what is wrong, if anything. */
type Unpack = (packed: ChunkBytes, into: ChunkBytes, width: number) => string | null;

const WRONG = "can't be unpacked";

const UNPACK = {
  gzip: () => (packed, into) => gunzip(packed, into) ? null : WRONG,
  zlib: () => {
    const inflate = openInflate();
    return (packed, into) => inflate(packed, into) ? null : WRONG;
  },
  zstd: () => (packed, into) => unpackZstd(packed, into) ? null : WRONG,
  lz4: () => (packed, into) => {
    if (packed.length < 4) return "is cut off";
    const bytes = word(packed, 0);
    if (bytes !== into.length) return `unpacks to ${bytes} bytes, and ${into.length} belong there`;
    return unpackLz4(packed.subarray(4), into) ? null : WRONG;
  },
  blosc: openBlosc,
  shuffle: () => (packed, into, width) => {
    if (packed.length !== into.length) return sizes(packed.length, into.length);
    unshuffle(packed, into, width);
    return null;
  },
  crc32c: null,
} satisfies Record<string, (() => Unpack) | null>;

export type CodecName = keyof typeof UNPACK;

export const CODEC_NAMES = Object.keys(UNPACK) as CodecName[];
/** A chunk has one of these at most, so the size of what that gives is known beforehand. */
export const PACKERS: readonly CodecName[] = ["gzip", "zlib", "zstd", "lz4", "blosc"];

const sizes = (found: number, expected: number) => `has ${found} bytes, and ${expected} belong there`;

export function openChunkDecoder(
  { codecs, order, swapped }: Coding,
  chunk: readonly number[],
  width: number,
): (stored: ChunkBytes, into: ChunkBytes) => string | null {
  const due = codecs.toReversed().map(({ id, width }) => ({ id, width, unpack: UNPACK[id]?.() as Unpack }));
  const rearrange = order && openRearrange(chunk, order, width);
  const spare: [ChunkBytes, ChunkBytes] = [new Uint8Array(0), new Uint8Array(0)];
  let turn = 0;
  const scratch = (bytes: number): ChunkBytes => {
    turn = 1 - turn;
    if (spare[turn].length < bytes) spare[turn] = new Uint8Array(bytes);
    return spare[turn].subarray(0, bytes);
  };
  return (stored, into) => {
    let now = stored;
    for (const [i, { id, width, unpack }] of due.entries()) {
      if (id === "crc32c") {
        const end = now.length - SUM_BYTES;
        if (end < 0 || crc32c(now.subarray(0, end)) !== word(now, end)) return "fails its checksum";
        now = now.subarray(0, end);
        continue;
      }
      // Sums that were written before this codec are still part of what it gives.
      const sums = due.slice(i + 1).filter(({ id }) => id === "crc32c").length * SUM_BYTES;
      const out = i === due.length - 1 && !rearrange ? into : scratch(into.length + sums);
      const wrong = unpack(now, out, width);
      if (wrong) return wrong;
      now = out;
    }
    if (now.length !== into.length) return sizes(now.length, into.length);
    if (rearrange) rearrange(now, into);
    else if (now !== into) into.set(now);
    if (swapped) swapBytes(into, width);
    return null;
  };
}

/** Element by element: only arrays in Fortran's order or transposed ones come here. */
function openRearrange(chunk: readonly number[], order: readonly number[], width: number) {
  const rank = chunk.length, stored = order.map((d) => chunk[d]);
  const far = chunk.map(() => 0); // the bytes between neighbours along a dimension of the array
  order.forEach((d, i) => far[d] = product(stored.slice(i + 1)) * width);
  return (from: Uint8Array, into: Uint8Array): void => {
    let to = 0;
    const visit = (d: number, at: number): void => {
      if (d < rank - 1) {
        for (let i = 0; i < chunk[d]; i++) visit(d + 1, at + i * far[d]);
        return;
      }
      for (let i = 0, source = at; i < chunk[d]; i++, source += far[d], to += width) {
        for (let byte = 0; byte < width; byte++) into[to + byte] = from[source + byte];
      }
    };
    visit(0, 0);
  };
}

const SUM_BYTES = 4, POLYNOMIAL = 0x82f63b78;

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? byte >>> 1 ^ POLYNOMIAL : byte >>> 1;
  return byte;
});

export function crc32c(bytes: Uint8Array): number {
  let sum = ~0;
  for (let i = 0; i < bytes.length; i++) sum = TABLE[(sum ^ bytes[i]) & 255] ^ sum >>> 8;
  return ~sum >>> 0;
}
