// Policies that others found: RandAugment, TrivialAugment (wide), AutoAugment and AugMix, with torchvision's operations and
// ranges. The draws of an operation are its own, so a mask goes where its picture goes.
import { number, truth, whole, word } from "./arguments.ts";
import { symmetricBeta } from "./beta.ts";
import {
  autocontrast,
  brightness,
  contrast,
  equalize,
  invert,
  posterize,
  saturation,
  solarize,
} from "./colour.ts";
import { sharpness } from "./blur.ts";
import { always, type Kind, kind, look } from "./kind.ts";
import { below, type Draw, manyMore, round, Sample } from "./sample.ts";
import { affine, type Look, rotate } from "./warp.ts";

/** Magnitudes of so many steps; null for an operation that has none. */
type Magnitudes = ((steps: number, height: number, width: number) => (at: number) => number) | null;

interface Ranged {
  readonly magnitudes: Magnitudes;
  readonly signed?: boolean;
}

type Space = Readonly<Partial<Record<Operation, Ranged>>>;

type Operation =
  | ("Identity" | "ShearX" | "ShearY" | "TranslateX" | "TranslateY" | "Rotate" | "Brightness" | "Color")
  | ("Contrast" | "Sharpness" | "Posterize" | "Solarize" | "AutoContrast" | "Equalize" | "Invert");

const upTo = (most: number | ((height: number, width: number) => number)): Ranged => ({
  signed: true,
  magnitudes: (steps, height, width) => (at) =>
    (typeof most === "number" ? most : most(height, width)) * at / (steps - 1),
});

const plain: Ranged = { magnitudes: null };
const bits = (most: number, less: number): Ranged => ({
  magnitudes: (steps) => (at) => round(most - at / ((steps - 1) / less)),
});
const downward: Ranged = { magnitudes: (steps) => (at) => 1 - at / (steps - 1) };

const moved = (shear: number, x: Ranged, y: Ranged, degrees: number): Space => ({
  ShearX: upTo(shear),
  ShearY: upTo(shear),
  TranslateX: x,
  TranslateY: y,
  Rotate: upTo(degrees),
});
const coloured = (most: number): Space => ({
  Brightness: upTo(most),
  Color: upTo(most),
  Contrast: upTo(most),
  Sharpness: upTo(most),
});
const toned = (posterized: Ranged): Space => ({
  Posterize: posterized,
  Solarize: downward,
  AutoContrast: plain,
  Equalize: plain,
});

const SHARE = 150 / 331;
const WIDE = moved(0.3, upTo((_, width) => SHARE * width), upTo((height) => SHARE * height), 30);

/** The order is torchvision's. */
const RAND: Space = { Identity: plain, ...WIDE, ...coloured(0.9), ...toned(bits(8, 4)) };
const TRIVIAL: Space = {
  Identity: plain,
  ...moved(0.99, upTo(32), upTo(32), 135),
  ...coloured(0.99),
  ...toned(bits(8, 6)),
};
const AUTO: Space = { ...WIDE, ...coloured(0.9), ...toned(bits(8, 4)), Invert: plain };
const MIX: Space = {
  ...moved(0.3, upTo((_, width) => width / 3), upTo((height) => height / 3), 30),
  ...toned(bits(4, 4)),
};
const MIX_ALL: Space = { ...MIX, ...coloured(0.9) };

/** Targets are moved, and not coloured. */
function operate(sample: Sample, operation: Operation, magnitude: number, look: Look): void {
  const moved = (more: object) =>
    affine(sample, { angle: 0, translate: [0, 0], scale: 1, shear: [0, 0], centre: null, ...more }, look);
  const degrees = Math.atan(magnitude) * 180 / Math.PI;
  switch (operation) {
    case "ShearX":
      return moved({ shear: [degrees, 0], centre: [0, 0] });
    case "ShearY":
      return moved({ shear: [0, degrees], centre: [0, 0] });
    case "TranslateX":
      return moved({ translate: [Math.trunc(magnitude), 0] });
    case "TranslateY":
      return moved({ translate: [0, Math.trunc(magnitude)] });
    case "Rotate":
      return rotate(sample, { angle: magnitude, centre: null }, look);
  }
  if (sample.role !== "picture") return;
  switch (operation) {
    case "Brightness":
      return brightness(sample, 1 + magnitude);
    case "Color":
      return saturation(sample, 1 + magnitude);
    case "Contrast":
      return contrast(sample, 1 + magnitude);
    case "Sharpness":
      return sharpness(sample, 1 + magnitude);
    case "Posterize":
      return posterize(sample, magnitude);
    case "Solarize":
      return solarize(sample, sample.most * magnitude);
    case "AutoContrast":
      return autocontrast(sample);
    case "Equalize":
      return equalize(sample);
    case "Invert":
      return invert(sample);
  }
}

interface Chosen {
  readonly steps: number;
  /** A magnitude among the steps. */
  readonly at: number;
  /** Its sign is drawn by this. */
  readonly sign: number;
}

function operateWith(sample: Sample, space: Space, operation: Operation, chosen: Chosen, look: Look): void {
  const { magnitudes, signed = false } = space[operation]!;
  const size = magnitudes?.(chosen.steps, sample.height, sample.width)(chosen.at) ?? 0;
  operate(sample, operation, signed && chosen.sign <= 0.5 ? -size : size, look);
}

const oneOf = (space: Space, share: number): Operation => {
  const names = Object.keys(space) as Operation[];
  return names[below(names.length, share)];
};

interface RandAugment {
  readonly num_ops: number;
  readonly magnitude: number;
  readonly num_magnitude_bins: number;
}

function randAugment(sample: Sample, by: RandAugment, look: Look, draw: Draw): void {
  for (let i = 0; i < by.num_ops; i++) {
    const chosen = { steps: by.num_magnitude_bins, at: by.magnitude, sign: draw(2 * i + 1) };
    operateWith(sample, RAND, oneOf(RAND, draw(2 * i)), chosen, look);
  }
}

function trivialAugment(sample: Sample, steps: number, look: Look, draw: Draw): void {
  const chosen = { steps, at: below(steps, draw(1)), sign: draw(2) };
  operateWith(sample, TRIVIAL, oneOf(TRIVIAL, draw(0)), chosen, look);
}

interface AugMix {
  readonly severity: number;
  readonly mixture_width: number;
  readonly chain_depth: number;
  readonly alpha: number;
  readonly all_ops: boolean;
}

const MAGNITUDES = 10;

/** Chains of operations are mixed with the picture itself, in shares from a Dirichlet distribution. */
function augMix(sample: Sample, by: AugMix, look: Look, draw: Draw): void {
  const { channels, height, width } = sample, from = sample.own().slice() as Uint8Array;
  const space = by.all_ops ? MIX_ALL : MIX, more = manyMore(draw, 0);
  const kept = symmetricBeta(by.alpha, (k) => more(1000 + k));
  const shares = dirichlet(by.alpha, by.mixture_width, (i, k) => more(100_000 * (i + 1) + k));
  const mixed = Float64Array.from(from, (x) => x * kept);
  for (let chain = 0; chain < by.mixture_width; chain++) {
    const of = (k: number) => draw(8 + 16 * chain + k);
    const data = from.slice(),
      copy = new Sample(sample.room, { data, shape: [channels, height, width] }, "picture", null);
    const depth = by.chain_depth > 0 ? by.chain_depth : 1 + below(3, of(0));
    for (let i = 0; i < depth; i++) {
      const chosen = {
        steps: MAGNITUDES,
        at: below(by.severity, more(10 * chain + 3 * i)),
        sign: more(500 + 50 * chain + i),
      };
      operateWith(copy, space, oneOf(space, more(200 + 50 * chain + i)), chosen, look);
    }
    const share = shares[chain] * (1 - kept), made = copy.own() as Uint8Array;
    for (let i = 0; i < mixed.length; i++) mixed[i] += share * made[i];
  }
  (sample.own() as Uint8Array).set(mixed);
}

/** From Gamma variables, by way of their logarithms: small alphas vanish otherwise. */
function dirichlet(alpha: number, count: number, draw: (i: number, k: number) => number): number[] {
  const logs = Array.from({ length: count }, (_, i) => logGamma(alpha, (k) => draw(i, k)));
  const most = Math.max(...logs), shares = logs.map((log) => Math.exp(log - most));
  const sum = shares.reduce((a, b) => a + b, 0);
  return shares.map((share) => share / sum);
}

/** Marsaglia and Tsang, 2000, with a power of a uniform number below 1. */
function logGamma(alpha: number, draw: (k: number) => number): number {
  const boost = alpha < 1 ? Math.log(draw(0) + 2 ** -33) / alpha : 0;
  const d = (alpha < 1 ? alpha + 1 : alpha) - 1 / 3, c = 1 / Math.sqrt(9 * d);
  for (let k = 1;; k += 3) {
    const normal = Math.sqrt(-2 * Math.log(draw(k) + 2 ** -33)) * Math.cos(2 * Math.PI * draw(k + 1));
    const v = (1 + c * normal) ** 3;
    if (v <= 0) continue;
    if (Math.log(draw(k + 2) + 2 ** -33) < normal * normal / 2 + d * (1 - v + Math.log(v))) {
      return Math.log(d * v) + boost;
    }
  }
}

type Part = readonly [operation: Operation, probability: number, magnitude?: number];
type Policy = readonly (readonly [Part, Part])[];

function autoAugment(sample: Sample, policy: keyof typeof POLICIES, look: Look, draw: Draw): void {
  const policies: Policy = POLICIES[policy];
  policies[below(policies.length, draw(0))].forEach(([operation, probability, at = 0], i) => {
    if (draw(1 + 2 * i) > probability || probability === 0) return;
    operateWith(sample, AUTO, operation, { steps: MAGNITUDES, at, sign: draw(2 + 2 * i) }, look);
  });
}

// deno-fmt-ignore: one line each
const POLICIES = {
  imagenet: [
    [["Posterize", 0.4, 8], ["Rotate", 0.6, 9]],
    [["Solarize", 0.6, 5], ["AutoContrast", 0.6]],
    [["Equalize", 0.8], ["Equalize", 0.6]],
    [["Posterize", 0.6, 7], ["Posterize", 0.6, 6]],
    [["Equalize", 0.4], ["Solarize", 0.2, 4]],
    [["Equalize", 0.4], ["Rotate", 0.8, 8]],
    [["Solarize", 0.6, 3], ["Equalize", 0.6]],
    [["Posterize", 0.8, 5], ["Equalize", 1]],
    [["Rotate", 0.2, 3], ["Solarize", 0.6, 8]],
    [["Equalize", 0.6], ["Posterize", 0.4, 6]],
    [["Rotate", 0.8, 8], ["Color", 0.4, 0]],
    [["Rotate", 0.4, 9], ["Equalize", 0.6]],
    [["Equalize", 0], ["Equalize", 0.8]],
    [["Invert", 0.6], ["Equalize", 1]],
    [["Color", 0.6, 4], ["Contrast", 1, 8]],
    [["Rotate", 0.8, 8], ["Color", 1, 2]],
    [["Color", 0.8, 8], ["Solarize", 0.8, 7]],
    [["Sharpness", 0.4, 7], ["Invert", 0.6]],
    [["ShearX", 0.6, 5], ["Equalize", 1]],
    [["Color", 0.4, 0], ["Equalize", 0.6]],
    [["Equalize", 0.4], ["Solarize", 0.2, 4]],
    [["Solarize", 0.6, 5], ["AutoContrast", 0.6]],
    [["Invert", 0.6], ["Equalize", 1]],
    [["Color", 0.6, 4], ["Contrast", 1, 8]],
    [["Equalize", 0.8], ["Equalize", 0.6]],
  ],
  cifar10: [
    [["Invert", 0.1], ["Contrast", 0.2, 6]],
    [["Rotate", 0.7, 2], ["TranslateX", 0.3, 9]],
    [["Sharpness", 0.8, 1], ["Sharpness", 0.9, 3]],
    [["ShearY", 0.5, 8], ["TranslateY", 0.7, 9]],
    [["AutoContrast", 0.5], ["Equalize", 0.9]],
    [["ShearY", 0.2, 7], ["Posterize", 0.3, 7]],
    [["Color", 0.4, 3], ["Brightness", 0.6, 7]],
    [["Sharpness", 0.3, 9], ["Brightness", 0.7, 9]],
    [["Equalize", 0.6], ["Equalize", 0.5]],
    [["Contrast", 0.6, 7], ["Sharpness", 0.6, 5]],
    [["Color", 0.7, 7], ["TranslateX", 0.5, 8]],
    [["Equalize", 0.3], ["AutoContrast", 0.4]],
    [["TranslateY", 0.4, 3], ["Sharpness", 0.2, 6]],
    [["Brightness", 0.9, 6], ["Color", 0.2, 8]],
    [["Solarize", 0.5, 2], ["Invert", 0]],
    [["Equalize", 0.2], ["AutoContrast", 0.6]],
    [["Equalize", 0.2], ["Equalize", 0.6]],
    [["Color", 0.9, 9], ["Equalize", 0.6]],
    [["AutoContrast", 0.8], ["Solarize", 0.2, 8]],
    [["Brightness", 0.1, 3], ["Color", 0.7, 0]],
    [["Solarize", 0.4, 5], ["AutoContrast", 0.9]],
    [["TranslateY", 0.9, 9], ["TranslateY", 0.7, 9]],
    [["AutoContrast", 0.9], ["Solarize", 0.8, 3]],
    [["Equalize", 0.8], ["Invert", 0.1]],
    [["TranslateY", 0.7, 9], ["AutoContrast", 0.9]],
  ],
  svhn: [
    [["ShearX", 0.9, 4], ["Invert", 0.2]],
    [["ShearY", 0.9, 8], ["Invert", 0.7]],
    [["Equalize", 0.6], ["Solarize", 0.6, 6]],
    [["Invert", 0.9], ["Equalize", 0.6]],
    [["Equalize", 0.6], ["Rotate", 0.9, 3]],
    [["ShearX", 0.9, 4], ["AutoContrast", 0.8]],
    [["ShearY", 0.9, 8], ["Invert", 0.4]],
    [["ShearY", 0.9, 5], ["Solarize", 0.2, 6]],
    [["Invert", 0.9], ["AutoContrast", 0.8]],
    [["Equalize", 0.6], ["Rotate", 0.9, 3]],
    [["ShearX", 0.9, 4], ["Solarize", 0.3, 3]],
    [["ShearY", 0.8, 8], ["Invert", 0.7]],
    [["Equalize", 0.9], ["TranslateY", 0.6, 6]],
    [["Invert", 0.9], ["Equalize", 0.6]],
    [["Contrast", 0.3, 3], ["Rotate", 0.8, 4]],
    [["Invert", 0.8], ["TranslateY", 0, 2]],
    [["ShearY", 0.7, 6], ["Solarize", 0.4, 8]],
    [["Invert", 0.6], ["Rotate", 0.8, 4]],
    [["ShearY", 0.3, 7], ["TranslateX", 0.9, 3]],
    [["ShearX", 0.1, 6], ["Invert", 0.6]],
    [["Solarize", 0.7, 2], ["TranslateY", 0.6, 7]],
    [["ShearY", 0.8, 4], ["Invert", 0.8]],
    [["ShearX", 0.7, 9], ["TranslateY", 0.8, 3]],
    [["ShearY", 0.8, 5], ["AutoContrast", 0.7]],
    [["ShearX", 0.7, 2], ["Invert", 0.1]],
  ],
} as const satisfies Record<string, Policy>;

const policyLook = (interpolation: "nearest" | "bilinear") => look(interpolation, null);

export const POLICY_KINDS: Readonly<Record<string, Kind>> = {
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
