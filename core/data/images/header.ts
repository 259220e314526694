// Headers of JPEG, PNG and WebP files are checked before anything is decoded. Memory for decoding is reused.
import { formatWhole } from "../../base/format.ts";
import { BadSample } from "../arrays/rows.ts";

/** It gives at least so many bytes of any content; its earlier result may be overwritten. */
export type ReusedBuffer = (bytes: number) => Uint8Array<ArrayBuffer>;

export function openReusedBuffer(): ReusedBuffer {
  let bytes = new Uint8Array(0);
  return (wanted) => {
    if (bytes.length < wanted) bytes = new Uint8Array(Math.ceil(wanted * 1.25));
    return bytes;
  };
}

type Format = "jpeg" | "png" | "webp";

export interface Header {
  readonly format: Format;
  readonly width: number;
  readonly height: number;
  /** Its values have 16 bits. */
  readonly deep?: boolean;
}

export interface JpegHeader extends Header {
  /** 1 is grey, 3 is colour, 4 is CMYK. */
  readonly channels: number;
  readonly scan: number;
  readonly again: boolean;
}

/** Pillow takes larger pictures for an attack, or a mistake. */
const MOST_PIXELS = 178_956_970;

/** The bytes decide on the format, not the file's name. */
export function headerOf(file: Uint8Array): Header {
  const header = file[0] === 0xff && file[1] === 0xd8
    ? jpegHeader(file)
    : has(file, 0, "\x89PNG\r\n\x1a\n")
    ? pngHeader(file)
    : has(file, 0, "RIFF") && has(file, 8, "WEBP")
    ? webpHeader(file)
    : unknown(file);
  const { width, height } = header;
  if (width === 0 || height === 0) throw new BadSample("", `has a size of ${width} x ${height}`);
  if (width * height > MOST_PIXELS) {
    throw new BadSample("", `would be ${width} x ${height} pixels, and the most is ${MOST_PIXELS}`);
  }
  return header;
}

function jpegHeader(file: Uint8Array): JpegHeader {
  let size: { width: number; height: number; channels: number } | null = null, progressive = false;
  for (let at = 2; at + 3 < file.length;) {
    if (file[at] !== 0xff) {
      at++; // what lies between segments is passed over, as libjpeg does
      continue;
    }
    const marker = file[at + 1];
    if (marker === 0xff || marker === 0 || marker === 1 || (marker >= 0xd0 && marker <= 0xd8)) {
      at += marker === 0xff ? 1 : 2; // fill bytes and markers without a segment
      continue;
    }
    if (marker === 0xd9) break;
    if (marker === 0xda) {
      if (size) {
        return { format: "jpeg", ...size, scan: at, again: progressive || file[at + 4] < size.channels };
      }
      throw new BadSample("", "is a damaged JPEG: its picture begins before its size is given");
    }
    if (marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc) {
      if (at + 9 >= file.length) break;
      if (file[at + 4] !== 8) {
        throw new BadSample("", `is a JPEG of ${file[at + 4]} bits a value, and 8 are what can be read`);
      }
      progressive = (marker & 3) === 2;
      size = { height: big16(file, at + 5), width: big16(file, at + 7), channels: file[at + 9] };
    }
    at += 2 + big16(file, at + 2);
  }
  throw cutOff(file, "before its picture begins");
}

/** Programs write about ten scans. More may go over fewer pixels, so that decoding takes a few seconds. */
const FREE_SCANS = 24, MOST_WORK = FREE_SCANS * 2 ** 24;

/** A file of a few kilobytes may have thousands of scans, which take minutes. */
export function refuseScans(file: Uint8Array, { width, height, scan }: JpegHeader): void {
  const most = Math.max(FREE_SCANS, Math.floor(MOST_WORK / (width * height)));
  let scans = 0;
  for (let at = scan; (at = file.indexOf(0xff, at)) >= 0 && at + 3 < file.length;) {
    const marker = file[at + 1];
    if (marker === 0xd9) break;
    if (marker === 0xda && ++scans > most) {
      throw new BadSample(
        "",
        `has more than ${most} scans of ${width} x ${height} pixels, which is an attack`,
      );
    }
    // 0, 0xff and restart markers continue the data; other segments have a length.
    const plain = marker === 0 || marker === 0xff || marker === 1 || (marker >= 0xd0 && marker <= 0xd8);
    at += marker === 0xff ? 1 : plain ? 2 : 2 + big16(file, at + 2);
  }
}

function pngHeader(file: Uint8Array): Header {
  if (file.length < 33) throw cutOff(file, "before its picture begins");
  if (!has(file, 12, "IHDR")) throw new BadSample("", "is a damaged PNG: it does not begin with its size");
  return { format: "png", width: big32(file, 16), height: big32(file, 20), deep: file[24] === 16 };
}

function webpHeader(file: Uint8Array): Header {
  if (file.length < 30) throw cutOff(file, "before its picture begins");
  const format = "webp";
  if (has(file, 12, "VP8X")) {
    if (file[20] & 2) throw new BadSample("", "is an animation: give one picture a file");
    const at = (i: number) => 1 + file[i] + 256 * file[i + 1] + 65536 * file[i + 2];
    return { format, width: at(24), height: at(27) };
  }
  if (has(file, 12, "VP8L")) {
    const [a, b, c, d] = file.subarray(21, 25);
    return { format, width: 1 + a + 256 * (b & 63), height: 1 + (b >> 6) + 4 * c + 1024 * (d & 15) };
  }
  return {
    format,
    width: (file[26] + 256 * file[27]) & 0x3fff,
    height: (file[28] + 256 * file[29]) & 0x3fff,
  };
}

export const cutOff = (file: Uint8Array, where: string): BadSample =>
  new BadSample("", `is cut off ${where}, after ${formatWhole(file.length)} bytes`);

function unknown(file: Uint8Array): never {
  if (file.length === 0) throw new BadSample("", "is empty");
  const start = Array.from(file.subarray(0, 4), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
  throw new BadSample("", `is no JPEG, PNG or WebP: it begins with the bytes ${start}`);
}

export const has = (file: Uint8Array, at: number, text: string): boolean => {
  for (let i = 0; i < text.length; i++) if (file[at + i] !== text.charCodeAt(i)) return false;
  return true;
};

const big16 = (file: Uint8Array, at: number) => file[at] * 256 + file[at + 1];
export const big32 = (file: Uint8Array, at: number): number => big16(file, at) * 65536 + big16(file, at + 2);
