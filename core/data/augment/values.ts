// Transforms of values, which targets don't follow: colours of pictures; blur, noise and erasing of maps, too.
import {
  anything,
  type Argument,
  both,
  chance,
  factor,
  hue,
  number,
  numbers,
  pair,
  truth,
  whole,
} from "./arguments.ts";
import { gaussianBlur, gaussianNoise, sharpness } from "./blur.ts";
import * as colour from "./colour.ts";
import { asJpeg, jpegProblem } from "./compressed.ts";
import { erase, erasedBox } from "./erase.ts";
import { always, type Kind, kind } from "./kind.ts";
import { below, between, normals, orderOf, type Sample } from "./sample.ts";

const p = chance(0.5);

const qualities: Argument<readonly [number, number]> = {
  read(value) {
    const two = pair(undefined, [5, 95], { min: 1, max: 100 }).read(
      typeof value === "number" ? [value, value] : value,
    );
    return two?.every(Number.isInteger) ? two : undefined;
  },
  says: "a whole number from 1 to 100, or the least and the most, such as (5, 95)",
};

export const COLOURS: Readonly<Record<string, Kind>> = {
  colour_jitter: kind({
    takes: { brightness: factor(), contrast: factor(), saturation: factor(), hue: hue() },
    acts: "colours",
    run(sample, { brightness, contrast, saturation, hue }, draw) {
      const of = (range: readonly [number, number], k: number) => between(range[0], range[1], draw(k));
      const changes = [
        () => brightness && colour.brightness(sample, of(brightness, 0)),
        () => contrast && colour.contrast(sample, of(contrast, 1)),
        () => saturation && colour.saturation(sample, of(saturation, 2)),
        () => hue && colour.hue(sample, of(hue, 3)),
      ];
      for (const i of orderOf(4, draw, 4)) changes[i]();
    },
  }),
  photometric_distort: kind({
    takes: {
      brightness: pair([0.875, 1.125], [0.875, 1.125], { min: 0 }),
      contrast: pair([0.5, 1.5], [0.5, 1.5], { min: 0 }),
      saturation: pair([0.5, 1.5], [0.5, 1.5], { min: 0 }),
      hue: pair([-0.05, 0.05], [-0.05, 0.05], { min: -0.5, max: 0.5 }),
      p,
    },
    acts: "colours",
    run(sample, { brightness, contrast, saturation, hue, p }, draw) {
      const of = (
        range: readonly [number, number],
        k: number,
        change: (sample: Sample, by: number) => void,
      ) => {
        if (draw(2 * k) < p) change(sample, between(range[0], range[1], draw(2 * k + 1)));
      };
      const first = draw(20) < 0.5;
      of(brightness, 0, colour.brightness);
      if (first) of(contrast, 1, colour.contrast);
      of(saturation, 2, colour.saturation);
      of(hue, 3, colour.hue);
      if (!first) of(contrast, 1, colour.contrast);
      if (draw(21) < p) colour.permuteChannels(sample, orderOf(sample.channels, draw, 22));
    },
  }),
  grayscale: kind({
    takes: { num_output_channels: whole(1, { min: 1, max: 3 }) },
    acts: "colours",
    after: ({ num_output_channels: to }, [, height, width]) =>
      to === 2 ? "has 1 or 3 channels after grayscale, and not 2" : [to, height, width],
    still: true,
    run: (sample, { num_output_channels }) => colour.grey(sample, num_output_channels),
  }),
  random_grayscale: kind({
    takes: { p: chance(0.1) },
    acts: "colours",
    run: (sample) => sample.channels === 3 && colour.grey(sample, 3),
  }),
  channel_permutation: kind({
    takes: {},
    acts: "colours",
    run: (sample, _, draw) => colour.permuteChannels(sample, orderOf(sample.channels, draw, 0)),
  }),
  sharpness: kind({
    takes: { sharpness_factor: number(undefined, { min: 0 }), p },
    also: ["RandomAdjustSharpness"],
    acts: "colours",
    run: (sample, { sharpness_factor }) => sharpness(sample, sharpness_factor),
  }),
  autocontrast: kind({ takes: { p }, acts: "colours", run: colour.autocontrast }),
  equalize: kind({ takes: { p }, also: ["equalise"], acts: "colours", run: colour.equalize }),
  posterize: kind({
    takes: { bits: whole(undefined, { min: 0, max: 8 }), p },
    also: ["posterise"],
    acts: "colours",
    run: (sample, { bits }) => colour.posterize(sample, bits),
  }),
  solarize: kind({
    takes: { threshold: number(undefined, { min: 0, max: 255 }), p },
    also: ["solarise"],
    acts: "colours",
    run: (sample, { threshold }) => colour.solarize(sample, threshold),
  }),
  invert: kind({ takes: { p }, acts: "colours", run: colour.invert }),
  jpeg: kind({
    takes: { quality: qualities },
    acts: "colours",
    after: (_, shape) => jpegProblem(shape) ?? shape,
    run: (sample, { quality: [low, high] }, draw) => asJpeg(sample, low + below(high - low + 1, draw(0))),
  }),
};

export const VALUES: Readonly<Record<string, Kind>> = {
  gaussian_blur: kind({
    takes: {
      kernel_size: {
        ...both(undefined, { min: 1 }),
        read: (value) => {
          const two = both(undefined, { min: 1 }).read(value);
          return two?.every((one) => one % 2 === 1) ? two : undefined;
        },
        says: "an odd number of pixels, or two",
      },
      sigma: {
        ...pair([0.1, 2], [0.1, 2], { min: 0, above: true }),
        read: (value) => {
          const two = typeof value === "number" ? [value, value] : value;
          return pair(undefined, [0.1, 2], { min: 0, above: true }).read(two);
        },
      },
      p: chance(1),
    },
    acts: "values",
    after: ({ kernel_size: [across, down] }, [channels, height, width]) =>
      width > across >> 1 && height > down >> 1
        ? [channels, height, width]
        : `is ${height} x ${width}, too small for a blur of ${across} x ${down}: take a smaller kernel_size`,
    run: (sample, { kernel_size, sigma: [low, high] }, draw) =>
      gaussianBlur(sample, kernel_size, between(low, high, draw(0))),
  }),
  gaussian_noise: kind({
    takes: { mean: number(0), sigma: number(0.1, { min: 0 }), clip: truth(true), p: chance(1) },
    acts: "values",
    series: true,
    run: (sample, by, draw) => gaussianNoise(sample, by, normals(draw, 0)),
  }),
  random_erasing: kind({
    takes: {
      p,
      scale: pair([0.02, 0.33], [0.02, 0.33], { min: 0, max: 1 }),
      ratio: pair([0.3, 3.3], [0.3, 3.3], { min: 0, above: true }),
      value: {
        read: (value) => value === "random" ? "random" : numbers().read(value),
        says: 'a number, one for each channel, or "random"',
        otherwise: [0],
      } as Argument<readonly number[] | "random">,
      inplace: truth(false),
      /** The list fills it in. */
      after: anything() as Argument<unknown>,
    },
    also: ["erasing", "cutout"],
    acts: "values",
    opens: always,
    run(sample, { scale, ratio, value, after }, draw) {
      const box = erasedBox([sample.height, sample.width], scale, ratio, draw);
      if (box) {
        erase(sample, box, value === "random" ? null : value, after as Parameters<typeof erase>[3], draw);
      }
    },
  }),
};
