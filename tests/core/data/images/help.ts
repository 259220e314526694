// Pictures that Pillow wrote, and ways to compare what is read from them. Test helper.
import { createHash } from "node:crypto";
import { headerOf, type JpegHeader } from "../../../../core/data/images/header.ts";
import { BadSample } from "../../../../core/data/arrays/rows.ts";
import type { Stored } from "../../../../core/data/augment/planes.ts";
import { key, uniform } from "../../../../core/base/random.ts";
import { askPeer } from "../../../peer.ts";

export interface Made {
  readonly path: string;
  /** [height, width, 3] */
  readonly shape: readonly number[];
  /** Of the pixels that Pillow reads from it, as RGB. */
  readonly sha256: string;
}

/** Has Pillow write pictures of every kind into a folder. */
export const makePictures = (folder: string): Promise<Made[]> =>
  askPeer<Made[]>("data/images.py", { what: "make", folder });

/** Whether Pillow reads each of these files. */
export const pillowReads = (paths: readonly string[]): Promise<boolean[]> =>
  askPeer<boolean[]>("data/images.py", { what: "verdicts", paths });

/** Red, green and blue in turn, row by row. */
export function pixelsOf({ data, shape: [, height, width], strides }: Stored): Uint8Array {
  const [channel, row, column] = strides!;
  const pixels = new Uint8Array(3 * width * height);
  for (let y = 0, to = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      for (let c = 0; c < 3; c++) pixels[to++] = Number(data[c * channel + y * row + x * column]);
    }
  }
  return pixels;
}

export const hashOf = (pixels: Uint8Array): string => createHash("sha256").update(pixels).digest("hex");

export const isJpeg = ({ path }: { path: string }): boolean => /jpe?g$/i.test(path);

export type Decode = (file: Uint8Array<ArrayBuffer>) => Stored;

/** A decoder of JPEG alone. */
export const throughHeader = (jpeg: (file: Uint8Array, header: JpegHeader) => Stored): Decode => (file) =>
  jpeg(file, headerOf(file) as JpegHeader);

/** One to three of its bytes are others, the same for the same seed. */
export function damaged(file: Uint8Array<ArrayBuffer>, seed: number): Uint8Array<ArrayBuffer> {
  const at = uniform(key(seed, "damage"));
  for (let k = 0; k <= seed % 3; k++) {
    file[Math.floor(at(2 * k) * file.length)] = Math.floor(at(2 * k + 1) * 256);
  }
  return file;
}

/** Its size and its pixels' hash, or why it is refused. */
export function outcome(decode: Decode, file: Uint8Array): string {
  try {
    const stored = decode(Uint8Array.from(file));
    return `${stored.shape} ${hashOf(pixelsOf(stored))}`;
  } catch (error) {
    if (error instanceof BadSample) return error.reason;
    throw error;
  }
}

/** The files whose pixels are not Pillow's. */
export function unlikePillow(decode: Decode, made: readonly Made[]): string[] {
  return made.filter(({ path, shape: [height, width], sha256 }) =>
    outcome(decode, Deno.readFileSync(path)) !== `3,${height},${width} ${sha256}`
  ).map(({ path }) => path);
}
