// A pixel changes by its neighbours (blur, sharpness) or by chance (noise).
import { sharpen } from "./pixels.ts";
import type { Sample } from "./sample.ts";

/** torchvision's: the deviation is of a kernel stretched by the square root of two, halved. */
export function gaussianKernel(size: number, sigma: number): Float64Array {
  const reach = (size - 1) / (2 * Math.SQRT2);
  const kernel = Float64Array.from({ length: size }, (_, i) => {
    const x = size === 1 ? 0 : -reach + 2 * reach * i / (size - 1);
    return Math.exp(-((x / sigma) ** 2));
  });
  const sum = kernel.reduce((a, b) => a + b, 0);
  return kernel.map((x) => x / sum);
}

/** Beyond the edge the picture is mirrored, without its last pixel twice. */
const mirrored = (i: number, length: number): number => {
  const round = 2 * (length - 1), at = ((i % round) + round) % round;
  return at < length ? at : round - at;
};

/** The middle numbers are floats, and rounding comes last. A missing point of a map stays missing, and counts for nobody. */
export function blurred(
  from: ArrayLike<number>,
  into: { [at: number]: number },
  { height, width, whole }: { readonly height: number; readonly width: number; readonly whole: boolean },
  across: Float64Array,
  down: Float64Array,
): void {
  const plane = height * width, line = new Float64Array(plane);
  const pass = (
    source: ArrayLike<number>,
    to: { [at: number]: number },
    kernel: Float64Array,
    along: boolean,
  ) => {
    const [length, lines, step, next] = along ? [width, height, 1, width] : [height, width, width, 1];
    const reach = kernel.length >> 1;
    const padded = new Float64Array(length + 2 * reach);
    for (let l = 0; l < lines; l++) {
      const start = l * next;
      for (let i = -reach; i < length + reach; i++) {
        const at = i >= 0 && i < length ? i : length === 1 ? 0 : mirrored(i, length);
        padded[i + reach] = source[start + at * step];
      }
      for (let i = 0; i < length; i++) {
        let sum = 0;
        for (let k = 0; k < kernel.length; k++) sum += padded[i + k] * kernel[k];
        to[start + i * step] = sum === sum ? sum : presentMean(padded, i, kernel, reach);
      }
    }
  };
  pass(from, line, across, true);
  if (!whole) return pass(line, into, down, false);
  const last = new Float64Array(plane);
  pass(line, last, down, false);
  for (let i = 0; i < plane; i++) into[i] = Math.round(last[i]);
}

function presentMean(padded: Float64Array, at: number, kernel: Float64Array, reach: number): number {
  if (Number.isNaN(padded[at + reach])) return NaN;
  let sum = 0, weights = 0;
  for (let k = 0; k < kernel.length; k++) {
    const value = padded[at + k];
    if (value !== value) continue;
    sum += value * kernel[k];
    weights += kernel[k];
  }
  return sum / weights;
}

export function gaussianBlur(sample: Sample, [kx, ky]: readonly [number, number], sigma: number): void {
  const { channels, height, width } = sample, plane = height * width;
  const from = sample.own() as Float32Array;
  const across = gaussianKernel(kx, sigma), down = gaussianKernel(ky, sigma);
  for (let c = 0; c < channels; c++) {
    const part = from.subarray(c * plane, (c + 1) * plane);
    blurred(part, part, { height, width, whole: !sample.floats }, across, down);
  }
}

/** 0 is a blurred picture, 1 the picture itself, 2 a sharper one; the outermost pixels stay. */
export function sharpness(sample: Sample, factor: number): void {
  const { channels, height, width, most } = sample;
  if (height <= 2 || width <= 2) return;
  const rest = 1 - factor, plane = height * width;
  const pixels = sample.own() as Float32Array | Uint8Array;
  if (pixels instanceof Uint8Array) return sharpen(pixels, [channels, height, width], rest);
  const from = pixels.slice();
  for (let c = 0; c < channels; c++) {
    for (let y = 1; y < height - 1; y++) {
      const first = c * plane + y * width + 1;
      // The sums of three pixels above one another, of the columns before, at and behind the pixel.
      const columnAt = (i: number) => from[i - width] + from[i] + from[i + width];
      let before = columnAt(first - 1), at = columnAt(first);
      for (let i = first, end = first + width - 2; i < end; i++) {
        const behind = columnAt(i + 1), own = from[i];
        const soft = (before + at + behind + 4 * own) / 13, value = own + (soft - own) * rest;
        pixels[i] = value < 0 ? 0 : value > most ? most : value;
        before = at;
        at = behind;
      }
    }
  }
}

interface Noise {
  readonly mean: number;
  readonly sigma: number;
  /** Pictures stay within their range. */
  readonly clip: boolean;
}

/** Its units are a picture's from 0 to 1, or a map's own. Bytes get whole numbers, cut and not rounded. */
export function gaussianNoise(
  sample: Sample,
  { mean, sigma, clip }: Noise,
  normal: (i: number) => number,
): void {
  const pixels = sample.own() as Uint8Array, { most } = sample;
  const picture = sample.role === "picture", bytes = !sample.floats;
  const [centre, spread] = bytes && picture ? [mean * 255, sigma * 255] : [mean, sigma];
  for (let i = 0; i < pixels.length; i++) {
    const noise = centre + normal(i) * spread, value = pixels[i] + (bytes ? Math.trunc(noise) : noise);
    pixels[i] = picture && clip ? value < 0 ? 0 : value > most ? most : value : value;
  }
}
