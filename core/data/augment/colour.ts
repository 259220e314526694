// Colours of pictures, as torchvision's kernels change them: bytes stay bytes, and floats go from 0 to 1.
import * as bytes from "./pixels.ts";
import type { Sample } from "./sample.ts";

type Pixels = Uint8Array | Float32Array;

const pixelsOf = (sample: Sample): Pixels => sample.own() as Pixels;

const fround = Math.fround;

/** Bytes are cut to whole numbers, and not rounded, as a cast of torch's does. */
const clampTo = (most: number, x: number): number => x < 0 ? 0 : x > most ? most : x;

/** A function of one value, which bytes have in a table. */
function each(sample: Sample, of: (value: number) => number, plane?: number): void {
  const pixels = pixelsOf(sample), size = sample.height * sample.width;
  const from = plane === undefined ? 0 : plane * size, to = plane === undefined ? pixels.length : from + size;
  if (pixels instanceof Uint8Array) {
    const table = new Uint8Array(256);
    for (let i = 0; i < 256; i++) table[i] = of(i);
    for (let i = from; i < to; i++) pixels[i] = table[pixels[i]];
  } else for (let i = from; i < to; i++) pixels[i] = of(pixels[i]);
}

export function brightness(sample: Sample, factor: number): void {
  linear(sample, fround(factor), 0);
}

/** by * x + plus, in floats. */
function linear(sample: Sample, by: number, plus: number): void {
  const pixels = pixelsOf(sample), { most } = sample;
  if (pixels instanceof Uint8Array) return bytes.scale(pixels, by, plus);
  each(sample, (x) => clampTo(most, fround(fround(x * by) + plus)));
}

const RED = fround(0.2989), GREEN = fround(0.587), BLUE = fround(0.114);

/** Bytes have a whole grey value. */
function greysOf(pixels: Pixels, plane: number): Pixels {
  const bytes = pixels instanceof Uint8Array;
  const greys = bytes ? new Uint8Array(plane) : new Float32Array(plane);
  // A store to bytes cuts the fraction off.
  for (let i = 0; i < plane; i++) {
    greys[i] = fround(fround(pixels[i] * RED + pixels[i + plane] * GREEN) + pixels[i + 2 * plane] * BLUE);
  }
  return greys;
}

export function contrast(sample: Sample, factor: number): void {
  const pixels = pixelsOf(sample), plane = sample.height * sample.width;
  const sum = sumOfGreys(pixels, sample.channels, plane);
  linear(sample, fround(factor), fround(fround(sum / plane) * fround(1 - factor)));
}

function sumOfGreys(pixels: Pixels, channels: number, plane: number): number {
  if (channels === 3 && pixels instanceof Uint8Array) return bytes.greySum(pixels, plane);
  const greys = channels === 1 ? pixels : greysOf(pixels, plane);
  let sum = 0;
  for (let i = 0; i < plane; i++) sum += greys[i];
  return sum;
}

export function saturation(sample: Sample, factor: number): void {
  if (sample.channels === 1) return;
  const pixels = pixelsOf(sample), { most } = sample, plane = sample.height * sample.width;
  const by = fround(factor), other = fround(1 - factor);
  if (pixels instanceof Uint8Array) return bytes.saturate(pixels, plane, by, other);
  const greys = greysOf(pixels, plane);
  for (let from = 0; from < 3 * plane; from += plane) {
    for (let i = 0; i < plane; i++) {
      const value = fround(pixels[from + i] * by + greys[i] * other);
      pixels[from + i] = value < 0 ? 0 : value > most ? most : value;
    }
  }
}

/** The hue goes around a circle of 1. */
export function hue(sample: Sample, shift: number): void {
  if (sample.channels === 1) return;
  const pixels = pixelsOf(sample), plane = sample.height * sample.width, bytes = pixels instanceof Uint8Array;
  const scale = bytes ? fround(1 / 255) : 1, back = bytes ? 255 + 1 - 1e-3 : 1;
  for (let i = 0; i < plane; i++) {
    const r = fround(pixels[i] * scale), g = fround(pixels[i + plane] * scale);
    const b = fround(pixels[i + 2 * plane] * scale);
    const most = r > g ? (r > b ? r : b) : g > b ? g : b, least = r < g ? (r < b ? r : b) : g < b ? g : b;
    const range = most - least;
    const share = range === 0 ? 0 : range / most, by = range === 0 ? 1 : 1 / range;
    const sixth = most === r ? (g - b) * by : most === g ? 2 + (b - r) * by : 4 + (r - g) * by;
    let turn = sixth / 6 + shift;
    turn -= Math.floor(turn);
    const whole = Math.floor(turn * 6), part = turn * 6 - whole;
    const p = (1 - share) * most, q = (1 - share * part) * most, t = (1 - share * (1 - part)) * most;
    let red = most, green = t, blue = p;
    if (whole === 1) red = q, green = most;
    else if (whole === 2) red = p, green = most, blue = t;
    else if (whole === 3) red = p, green = q, blue = most;
    else if (whole === 4) red = t, green = p, blue = most;
    else if (whole === 5) green = p, blue = q;
    pixels[i] = red * back;
    pixels[i + plane] = green * back;
    pixels[i + 2 * plane] = blue * back;
  }
}

/** One channel of grey, or as many as there are. */
export function grey(sample: Sample, channels: number): void {
  const { height, width } = sample, plane = height * width;
  if (sample.channels === 1 && channels === 1) return;
  const pixels = pixelsOf(sample);
  if (sample.channels === 1) {
    const wide = sample.fresh(3, height, width) as Pixels;
    for (let c = 0; c < 3; c++) wide.set(pixels, c * plane);
    return void sample.put(wide, 3, height, width);
  }
  pixels.set(greysOf(pixels, plane));
  if (channels === 1) return void sample.put(pixels.subarray(0, plane), 1, height, width);
  pixels.copyWithin(plane, 0, plane);
  pixels.copyWithin(2 * plane, 0, plane);
}

export function posterize(sample: Sample, bits: number): void {
  const levels = 2 ** bits;
  if (!sample.floats) {
    const mask = (levels - 1) << (8 - bits);
    return each(sample, (x) => x & mask);
  }
  each(sample, (x) => Math.min(levels - 1, Math.max(0, Math.floor(x * levels))) / levels);
}

export function solarize(sample: Sample, threshold: number): void {
  const { most } = sample;
  each(sample, (x) => x >= threshold ? most - x : x);
}

export function invert(sample: Sample): void {
  const { most } = sample;
  each(sample, (x) => most - x);
}

/** Each channel goes from 0 to the most. */
export function autocontrast(sample: Sample): void {
  const pixels = pixelsOf(sample), { most, channels } = sample, plane = sample.height * sample.width;
  for (let c = 0; c < channels; c++) {
    const [low, high] = rangeOf(pixels.subarray(c * plane, (c + 1) * plane));
    if (low === high) continue;
    const by = fround(fround(high - low) * fround(1 / most));
    each(sample, (x) => clampTo(most, fround(fround(x - low) / by)), c);
  }
}

function rangeOf(pixels: Pixels): [low: number, high: number] {
  if (pixels instanceof Uint8Array) return bytes.range(pixels);
  let low = Infinity, high = -Infinity;
  for (let i = 0; i < pixels.length; i++) {
    if (pixels[i] < low) low = pixels[i];
    if (pixels[i] > high) high = pixels[i];
  }
  return [low, high];
}

/** Each channel has about as many pixels of each value, by Pillow's table. */
export function equalize(sample: Sample): void {
  const pixels = pixelsOf(sample), plane = sample.height * sample.width, { channels } = sample;
  const levelOf = sample.floats ? (x: number) => Math.trunc(x * (255 + 1 - 1e-3)) & 255 : (x: number) => x;
  const counts = new Int32Array(256), table = new Uint8Array(256);
  for (let c = 0; c < channels; c++) {
    counts.fill(0);
    for (let i = c * plane; i < (c + 1) * plane; i++) counts[levelOf(pixels[i])]++;
    const last = counts.findLastIndex((count) => count > 0);
    const step = Math.floor((plane - counts[last]) / 255);
    for (let level = 0, before = 0; level < 256; before += counts[level++]) {
      const spread = Math.floor((before + Math.floor(step / 2)) / step);
      table[level] = step === 0 ? level : level === 0 ? 0 : Math.min(255, spread);
    }
    if (sample.floats) each(sample, (x) => table[levelOf(x)] / 255, c);
    else if (step > 0) each(sample, (x) => table[x], c);
  }
}

export function permuteChannels(sample: Sample, order: readonly number[]): void {
  sample.view({ ...sample.planes, starts: order.map((c) => sample.planes.starts[c]) });
}
