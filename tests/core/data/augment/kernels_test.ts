// Every kernel of the transforms beside torchvision v2's, given the same parameters: bytes to one level, floats to 1e-5.
import { assert, assertEquals } from "@std/assert";
import { key, uniform } from "../../../../core/base/random.ts";
import { asJpeg } from "../../../../core/data/augment/compressed.ts";
import { gaussianBlur, sharpness } from "../../../../core/data/augment/blur.ts";
import * as colour from "../../../../core/data/augment/colour.ts";
import { erase } from "../../../../core/data/augment/erase.ts";
import { planesOf } from "../../../../core/data/augment/planes.ts";
import { Room, Sample } from "../../../../core/data/augment/sample.ts";
import { centreCrop, pad, type PaddingMode, resize, sizeAfter } from "../../../../core/data/augment/shape.ts";
import {
  affine,
  elastic,
  type Interpolation,
  perspective,
  perspectiveOf,
  rotate,
} from "../../../../core/data/augment/warp.ts";
import { askPeer } from "../../../peer.ts";

interface Case {
  readonly kernel: string;
  readonly type: "u8" | "f32" | "mask";
  readonly shape: readonly [number, number, number];
  readonly values: number[];
  readonly [parameter: string]: unknown;
}

const random = uniform(key(8, "kernels test"));
let drawn = 0;
const next = (low: number, high: number) => low + (high - low) * random(drawn++);

/** Smooth enough that a place's last bits do not count, with noise on it. */
function picture(type: Case["type"], [channels, height, width]: readonly number[]): number[] {
  return Array.from({ length: channels * height * width }, (_, i) => {
    const x = i % width, y = Math.floor(i / width) % height, c = Math.floor(i / width / height);
    if (type === "mask") return (x >> 3) + 5 * (y >> 2);
    const value = 0.5 + 0.3 * Math.sin(x / 5 + c) * Math.cos(y / 4 - c) + next(-0.15, 0.15);
    return type === "u8" ? Math.round(255 * value) : Math.fround(value);
  });
}

const ODD = [3, 37, 45] as const, SQUARE = [3, 40, 40] as const, GREY = [1, 33, 29] as const;
const BOTH = ["u8", "f32"] as const, WAYS = ["nearest", "bilinear"] as const;

const made = (type: Case["type"], shape: Case["shape"], kernel: string, more: object): Case => ({
  ...{ kernel, type, shape, values: picture(type, shape) },
  ...more,
});

/** The fill of floats is from 0 to 1. */
const fills = (type: Case["type"], channels: number): (number[] | null)[] => [
  null,
  [0],
  Array.from({ length: channels }, (_, c) => type === "f32" ? 0.2 * (c + 1) : 60 * (c + 1)),
];

const places = (type: Case["type"]): Case[] =>
  [ODD, SQUARE, GREY].flatMap((shape) =>
    (type === "mask" ? ["nearest"] as const : WAYS).flatMap((mode) =>
      fills(type, shape[0]).flatMap((fill) => {
        const center = fill === null ? [11, 7] : null, look = { mode, fill, center };
        const [, height, width] = shape;
        const shake = () => Math.floor(next(0, 9));
        const end = [[shake(), shake()], [width - 1 - shake(), shake()], [
          width - 1 - shake(),
          height - 1 - shake(),
        ], [
          shake(),
          height - 1 - shake(),
        ]];
        const shift = () => Array.from({ length: height * width }, () => Math.fround(next(-0.2, 0.2)));
        return [
          ...[37.3, -12.9, 90, 180, 270, 450].map((angle) => made(type, shape, "rotate", { ...look, angle })),
          made(type, shape, "affine", {
            ...look,
            angle: 21.7,
            translate: [3, -5],
            scale: 1.13,
            shear: [7.1, -4.2],
          }),
          made(type, shape, "affine", {
            ...look,
            angle: 0,
            translate: [6, 0],
            scale: 1,
            shear: [0, 0],
            center: null,
          }),
          made(type, shape, "affine", {
            ...look,
            angle: 0,
            translate: [0, 0],
            scale: 1,
            shear: [16.69, 0],
            center: [0, 0],
          }),
          made(type, shape, "perspective", { ...look, start: corners(height, width), end }),
          made(type, shape, "elastic", { ...look, dx: shift(), dy: shift() }),
        ];
      })
    )
  );

const corners = (
  height: number,
  width: number,
) => [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]];

const sizes = (type: Case["type"]): Case[] =>
  (type === "mask" ? ["nearest"] : ["bilinear", "bicubic", "nearest"]).flatMap((mode) => [
    made(type, ODD, "resized_crop", { mode, box: [4, 9, 20, 31], size: [24, 24] }),
    made(type, ODD, "resized_crop", { mode, box: [0, 0, 37, 45], size: [11, 60] }),
    made(type, GREY, "resized_crop", { mode, box: [3, 2, 27, 11], size: [16, 16] }),
    made(type, ODD, "resize", { mode, size: [19] }),
    made(type, GREY, "resize", { mode, size: [64, 40] }),
  ]);

const padded = (type: Case["type"]): Case[] => [
  ...(["constant", "edge", "reflect", "symmetric"] as const).map((mode) =>
    made(type, ODD, "pad", { mode, padding: [3, 5, 8, 1], fill: type === "f32" ? 0.25 : 7 })
  ),
  made(type, ODD, "center_crop", { size: [20, 31] }),
  made(type, ODD, "center_crop", { size: [37, 12] }),
];

const coloured = (type: "u8" | "f32"): Case[] =>
  [ODD, GREY].flatMap((shape) => {
    const of = (kernel: string, more: object = {}) => made(type, shape, kernel, more);
    const unit = type === "u8" ? 255 : 1;
    return [
      ...["brightness", "contrast", "saturation", "sharpness"].flatMap((kernel) =>
        [0, 0.37, 1, 1.9].map((factor) => of(kernel, { factor }))
      ),
      ...[-0.5, -0.13, 0, 0.21, 0.5].map((factor) => of("hue", { factor })),
      ...[1, 3].map((channels) => of("grayscale", { channels })),
      ...[1, 3, 8].map((bits) => of("posterize", { bits })),
      ...[0.2, 0.6].map((share) => of("solarize", { threshold: Math.round(share * unit * 100) / 100 })),
      ...["invert", "autocontrast", "equalize"].map((kernel) => of(kernel)),
      ...[[3, 3, 0.7], [9, 5, 2.1], [23, 23, 1.3]].map(([x, y, sigma]) =>
        of("gaussian_blur", { sides: [x, y], sigma })
      ),
      of("erase", {
        box: [4, 6, 11, 9],
        value: Array.from({ length: shape[0] }, (_, c) => type === "u8" ? 20 * c : c / 4),
      }),
    ];
  });

/** A flat picture has no contrast to spread and no levels to even out. */
const flat = (type: "u8" | "f32"): Case[] =>
  ["autocontrast", "equalize"].map((kernel) => ({
    ...made(type, ODD, kernel, {}),
    values: Array.from({ length: 3 * 37 * 45 }, () => type === "u8" ? 77 : 0.25),
  }));

/** Odd sides end within a block of colours, and few qualities keep or lose all. */
const compressed = [ODD, SQUARE, GREY, [3, 17, 16] as const, [3, 2, 5] as const].flatMap((shape) =>
  [1, 5, 30, 50, 75, 95, 100].map((quality) => made("u8", shape, "jpeg", { quality }))
);

const CASES: Case[] = [
  ...BOTH.flatMap((
    type,
  ) => [...places(type), ...sizes(type), ...padded(type), ...coloured(type), ...flat(type)]),
  ...compressed,
  ...places("mask"),
  ...sizes("mask"),
  ...padded("mask"),
];

// deno-lint-ignore no-explicit-any
const OURS: Record<string, (sample: Sample, c: any) => void> = {
  rotate: (s, { angle, center, mode, fill }) =>
    rotate(s, { angle, centre: center }, { interpolation: mode, fill }),
  affine: (s, { center, mode, fill, ...by }) =>
    affine(s, { ...by, centre: center }, { interpolation: mode, fill }),
  perspective: (s, { start, end, mode, fill }) =>
    perspective(s, perspectiveOf(start, end), { interpolation: mode as Interpolation, fill }),
  elastic: (s, { dx, dy, mode, fill }) =>
    elastic(s, Float32Array.from(dx), Float32Array.from(dy), { interpolation: mode, fill }),
  resized_crop(s, { box: [top, left, height, width], size, mode }) {
    s.crop(top, left, height, width);
    resize(s, size, mode);
  },
  resize: (s, { size, mode }) => resize(s, sizeAfter(size, [s.height, s.width]), mode),
  center_crop: (s, { size }) => centreCrop(s, size),
  pad: (s, { padding, mode, fill }) => pad(s, { padding, mode: mode as PaddingMode, fill: [fill] }),
  brightness: (s, { factor }) => colour.brightness(s, factor),
  contrast: (s, { factor }) => colour.contrast(s, factor),
  saturation: (s, { factor }) => colour.saturation(s, factor),
  hue: (s, { factor }) => colour.hue(s, factor),
  sharpness: (s, { factor }) => sharpness(s, factor),
  grayscale: (s, { channels }) => colour.grey(s, channels),
  posterize: (s, { bits }) => colour.posterize(s, bits),
  solarize: (s, { threshold }) => colour.solarize(s, threshold),
  invert: colour.invert,
  autocontrast: colour.autocontrast,
  equalize: colour.equalize,
  jpeg: (s, { quality }) => asJpeg(s, quality),
  gaussian_blur: (s, { sides, sigma }) => gaussianBlur(s, sides, sigma),
  erase: (s, { box: [top, left, height, width], value }) =>
    erase(s, { top, left, height, width }, value, { shares: false, mean: null, std: null }, () => 0),
};

/** Rows stand in memory as a decoder leaves them: channels side by side. */
function stored({ type, shape: [channels, height, width], values }: Case) {
  const data = type === "f32" ? new Float32Array(values.length) : new Uint8Array(values.length);
  values.forEach((value, i) =>
    data[i % (height * width) * channels + Math.floor(i / (height * width))] = value
  );
  return { data, shape: [channels, height, width], strides: [1, width * channels, channels] };
}

const room = new Room();

function ourAnswer(c: Case): { shape: number[]; values: number[] } {
  const role = c.type === "mask" ? "classes" : "picture";
  const fill = c.fill as number | number[] | null | undefined;
  const outside = c.type === "mask" ? (Array.isArray(fill) ? fill[0] : fill ?? 0) : null;
  const sample = new Sample(room, stored(c), role, outside);
  OURS[c.kernel](sample, c);
  const { channels, height, width } = sample;
  const into = new (planesOf(stored(c)).data.constructor as Uint8ArrayConstructor)(channels * height * width);
  sample.writeTo(into);
  return { shape: [channels, height, width], values: [...into] };
}

Deno.test("every kernel gives torchvision's pixels: bytes to one level, floats to 1e-5, masks class by class", async () => {
  const theirs = await askPeer<{ shape: number[]; values: number[] }[]>(
    "torchvision_kernels.py",
    CASES.map((c) => c.type === "mask" && Array.isArray(c.fill) ? { ...c, fill: c.fill[0] } : c),
  );
  const wrong: string[] = [];
  CASES.forEach((c, i) => {
    const { values: _, dx: _x, dy: _y, ...about } = c, found = ourAnswer(c), expected = theirs[i];
    assertEquals(found.shape, expected.shape, JSON.stringify(about));
    const tolerance = c.type === "u8" ? 1 : c.type === "f32" ? 1e-5 : 0;
    const far = found.values.filter((value, k) =>
      !(Math.abs(value - expected.values[k]) <= tolerance)
    ).length;
    if (far > 0) wrong.push(`${far} of ${found.values.length}: ${JSON.stringify(about)}`);
  });
  assertEquals(wrong, []);
  assert(CASES.length > 400, String(CASES.length));
});
