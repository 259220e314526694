// Sizes and places: resizing, crops, padding. Masks and maps of targets go through the same, class by class.
import { BadSample } from "../arrays/rows.ts";
import type { Edges, Size } from "./arguments.ts";
import type { KernelName } from "./filters.ts";
import { type ImageSize, resizedSize } from "./resize.ts";
import { below, between, type Draw, round, type Sample } from "./sample.ts";

export type Sampling = KernelName | "nearest";

export function resize(sample: Sample, [height, width]: ImageSize, sampling: Sampling): void {
  if (height === sample.height && width === sample.width) return;
  if (sampling === "nearest" || sample.role === "classes") return nearest(sample, [height, width]);
  const before = sample.planes;
  const whole = { top: 0, left: 0, rows: height, columns: width };
  const made = sample.room.resample(before, [height, width], whole, sampling);
  if (sample.role === "map" && sample.floats) {
    fillFromNearest(made.data as Float32Array, sample, [height, width]);
  }
  sample.view(made);
}

/** Halves of float32 are torch's. */
const placesOf = (from: number, to: number): Int32Array =>
  Int32Array.from({ length: to }, (_, i) => {
    const scale = Math.fround(from / to);
    return Math.min(from - 1, Math.floor(Math.fround(i * scale)));
  });

function nearest(sample: Sample, [height, width]: ImageSize): void {
  const { channels, planes } = sample, into = sample.fresh(channels, height, width) as Uint8Array;
  const rows = placesOf(sample.height, height).map((y) => y * planes.row);
  const columns = placesOf(sample.width, width).map((x) => x * planes.column);
  const from = planes.data as Uint8Array;
  let to = 0;
  for (const start of planes.starts) {
    for (const row of rows) for (const column of columns) into[to++] = from[start + row + column];
  }
  sample.put(into, channels, height, width);
}

/** A point that a missing one had a share in gets the nearest, which may be missing itself. */
function fillFromNearest(
  made: Float32Array,
  { planes, height, width }: Sample,
  [rows, columns]: ImageSize,
): void {
  const from = planes.data as Float32Array;
  let at = 0;
  for (const start of planes.starts) {
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++, at++) {
        if (made[at] === made[at]) continue;
        const row = Math.min(height - 1, Math.floor((y + 0.5) * height / rows));
        const column = Math.min(width - 1, Math.floor((x + 0.5) * width / columns));
        made[at] = from[start + row * planes.row + column * planes.column];
      }
    }
  }
}

/** One number is the shorter side's. */
export const sizeAfter = (sides: readonly number[], size: ImageSize): ImageSize =>
  sides.length === 1 ? resizedSize(size, sides[0]) : [sides[0], sides[1]];

export function cropProblem([height, width]: Size, [rows, columns]: ImageSize, padded = ""): string | null {
  return height <= rows && width <= columns
    ? null
    : `is ${rows} pixels high and ${columns} wide${padded}, smaller than a crop of ${height} x ${width}: resize it first, ` +
      "take a smaller crop, or pad it with random_crop(..., pad_if_needed=true)";
}

export function checkCrop(size: Size, sample: Sample): void {
  const problem = cropProblem(size, [sample.height, sample.width]);
  if (problem) throw new BadSample("", problem);
}

export function centreCrop(sample: Sample, [height, width]: Size): void {
  checkCrop([height, width], sample);
  sample.crop(round((sample.height - height) / 2), round((sample.width - width) / 2), height, width);
}

export type PaddingMode = "constant" | "edge" | "reflect" | "symmetric";

export interface Padding {
  readonly padding: Edges;
  readonly mode: PaddingMode;
  readonly fill: readonly number[] | null;
}

/** -1 is outside. */
function beyond(i: number, length: number, mode: PaddingMode): number {
  if (i >= 0 && i < length) return i;
  switch (mode) {
    case "constant":
      return -1;
    case "edge":
      return i < 0 ? 0 : length - 1;
    case "reflect": {
      const round = Math.max(1, 2 * (length - 1)), at = ((i % round) + round) % round;
      return at < length ? at : round - at;
    }
    case "symmetric": {
      const at = ((i % (2 * length)) + 2 * length) % (2 * length);
      return at < length ? at : 2 * length - 1 - at;
    }
  }
}

export function pad(sample: Sample, { padding: [left, top, right, bottom], mode, fill }: Padding): void {
  if (left + top + right + bottom === 0) return;
  const { channels, planes } = sample;
  const height = sample.height + top + bottom, width = sample.width + left + right;
  const into = sample.fresh(channels, height, width) as Uint8Array, from = planes.data as Uint8Array;
  const big = planes.data instanceof BigInt64Array || planes.data instanceof BigUint64Array;
  const along = (count: number, before: number, length: number) =>
    Int32Array.from({ length: count }, (_, i) => beyond(i - before, length, mode));
  const rows = along(height, top, sample.height), columns = along(width, left, sample.width);
  let to = 0;
  for (let c = 0; c < channels; c++) {
    const value = sample.outside ?? (fill ? fill[c] ?? fill[0] : 0), start = planes.starts[c];
    const outside = (big ? BigInt(value) : value) as number;
    for (const row of rows) {
      for (const column of columns) {
        into[to++] = row < 0 || column < 0
          ? outside
          : from[start + row * planes.row + column * planes.column];
      }
    }
  }
  sample.put(into, channels, height, width);
}

/** Padding that makes a sample as large as the crop. */
export function neededPadding(
  [left, top, right, bottom]: Edges,
  size: Size,
  [rows, columns]: ImageSize,
): Edges {
  const more = Math.max(0, size[0] - (rows + top + bottom)),
    wider = Math.max(0, size[1] - (columns + left + right));
  return [left + wider, top + more, right + wider, bottom + more];
}

export function randomCrop(sample: Sample, [height, width]: Size, draw: Draw): void {
  checkCrop([height, width], sample);
  const top = below(sample.height - height + 1, draw(0)), left = below(sample.width - width + 1, draw(1));
  sample.crop(top, left, height, width);
}

/** Ten places are tried, as in torchvision; then the largest of a fitting form in the middle is taken. */
export function resizedCropBox(
  [height, width]: ImageSize,
  scale: readonly [number, number],
  ratio: readonly [number, number],
  draw: Draw,
): readonly [top: number, left: number, height: number, width: number] {
  const [low, high] = ratio.map(Math.log);
  for (let attempt = 0; attempt < 10; attempt++) {
    const of = (k: number) => draw(4 * attempt + k);
    const area = height * width * between(scale[0], scale[1], of(0)),
      form = Math.exp(between(low, high, of(1)));
    const w = round(Math.sqrt(area * form)), h = round(Math.sqrt(area / form));
    if (w <= 0 || w > width || h <= 0 || h > height) continue;
    return [below(height - h + 1, of(2)), below(width - w + 1, of(3)), h, w];
  }
  const form = width / height;
  const [h, w] = form < ratio[0]
    ? [round(width / ratio[0]), width]
    : form > ratio[1]
    ? [height, round(height * ratio[1])]
    : [height, width];
  return [Math.floor((height - h) / 2), Math.floor((width - w) / 2), h, w];
}
