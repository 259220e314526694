// A picture as its JPEG of some quality would be read again.
import { openFastJpeg } from "../codecs/fast_jpeg.ts";
import type { Shape } from "./kind.ts";
import type { Sample } from "./sample.ts";

let codec: ReturnType<typeof openFastJpeg> | null = null;

/** Narrower pictures are read in another way. */
const LEAST_WIDTH = 5;

export const jpegProblem = ([, height, width]: Shape): string | null =>
  width >= LEAST_WIDTH
    ? null
    : `is ${height} x ${width}, too narrow for jpeg, which needs ${LEAST_WIDTH} columns: resize it first, or leave jpeg out`;

/** Floats from 0 to 1 become bytes on the way, as files have them. */
export function asJpeg(sample: Sample, quality: number): void {
  const { height, width, most } = sample, pixels = sample.own() as Uint8Array | Float32Array;
  const bytes = pixels instanceof Uint8Array
    ? pixels
    : Uint8Array.from(pixels, (x) => Math.round(255 * Math.min(most, Math.max(0, x))));
  codec ??= openFastJpeg();
  codec.again(bytes, { width, height }, quality);
  if (bytes !== pixels) bytes.forEach((x, i) => pixels[i] = x / 255);
}
