// PNG becomes RGB: every colour type, depth, palette and interlacing. Up to 8 bits a value the bits are Pillow's.
import { Buffer } from "node:buffer";
import { crc32, inflateSync } from "node:zlib";
import { openInflate } from "../../../ffi/codecs.ts";
import { BadSample } from "../arrays/rows.ts";
import type { Stored } from "../augment/planes.ts";
import { big32, cutOff, has, type Header, openReusedBuffer, type ReusedBuffer } from "./header.ts";

const GREY = 0, COLOUR = 2, PALETTE = 3, GREY_ALPHA = 4, COLOUR_ALPHA = 6;
const CHANNELS: Readonly<Record<number, number>> = {
  [GREY]: 1,
  [COLOUR]: 3,
  [PALETTE]: 1,
  [GREY_ALPHA]: 2,
  [COLOUR_ALPHA]: 4,
};
const DEPTHS: Readonly<Record<number, readonly number[]>> = {
  [GREY]: [1, 2, 4, 8, 16],
  [COLOUR]: [8, 16],
  [PALETTE]: [1, 2, 4, 8],
  [GREY_ALPHA]: [8, 16],
  [COLOUR_ALPHA]: [8, 16],
};

interface Picture {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly type: number;
  readonly bits: number;
}

const PASSES = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

/** It gives the high byte of 16 bits, or both where they are wanted `deep`, and drops alpha. */
export function openPng(
  buffer: ReusedBuffer,
  deep: boolean,
): (file: Uint8Array<ArrayBuffer>, header: Header) => Stored {
  const unpacked = openReusedBuffer();
  return (file, header) => {
    const { picture, palette, lines, pitch } = linesOf(file, header, unpacked);
    const { width, height, depth, type } = picture, shape = [3, height, width];
    if (depth < 8 || type === PALETTE) {
      const data = buffer(3 * width * height);
      expand(lines, pitch, picture, type === PALETTE ? palette : greys(depth), data);
      return { data, shape, strides: [1, 3 * width, 3] };
    }
    if (depth === 16 && deep) {
      const pixel = picture.bits / 16, data = wordsOf(lines, pitch, 2 * pixel * width, height);
      return { data, shape, strides: [type & COLOUR ? 1 : 0, pixel * width, pixel] };
    }
    const value = depth / 8; // values are in place already
    return { data: lines, shape, strides: [type & COLOUR ? value : 0, pitch, picture.bits / 8] };
  };
}

/** It gives the number that is stored of each pixel, row by row: a grey value, or a place in the palette. */
export function openPngNumbers(): (file: Uint8Array<ArrayBuffer>, header: Header, into: Int32Array) => void {
  const unpacked = openReusedBuffer();
  return (file, header, into) => {
    const { picture, lines, pitch } = linesOf(file, header, unpacked);
    const { width, height, depth, type } = picture;
    if (type !== GREY && type !== PALETTE) {
      throw new BadSample(
        "",
        "has colours, and a label image has the number of a class for each pixel: grey, or a palette",
      );
    }
    for (let y = 0, to = 0; y < height; y++) {
      const line = y * pitch;
      for (let x = 0; x < width; x++) {
        into[to++] = depth === 16
          ? lines[line + 2 * x] << 8 | lines[line + 2 * x + 1]
          : bitsAt(lines, line, x, depth);
      }
    }
  };
}

function linesOf(file: Uint8Array<ArrayBuffer>, { width, height }: Header, buffer: ReusedBuffer) {
  const depth = file[24], type = file[25], interlaced = file[28];
  if (!DEPTHS[type]?.includes(depth) || interlaced > 1) {
    throw damaged(`colour type ${type} with ${depth} bits is none that there is`);
  }
  const picture = { width, height, depth, type, bits: depth * CHANNELS[type] };
  const { data, palette } = chunksOf(file);
  const size = interlaced ? sizeOfPasses(picture) : (1 + bytesOf(width, picture)) * height;
  const rows = buffer(size).subarray(0, size);
  unpack(data, rows);
  const [lines, pitch] = interlaced
    ? [joinPasses(rows, picture), bytesOf(width, picture)]
    : [unfilter(rows, width, height, picture).subarray(1), 1 + bytesOf(width, picture)];
  return { picture, palette, lines, pitch };
}

const damaged = (why: string) => new BadSample("", `is a damaged PNG: ${why}`);

const bytesOf = (width: number, { bits }: Picture) => Math.ceil(width * bits / 8);

function chunksOf(file: Uint8Array<ArrayBuffer>) {
  const data: Uint8Array<ArrayBuffer>[] = [];
  let palette = new Uint8Array(0);
  for (let at = 8; at + 12 <= file.length;) {
    const length = big32(file, at);
    if (has(file, at + 4, "IEND")) break;
    const isData = has(file, at + 4, "IDAT");
    const content = file.subarray(at + 8, at + 8 + length);
    if (isData) data.push(content);
    else if (data.length > 0 && !isData) break;
    else if (has(file, at + 4, "PLTE")) palette = content.slice();
    if (at + 12 + length > file.length) break; // zlib then finds what is missing
    if (!isData && crc32(file.subarray(at + 4, at + 8 + length)) !== big32(file, at + 8 + length)) {
      throw damaged(`the checksum of its part at byte ${at} does not fit`);
    }
    at += 12 + length;
  }
  if (data.length === 0) throw cutOff(file, "before its picture begins");
  return { data, palette };
}

/** A few bytes can unpack to gigabytes, so the picture's size is the limit. */
function unpack(parts: Uint8Array<ArrayBuffer>[], rows: Uint8Array<ArrayBuffer>): void {
  const data = parts.length === 1 ? parts[0] : Buffer.concat(parts);
  if (!openInflate()(data, rows)) throw whyNot(data, rows.length);
}

function whyNot(data: Uint8Array, size: number): BadSample {
  try {
    inflateSync(data, { maxOutputLength: size });
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "Z_BUF_ERROR") return new BadSample("", "is cut off before the end of its picture");
    return damaged(
      code === "ERR_BUFFER_TOO_LARGE" ? "it holds more than its picture" : "its data can't be unpacked",
    );
  }
  return damaged("it holds less than its picture");
}

/** It works in place; each row begins with a byte that names its filter. */
function unfilter(rows: Uint8Array, width: number, height: number, picture: Picture): Uint8Array {
  const length = bytesOf(width, picture), left = Math.max(1, picture.bits >> 3);
  for (let y = 0; y < height; y++) {
    const from = y * (length + 1) + 1, to = from + length, above = length + 1;
    const filter = rows[from - 1];
    if (filter === 0) continue;
    if (filter > 4) throw damaged(`row ${y} has a filter ${filter} that there is not`);
    // Zeros stand before the first pixel and above the first row.
    if (filter === 1) {
      for (let i = from + left; i < to; i++) rows[i] += rows[i - left];
    } else if (filter === 2) {
      if (y > 0) { for (let i = from; i < to; i++) rows[i] += rows[i - above]; }
    } else {
      for (let i = from; i < to; i++) {
        const a = i < from + left ? 0 : rows[i - left], b = y === 0 ? 0 : rows[i - above];
        const c = i < from + left || y === 0 ? 0 : rows[i - above - left];
        rows[i] += filter === 3 ? (a + b) >> 1 : paeth(a, b, c);
      }
    }
  }
  return rows;
}

function paeth(a: number, b: number, c: number): number {
  const toA = Math.abs(b - c), toB = Math.abs(a - c), toC = Math.abs(a + b - 2 * c);
  return toA <= toB && toA <= toC ? a : toB <= toC ? b : c;
}

function passesOf({ width, height }: Picture) {
  return PASSES.map(([x, y, dx, dy]) => ({
    x,
    y,
    dx,
    dy,
    width: Math.ceil((width - x) / dx),
    height: Math.ceil((height - y) / dy),
  })).filter((pass) => pass.width > 0 && pass.height > 0);
}

const sizeOfPasses = (picture: Picture): number =>
  passesOf(picture).reduce((sum, { width, height }) => sum + height * (1 + bytesOf(width, picture)), 0);

/** The passes of an interlaced picture become rows without filters. */
function joinPasses(rows: Uint8Array, picture: Picture): Uint8Array {
  const { height, width, bits } = picture;
  const pitch = bytesOf(width, picture), size = bits >> 3;
  const joined = new Uint8Array(pitch * height);
  let start = 0;
  for (const pass of passesOf(picture)) {
    const length = bytesOf(pass.width, picture) + 1;
    const part = unfilter(
      rows.subarray(start, start += length * pass.height),
      pass.width,
      pass.height,
      picture,
    );
    for (let y = 0; y < pass.height; y++) {
      const from = y * length + 1, to = (pass.y + y * pass.dy) * pitch;
      for (let x = 0; x < pass.width; x++) {
        const at = pass.x + x * pass.dx;
        if (size > 0) {
          for (let k = 0; k < size; k++) joined[to + at * size + k] = part[from + x * size + k];
        } else joined[to + ((at * bits) >> 3)] |= bitsAt(part, from, x, bits) << shiftOf(at, bits);
      }
    }
  }
  return joined;
}

const shiftOf = (x: number, bits: number) => 8 - bits - ((x * bits) & 7);
const bitsAt = (line: Uint8Array, from: number, x: number, bits: number) =>
  (line[from + ((x * bits) >> 3)] >> shiftOf(x, bits)) & ((1 << bits) - 1);

/** A PNG's words are big-endian, and its lines begin at any byte. */
function wordsOf(lines: Uint8Array, pitch: number, bytes: number, height: number): Uint16Array {
  const words = new Uint16Array(bytes / 2 * height);
  for (let y = 0, to = 0; y < height; y++) {
    const end = y * pitch + bytes;
    for (let at = y * pitch; at < end; at += 2) words[to++] = lines[at] << 8 | lines[at + 1];
  }
  return words;
}

function greys(depth: number): Uint8Array {
  const most = (1 << depth) - 1;
  return Uint8Array.from({ length: 3 * (most + 1) }, (_, i) => Math.floor(i / 3) * 255 / most);
}

function expand(
  lines: Uint8Array,
  pitch: number,
  picture: Picture,
  colours: Uint8Array,
  into: Uint8Array,
): void {
  const { width, height, depth } = picture;
  for (let y = 0, to = 0; y < height; y++) {
    for (let x = 0; x < width; x++, to += 3) {
      const value = bitsAt(lines, y * pitch, x, depth);
      for (let c = 0; c < 3; c++) into[to + c] = colours[3 * value + c]; // black beyond the palette
    }
  }
}
