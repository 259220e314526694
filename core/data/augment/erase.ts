// A rectangle of a picture is erased: random erasing, and cut-out, which is the same of a square.
import { below, between, type Draw, normals, round, type Sample } from "./sample.ts";

interface Box {
  readonly top: number;
  readonly left: number;
  readonly height: number;
  readonly width: number;
}

/** Null after ten attempts that do not fit: nothing is erased then, as in torchvision. */
export function erasedBox(
  [height, width]: readonly [number, number],
  scale: readonly [number, number],
  ratio: readonly [number, number],
  draw: Draw,
): Box | null {
  const [low, high] = ratio.map(Math.log);
  for (let attempt = 0; attempt < 10; attempt++) {
    const of = (k: number) => draw(4 * attempt + k);
    const area = height * width * between(scale[0], scale[1], of(0)),
      form = Math.exp(between(low, high, of(1)));
    const h = round(Math.sqrt(area * form)), w = round(Math.sqrt(area / form));
    if (h >= height || w >= width) continue;
    return { top: below(height - h + 1, of(2)), left: below(width - w + 1, of(3)), height: h, width: w };
  }
  return null;
}

/** Values as a transform before has left them: bytes, shares from 0 to 1, or normalised with these figures. */
export interface Scale {
  readonly shares: boolean;
  readonly mean: readonly number[] | null;
  readonly std: readonly number[] | null;
}

/** null is random values of mean 0 and deviation 1. A map's points become missing ones. */
export function erase(
  sample: Sample,
  { top, left, height, width }: Box,
  value: readonly number[] | null,
  { shares, mean, std }: Scale,
  draw: Draw,
): void {
  const pixels = sample.own() as Uint8Array, { most } = sample;
  const normal = value === null ? normals(draw, 60) : null;
  const unit = sample.role === "picture" && shares ? most : 1;
  let drawn = 0;
  for (let c = 0; c < sample.channels; c++) {
    const own = (x: number) => (x * (std ? std[c] ?? std[0] : 1) + (mean ? mean[c] ?? mean[0] : 0)) * unit;
    const stored = (x: number) =>
      sample.role === "picture" && !sample.floats ? Math.round(Math.min(most, Math.max(0, own(x)))) : own(x);
    const fixed = value && stored(value[c] ?? value[0]);
    for (let y = top; y < top + height; y++) {
      const from = (c * sample.height + y) * sample.width + left;
      if (sample.outside !== null) pixels.fill(sample.outside, from, from + width);
      else if (fixed !== null) pixels.fill(fixed, from, from + width);
      else for (let i = from; i < from + width; i++) pixels[i] = stored(normal!(drawn++));
    }
  }
}
