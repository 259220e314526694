// Series and spectrograms: the last dimension is time, and the one before it channels or frequencies.
import { type Argument, chance, number, whole } from "./arguments.ts";
import { gaussianNoise } from "./blur.ts";
import { type Kind, kind, type Shape } from "./kind.ts";
import { below, between, type Draw, normals, round, type Sample } from "./sample.ts";

/** A mask leaves the mean of the plane, or a number. */
type MaskValue = "mean" | number;

/** SpecAugment: `count` stretches of at most `most` columns (along time) or rows (of frequencies), each drawn. */
function maskStretch(
  sample: Sample,
  along: "time" | "frequency",
  { most, count, value }: { readonly most: number; readonly count: number; readonly value: MaskValue },
  draw: Draw,
): void {
  const { channels, height, width } = sample, numbers = sample.own() as Float32Array, plane = height * width;
  const length = along === "time" ? width : height;
  for (let k = 0; k < count; k++) {
    const wide = Math.floor(between(0, Math.min(most, length), draw(2 * k)));
    const from = below(length - wide + 1, draw(2 * k + 1));
    for (let c = 0; c < channels; c++) {
      const part = numbers.subarray(c * plane, (c + 1) * plane),
        left = value === "mean" ? meanOf(part) : value;
      if (along === "frequency") part.fill(left, from * width, (from + wide) * width);
      else {for (let row = 0; row < height; row++) {
          part.fill(left, row * width + from, row * width + from + wide);
        }}
    }
  }
}

/** The shape behind a crop along time, or why there is none. */
const shortened =
  (name: string) =>
  ({ length }: { readonly length: number }, [channels, height, width]: Shape): Shape | string =>
    length <= width
      ? [channels, height, length]
      : `has ${width} steps of time, fewer than ${name}(${length})`;

/** Missing points have no part in it. */
function meanOf(values: Float32Array): number {
  let sum = 0, count = 0;
  for (const value of values) {
    if (value !== value) continue;
    sum += value;
    count++;
  }
  return count === 0 ? 0 : sum / count;
}

/** Each row of each channel is multiplied by its own factor. */
function scaleRows(sample: Sample, factor: (row: number) => number): void {
  const numbers = sample.own() as Float32Array, { width } = sample;
  for (let row = 0; row * width < numbers.length; row++) {
    const by = factor(row);
    for (let i = row * width; i < (row + 1) * width; i++) numbers[i] *= by;
  }
}

/** Time goes around: what leaves at one end comes in at the other. */
function shiftTime(sample: Sample, by: number): void {
  const numbers = sample.own() as Float32Array, { width } = sample, line = numbers.slice(0, width);
  for (let from = 0; from < numbers.length; from += width) {
    line.set(numbers.subarray(from, from + width));
    for (let x = 0; x < width; x++) numbers[from + (x + by) % width] = line[x];
  }
}

const masks = {
  mask_param: whole(undefined, { min: 1 }),
  count: whole(1, { min: 1, max: 100 }),
  value: {
    read: (value) => value === "mean" || typeof value === "number" ? value : undefined,
    says: "mean, or a number",
    otherwise: "mean",
  } as Argument<MaskValue>,
  p: chance(1),
};

export const SERIES: Readonly<Record<string, Kind>> = {
  time_mask: kind({
    takes: masks,
    also: ["TimeMasking"],
    acts: "values",
    series: true,
    run: (sample, { mask_param: most, ...how }, draw) => maskStretch(sample, "time", { ...how, most }, draw),
  }),
  frequency_mask: kind({
    takes: masks,
    also: ["FrequencyMasking"],
    acts: "values",
    run: (sample, { mask_param: most, ...how }, draw) =>
      maskStretch(sample, "frequency", { ...how, most }, draw),
  }),
  jitter: kind({
    takes: { sigma: number(0.03, { min: 0 }), p: chance(1) },
    acts: "values",
    series: true,
    run: (sample, { sigma }, draw) => gaussianNoise(sample, { mean: 0, sigma, clip: true }, normals(draw, 0)),
  }),
  scaling: kind({
    takes: { sigma: number(0.1, { min: 0 }), p: chance(1) },
    acts: "values",
    series: true,
    run(sample, { sigma }, draw) {
      const normal = normals(draw, 0);
      scaleRows(sample, (row) => 1 + sigma * normal(row));
    },
  }),
  time_shift: kind({
    takes: { most: whole(undefined, { min: 1 }), p: chance(1) },
    acts: "values",
    series: true,
    run: (sample, { most }, draw) => shiftTime(sample, below(Math.min(most, sample.width - 1) + 1, draw(0))),
  }),
  time_crop: kind({
    takes: { length: whole(undefined, { min: 1 }) },
    acts: "places",
    series: true,
    after: shortened("time_crop"),
    still: ({ length }) => [["middle_crop", { length }]],
    run: (sample, { length }, draw) =>
      sample.crop(0, below(sample.width - length + 1, draw(0)), sample.height, length),
  }),
  middle_crop: kind({
    takes: { length: whole(undefined, { min: 1 }) },
    acts: "places",
    series: true,
    after: shortened("middle_crop"),
    still: true,
    run: (sample, { length }) => sample.crop(0, round((sample.width - length) / 2), sample.height, length),
  }),
};
