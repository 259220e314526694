// Every transform of a list: its arguments, as torchvision has them, the shape that it makes, and what it does.
import {
  angles,
  anything,
  type Argument,
  type Arguments,
  both,
  chance,
  edges,
  factor,
  fill,
  hue,
  number,
  numbers,
  only,
  pair,
  type Read,
  sides,
  size,
  truth,
  whole,
  word,
} from "./arguments.ts";
import { blurred, gaussianBlur, gaussianKernel, gaussianNoise, sharpness } from "./blur.ts";
import * as colour from "./colour.ts";
import { erase, erasedBox } from "./erase.ts";
import { augMix, autoAugment, randAugment, trivialAugment } from "./policies.ts";
import { below, between, type Draw, manyMore, normals, orderOf, round, type Sample } from "./sample.ts";
import * as shape from "./shape.ts";
import { affine, elastic, perspective, perspectiveOf, rotate } from "./warp.ts";

export type Shape = readonly [channels: number, height: number, width: number];

export interface Kind {
  readonly takes: Arguments;
  /** Other names in torchvision than this one, and "Random" before it. */
  readonly also?: readonly string[];
  /** Targets on the same pixels follow in places alone; a policy is both, and moves them as it moves the picture. */
  readonly acts: "places" | "values" | "both" | "colours";
  /** The shape that it makes, or why it can't be done. */
  readonly after?: (options: Options, from: Shape) => Shape | string;
  /** Evaluation does it, too: nothing of it is random. Or it does these instead, by name and options. */
  readonly still?: true | ((options: Options) => readonly (readonly [name: string, options: Options])[]);
  /** Points from outside come in, which are missing ones of maps. */
  readonly opens?: (options: Options) => boolean;
  /** Components of vectors can't follow. */
  readonly bends?: (options: Options) => boolean;
  /** It is a picture's own, whose targets are no maps. */
  readonly alone?: true;
  readonly run: (sample: Sample, options: Options, draw: Draw) => void;
}

// deno-lint-ignore no-explicit-any
export type Options = any;

type Declared<A extends Arguments> = {
  readonly takes: A;
  readonly after?: (options: Read<A>, from: Shape) => Shape | string;
  readonly still?: true | ((options: Read<A>) => readonly (readonly [name: string, options: Options])[]);
  readonly opens?: (options: Read<A>) => boolean;
  readonly bends?: (options: Read<A>) => boolean;
  readonly run: (sample: Sample, options: Read<A>, draw: Draw) => void;
} & Pick<Kind, "also" | "acts" | "alone">;

const kind = <A extends Arguments>(declared: Declared<A>): Kind => declared as unknown as Kind;

const antialias = only(true, "true alone: shrinking without it makes patterns that are not there");
const ratio = pair([3 / 4, 4 / 3], [0.75, 1.33], { min: 0, above: true });
const sampling = word(["bilinear", "bicubic", "nearest"], "bilinear");
const look = (interpolation: "nearest" | "bilinear", otherwise: readonly number[] | null) => ({
  interpolation: word(["nearest", "bilinear"], interpolation),
  fill: fill(otherwise),
});
const centre: Argument<readonly [number, number] | null> = {
  read: (value) => value === null ? null : both(undefined).read(value),
  says: "(x, y) in pixels",
  otherwise: null,
};
const mode = word(["constant", "edge", "reflect", "symmetric"], "constant");
const always = (): boolean => true;

/** The sizes of an elastic distortion and of its blur. */
const twoSizes = (otherwise: number) => both([otherwise, otherwise], { min: 0 });

const PLACES: Readonly<Record<string, Kind>> = {
  random_resized_crop: kind({
    takes: {
      size: size(),
      scale: pair([0.08, 1], [0.08, 1], { min: 0, max: 1, above: true }),
      ratio,
      interpolation: sampling,
      antialias,
    },
    acts: "places",
    after: ({ size: [height, width] }, [channels]) => [channels, height, width],
    still: ({ size: [height, width], interpolation }) => [
      ["resize", { size: [Math.floor(Math.max(height, width) / 0.875)], interpolation }],
      ["centre_crop", { size: [height, width], pad_if_needed: false }],
    ],
    run(sample, { size, scale, ratio, interpolation }, draw) {
      const [top, left, height, width] = shape.resizedCropBox(
        [sample.height, sample.width],
        scale,
        ratio,
        draw,
      );
      sample.crop(top, left, height, width);
      shape.resize(sample, size, interpolation);
    },
  }),
  resize: kind({
    takes: { size: sides(), interpolation: sampling, max_size: only(null, "None alone"), antialias },
    acts: "places",
    after: ({ size }, [channels, ...from]) => [channels, ...shape.sizeAfter(size, from)],
    still: true,
    run: (sample, { size, interpolation }) =>
      shape.resize(sample, shape.sizeAfter(size, [sample.height, sample.width]), interpolation),
  }),
  centre_crop: kind({
    takes: { size: size(), pad_if_needed: truth(false) },
    acts: "places",
    after: ({ size, pad_if_needed }, [channels, ...from]) =>
      (pad_if_needed ? null : shape.cropProblem(size, from)) ?? [channels, ...size],
    still: true,
    run(sample, { size, pad_if_needed }) {
      if (pad_if_needed) padAsNeeded(sample, { size, padding: [0, 0, 0, 0], fill: null, mode: "constant" });
      shape.centreCrop(sample, size);
    },
  }),
  random_crop: kind({
    takes: {
      size: size(),
      padding: edges([0, 0, 0, 0]),
      pad_if_needed: truth(false),
      fill: fill([0]),
      padding_mode: mode,
    },
    acts: "places",
    after: ({ size, padding: [left, top, right, bottom], pad_if_needed }, [channels, height, width]) =>
      (pad_if_needed ? null : shape.cropProblem(
        size,
        [height + top + bottom, width + left + right],
        left + top + right + bottom > 0 ? " with its padding" : "",
      )) ?? [channels, ...size],
    still: ({ size, pad_if_needed }) => [["centre_crop", { size, pad_if_needed }]],
    opens: ({ padding, pad_if_needed }) => pad_if_needed || padding.some((side) => side > 0),
    run(sample, { size, padding, pad_if_needed, fill, padding_mode }, draw) {
      if (pad_if_needed) padAsNeeded(sample, { size, padding, fill, mode: padding_mode });
      else shape.pad(sample, { padding, fill, mode: padding_mode });
      shape.randomCrop(sample, size, draw);
    },
  }),
  pad: kind({
    takes: { padding: edges(), fill: fill([0]), padding_mode: mode },
    acts: "places",
    after: ({ padding: [left, top, right, bottom] }, [channels, height, width]) => [
      channels,
      height + top + bottom,
      width + left + right,
    ],
    still: true,
    opens: ({ padding_mode }) => padding_mode === "constant",
    run: (sample, { padding, fill, padding_mode }) =>
      shape.pad(sample, { padding, fill, mode: padding_mode }),
  }),
  horizontal_flip: kind({ takes: { p: chance(0.5) }, acts: "places", run: (sample) => sample.mirror() }),
  vertical_flip: kind({ takes: { p: chance(0.5) }, acts: "places", run: (sample) => sample.upsideDown() }),
  rotation: kind({
    takes: {
      degrees: angles(),
      ...{ interpolation: look("nearest", [0]).interpolation },
      expand: only(false, "false alone: a batch needs one size"),
      center: centre,
      fill: fill([0]),
    },
    acts: "places",
    opens: always,
    run(sample, { degrees: [low, high], interpolation, center, fill }, draw) {
      rotate(sample, { angle: between(low, high, draw(0)), centre: center }, { interpolation, fill });
    },
  }),
  quarter_turns: kind({
    takes: {},
    acts: "places",
    after: (_, [channels, height, width]) =>
      height === width
        ? [channels, height, width]
        : `is ${height} x ${width}, and quarter turns need squares: crop it to one first`,
    run: (sample, _, draw) => sample.quarters(below(4, draw(0))),
  }),
  affine: kind({
    takes: {
      degrees: angles(),
      translate: {
        ...both([0, 0], { min: 0, max: 1 }),
        says: "two shares of the width and height, from 0 to 1",
      },
      scale: pair([1, 1], [0.9, 1.1], { min: 0, above: true }),
      shear: angles([0, 0], [2, 4]),
      ...look("nearest", [0]),
      center: centre,
    },
    acts: "places",
    opens: always,
    bends: ({ shear }) => shear.some((angle) => angle !== 0),
    run(sample, { degrees, translate: [across, down], scale, shear, interpolation, fill, center }, draw) {
      const shift = (most: number, share: number) => round(between(-most, most, share));
      affine(sample, {
        angle: between(degrees[0], degrees[1], draw(0)),
        translate: [shift(across * sample.width, draw(1)), shift(down * sample.height, draw(2))],
        scale: between(scale[0], scale[1], draw(3)),
        shear: [
          between(shear[0], shear[1], draw(4)),
          shear.length === 4 ? between(shear[2], shear[3], draw(5)) : 0,
        ],
        centre: center,
      }, { interpolation, fill });
    },
  }),
  perspective: kind({
    takes: { distortion_scale: number(0.5, { min: 0, max: 1 }), p: chance(0.5), ...look("bilinear", [0]) },
    acts: "places",
    opens: always,
    bends: always,
    run(sample, { distortion_scale, interpolation, fill }, draw) {
      const { width, height } = sample;
      const reach = [width, height].map((side) => Math.floor(distortion_scale * Math.floor(side / 2)) + 1);
      const near = (axis: 0 | 1, k: number) => below(reach[axis], draw(k));
      const far = (axis: 0 | 1, k: number) =>
        [width, height][axis] - reach[axis] + below(reach[axis], draw(k));
      const start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]];
      const end = [[near(0, 0), near(1, 1)], [far(0, 2), near(1, 3)], [far(0, 4), far(1, 5)], [
        near(0, 6),
        far(1, 7),
      ]];
      perspective(sample, perspectiveOf(start, end), { interpolation, fill });
    },
  }),
  elastic: kind({
    takes: { alpha: twoSizes(50), sigma: twoSizes(5), ...look("bilinear", [0]) },
    also: ["ElasticTransform"],
    acts: "places",
    opens: always,
    bends: always,
    run(sample, { alpha, sigma, interpolation, fill }, draw) {
      const { width, height } = sample;
      const along = (axis: 0 | 1) => {
        const at = manyMore(draw, 2 * axis);
        const shifts = Float32Array.from({ length: width * height }, (_, i) => 2 * at(i) - 1);
        // torchvision blurs each direction with both deviations.
        const kernel = (sigma: number, own: number) => gaussianKernel(Math.floor(8 * own + 1) | 1, sigma);
        if (sigma[axis] > 0) {
          const [across, down] = sigma.map((one) => kernel(one, sigma[axis]));
          blurred(shifts, shifts, { height, width, whole: false }, across, down);
        }
        const by = alpha[axis] / [width, height][axis];
        return shifts.map((shift) => shift * by);
      };
      elastic(sample, along(0), along(1), { interpolation, fill });
    },
  }),
};

function padAsNeeded(
  sample: Sample,
  { size, padding, ...how }: shape.Padding & {
    readonly size: shape.Padding["padding"] | readonly [number, number];
  },
): void {
  const needed = shape.neededPadding(padding, [size[0], size[1]], [sample.height, sample.width]);
  shape.pad(sample, { ...how, padding: needed });
}

const p = chance(0.5);

const COLOURS: Readonly<Record<string, Kind>> = {
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
};

const VALUES: Readonly<Record<string, Kind>> = {
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

const policyLook = (interpolation: "nearest" | "bilinear") => look(interpolation, null);

const POLICIES: Readonly<Record<string, Kind>> = {
  rand_augment: kind({
    takes: {
      num_ops: whole(2, { min: 0, max: 100 }),
      magnitude: whole(9, { min: 0 }),
      num_magnitude_bins: whole(31, { min: 2 }),
      ...policyLook("nearest"),
    },
    also: ["RandAugment"],
    acts: "both",
    opens: always,
    bends: always,
    after: ({ magnitude, num_magnitude_bins: steps }, from) =>
      magnitude < steps
        ? from
        : `has magnitudes from 0 to ${steps - 1} (num_magnitude_bins), and not ${magnitude}`,
    run: (sample, { interpolation, fill, ...by }, draw) =>
      randAugment(sample, by, { interpolation, fill }, draw),
  }),
  trivial_augment: kind({
    takes: { num_magnitude_bins: whole(31, { min: 2 }), ...policyLook("nearest") },
    also: ["TrivialAugmentWide"],
    acts: "both",
    opens: always,
    bends: always,
    run: (sample, { num_magnitude_bins, ...look }, draw) =>
      trivialAugment(sample, num_magnitude_bins, look, draw),
  }),
  auto_augment: kind({
    takes: { policy: word(["imagenet", "cifar10", "svhn"], "imagenet"), ...policyLook("nearest") },
    acts: "both",
    opens: always,
    bends: always,
    run: (sample, { policy, ...look }, draw) => autoAugment(sample, policy, look, draw),
  }),
  aug_mix: kind({
    takes: {
      severity: whole(3, { min: 1, max: 10 }),
      mixture_width: whole(3, { min: 1, max: 16 }),
      chain_depth: whole(-1, { min: -1, max: 16 }),
      alpha: number(1, { min: 0, above: true }),
      all_ops: truth(true),
      ...policyLook("bilinear"),
    },
    acts: "both",
    alone: true,
    run: (sample, { interpolation, fill, ...by }, draw) => augMix(sample, by, { interpolation, fill }, draw),
  }),
};

export const KINDS: Readonly<Record<string, Kind>> = { ...PLACES, ...COLOURS, ...VALUES, ...POLICIES };
