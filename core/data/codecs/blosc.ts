// Blosc's frames and the streams in them, unpacked into exactly the room that is there. All lengths in them are
// checked against both ends, so a damaged frame costs no memory.
import { openInflate, openLz4, openZstd } from "../../../ffi/codecs.ts";
import type { ChunkBytes } from "./bytes.ts";

/** True where the stream fills `into` exactly. */
type Unpack = (stream: ChunkBytes, into: ChunkBytes) => boolean;

export const unpackZstd: Unpack = (stream, into) => openZstd()(stream, into);

/** A stream of nothing is no buffer that a library could be given. */
export const unpackLz4: Unpack = (stream, into) => {
  const native = stream.length > 0 && into.length > 0 ? openLz4() : null;
  return native ? native(stream, into) : unpackLz4Locally(stream, into);
};

export const unpackLz4Locally = (from: Uint8Array, into: Uint8Array): boolean =>
  lz4Block(from, into, 0) === into.length;

/** Where the block ends that begins at `begin`, and may point back before it; -1 where it is damaged. */
export function lz4Block(from: Uint8Array, into: Uint8Array, begin: number): number {
  const end = from.length, full = into.length;
  let at = 0, out = begin;
  while (at < end) {
    const token = from[at++];
    let literals = token >> 4;
    if (literals === 15) {
      for (let more = 255; more === 255 && at < end; literals += more) more = from[at++];
    }
    if (literals > end - at || literals > full - out) return -1;
    for (let i = 0; i < literals; i++) into[out + i] = from[at + i];
    at += literals;
    out += literals;
    if (at === end) return out; // the last part has literals alone
    if (end - at < 2) return -1;
    const distance = from[at] | from[at + 1] << 8;
    at += 2;
    let length = token & 15;
    if (length === 15) {
      for (let more = 255; more === 255 && at < end; length += more) more = from[at++];
    }
    length += 4;
    if (distance === 0 || distance > out || length > full - out) return -1;
    copyBack(into, out, distance, length);
    out += length;
  }
  return -1;
}

const FAR = 8191;

export function unpackBloscLz(from: Uint8Array, into: Uint8Array): boolean {
  const end = from.length, full = into.length;
  let at = 1, out = 0, control = from[0] & 31;
  while (at <= end) {
    if (control < 32) {
      const literals = control + 1;
      if (literals > end - at || literals > full - out) return false;
      for (let i = 0; i < literals; i++) into[out + i] = from[at + i];
      at += literals;
      out += literals;
    } else {
      let length = (control >> 5) - 1;
      if (length === 6) {
        for (let more = 255; more === 255 && at < end; length += more) more = from[at++];
      }
      length += 3;
      if (at >= end) return false;
      const high = (control & 31) << 8, low = from[at++];
      let distance = high + low + 1;
      if (low === 255 && high === 31 << 8) {
        if (end - at < 2) return false;
        distance = (from[at] << 8) + from[at + 1] + FAR + 1;
        at += 2;
      }
      if (distance > out || length > full - out) return false;
      copyBack(into, out, distance, length);
      out += length;
    }
    if (at >= end) break;
    control = from[at++];
  }
  return out === full;
}

/** Below this many bytes a loop is faster than a call. */
const SHORT = 32;

export function copyBack(bytes: Uint8Array, at: number, distance: number, length: number): void {
  const from = at - distance;
  if (length > SHORT && distance >= length) bytes.copyWithin(at, from, from + length);
  else for (let i = 0; i < length; i++) bytes[at + i] = bytes[from + i];
}

const HEADER_BYTES = 16, MOST_STREAMS = 16, LEAST_STREAM = 128;
const SHUFFLED = 1, COPIED = 2, BITS_SHUFFLED = 4, ONE_STREAM = 16;
const NAMES = ["blosclz", "lz4", "snappy", "zlib", "zstd"];

/** The result says what is wrong with the frame, if anything. */
export function openBlosc(): (frame: ChunkBytes, into: ChunkBytes) => string | null {
  const streams: (Unpack | undefined)[] = [unpackBloscLz, unpackLz4, undefined, openInflate(), unpackZstd];
  let spare: ChunkBytes = new Uint8Array(0);
  return (frame, into) => {
    if (frame.length < HEADER_BYTES) return "is cut off in the header of Blosc";
    const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
    const flags = frame[2], width = frame[3];
    const bytes = view.getUint32(4, true), most = view.getUint32(8, true), packed = view.getUint32(12, true);
    if (bytes !== into.length) return `unpacks to ${bytes} bytes, and ${into.length} belong there`;
    if (packed > frame.length) return `is cut off: Blosc's header says ${packed} bytes`;
    if (flags & COPIED) {
      if (frame.length < HEADER_BYTES + bytes) return "is cut off";
      into.set(frame.subarray(HEADER_BYTES, HEADER_BYTES + bytes));
      return null;
    }
    const code = flags >> 5, unpack = streams[code];
    if (!unpack) {
      return `is packed by ${NAMES[code] ?? `method ${code}`} inside Blosc, which can't be read here`;
    }
    const blocks = most === 0 ? 0 : Math.ceil(bytes / most);
    if (blocks === 0 || width === 0 || HEADER_BYTES + 4 * blocks > packed) {
      return "has a damaged header of Blosc";
    }
    const byBytes = (flags & SHUFFLED) !== 0 && width > 1, byBits = !byBytes && (flags & BITS_SHUFFLED) !== 0;
    if (spare.length < most && (byBytes || byBits)) spare = new Uint8Array(Math.min(most, bytes));
    for (let block = 0; block < blocks; block++) {
      const target = into.subarray(block * most, Math.min((block + 1) * most, bytes));
      const out = byBytes || byBits && target.length >= width ? spare.subarray(0, target.length) : target;
      const split = !(flags & ONE_STREAM) && width <= MOST_STREAMS && most / width >= LEAST_STREAM &&
        target.length === most;
      let at = view.getUint32(HEADER_BYTES + 4 * block, true);
      const parts = split ? width : 1, each = Math.floor(target.length / parts);
      for (let part = 0; part < parts; part++) {
        if (at + 4 > packed) return "is damaged";
        const length = view.getUint32(at, true), room = out.subarray(part * each, (part + 1) * each);
        at += 4;
        if (length > packed - at) return "is damaged";
        const stream = frame.subarray(at, at + length);
        if (length === each) room.set(stream);
        else if (!unpack(stream, room)) return "can't be unpacked";
        at += length;
      }
      if (byBytes) unshuffle(out, target, width);
      else if (out !== target) unshuffleBits(out, target, width);
    }
    return null;
  };
}

/** Rows of bits come by byte and bit of an element; Blosc leaves blocks alone that have no multiple of 8. */
function unshuffleBits(from: Uint8Array, to: Uint8Array, width: number): void {
  const count = Math.floor(from.length / width), row = count / 8;
  if (count % 8 !== 0) return to.set(from);
  for (let byte = 0; byte < width; byte++) {
    for (let i = 0, at = byte; i < row; i++, at += 8 * width) {
      const first = byte * 8 * row + i, fifth = first + 4 * row;
      let high = from[fifth + 3 * row] << 24 | from[fifth + 2 * row] << 16 | from[fifth + row] << 8 |
        from[fifth];
      let low = from[first + 3 * row] << 24 | from[first + 2 * row] << 16 | from[first + row] << 8 |
        from[first];
      // Eight bytes of eight bits change rows and columns: first in squares of two, then of four, then of eight.
      high = swapBits(swapBits(high, 7, 0x00aa00aa), 14, 0x0000cccc);
      low = swapBits(swapBits(low, 7, 0x00aa00aa), 14, 0x0000cccc);
      const last = high & 0xf0f0f0f0 | low >>> 4 & 0x0f0f0f0f,
        begin = high << 4 & 0xf0f0f0f0 | low & 0x0f0f0f0f;
      to[at] = begin;
      to[at + width] = begin >>> 8;
      to[at + 2 * width] = begin >>> 16;
      to[at + 3 * width] = begin >>> 24;
      to[at + 4 * width] = last;
      to[at + 5 * width] = last >>> 8;
      to[at + 6 * width] = last >>> 16;
      to[at + 7 * width] = last >>> 24;
    }
  }
  to.set(from.subarray(count * width), count * width);
}

/** Bits of the mask change places with those that stand `by` above them. */
function swapBits(word: number, by: number, mask: number): number {
  const differ = (word ^ word >>> by) & mask;
  return word ^ differ ^ differ << by;
}

/** Byte by byte, all first ones before all second ones: bytes beyond whole elements stay where they are. */
export function unshuffle(from: Uint8Array, to: Uint8Array, width: number): void {
  const count = Math.floor(from.length / width);
  if (width === 4 && count % 4 === 0 && from.byteOffset % 4 === 0 && to.byteOffset % 4 === 0) {
    unshuffleWords(from, to, count / 4);
  } else {
    for (let byte = 0; byte < width; byte++) {
      for (let i = 0, at = byte, source = byte * count; i < count; i++, at += width) {
        to[at] = from[source + i];
      }
    }
  }
  for (let i = count * width; i < from.length; i++) to[i] = from[i];
}

function unshuffleWords(from: Uint8Array, to: Uint8Array, quarter: number): void {
  const bytes = new Uint32Array(from.buffer, from.byteOffset, 4 * quarter);
  const words = new Uint32Array(to.buffer, to.byteOffset, 4 * quarter);
  for (let i = 0, at = 0; i < quarter; i++, at += 4) {
    const a = bytes[i], b = bytes[i + quarter], c = bytes[i + 2 * quarter], d = bytes[i + 3 * quarter];
    words[at] = a & 0xff | (b & 0xff) << 8 | (c & 0xff) << 16 | d << 24;
    words[at + 1] = a >>> 8 & 0xff | b & 0xff00 | (c & 0xff00) << 8 | (d & 0xff00) << 16;
    words[at + 2] = a >>> 16 & 0xff | b >>> 8 & 0xff00 | c & 0xff0000 | (d & 0xff0000) << 8;
    words[at + 3] = a >>> 24 | b >>> 16 & 0xff00 | c >>> 8 & 0xff0000 | d & 0xff000000;
  }
}
