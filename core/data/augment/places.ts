// Transforms of places, which masks and maps of targets follow: sizes, crops, padding, flips, turns and bends.
import {
  angles,
  type Argument,
  both,
  chance,
  edges,
  fill,
  number,
  only,
  pair,
  sides,
  size,
  truth,
  word,
} from "./arguments.ts";
import { blurred, gaussianKernel } from "./blur.ts";
import { always, type Kind, kind, look } from "./kind.ts";
import { below, between, manyMore, round, type Sample } from "./sample.ts";
import * as shape from "./shape.ts";
import { affine, elastic, perspective, perspectiveOf, rotate } from "./warp.ts";

const antialias = only(true, "true alone: shrinking without it makes patterns that are not there");
const ratio = pair([3 / 4, 4 / 3], [0.75, 1.33], { min: 0, above: true });
const sampling = word(["bilinear", "bicubic", "nearest"], "bilinear");
const centre: Argument<readonly [number, number] | null> = {
  read: (value) => value === null ? null : both(undefined).read(value),
  says: "(x, y) in pixels",
  otherwise: null,
};
const mode = word(["constant", "edge", "reflect", "symmetric"], "constant");

/** The sizes of an elastic distortion and of its blur. */
const twoSizes = (otherwise: number) => both([otherwise, otherwise], { min: 0 });

export const PLACES: Readonly<Record<string, Kind>> = {
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
