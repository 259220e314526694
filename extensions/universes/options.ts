// The options of made universes are declared once each, checked, and made into a simulation.
import { bool, choice, type ConfigOf, float, int, list } from "../../core/settings/setting.ts";
import { didYouMean } from "../../core/base/suggest.ts";
import { UserError } from "../../core/base/errors.ts";
import {
  type BoxOptions,
  COSMOLOGY_PRIOR,
  lptMaps,
  type Parameter,
  PARAMETERS,
  POSSIBLE,
  type Prior,
  type Simulation,
} from "./simulation.ts";
import { surveyMaps } from "./survey.ts";

const range = (name: Parameter) => `${name} ${COSMOLOGY_PRIOR[name].join("..")}`;

const BOX = {
  grid: int(64, {
    min: 16,
    max: 256,
    help: "cells along the side of the box, which are the pixels along the side of a map; an even number",
  }),
  box: float(256, { min: 10, max: 10_000, help: "side of the box, in Mpc/h" }),
  order: choice(["1", "2"], "2", {
    help: "of the perturbation theory: 1 is the approximation of Zel'dovich",
  }),
  targets: list({
    empty: "all that vary",
    help: `parameters to be inferred: some of ${PARAMETERS.join(",")}`,
  }),
  prior: list({
    empty: PARAMETERS.map(range).join(", "),
    help: "NAME=LOW..HIGH or NAME=VALUE for other ranges, or fixed values: omega_m=0.31,sigma_8=0.7..0.9",
  }),
};

const LPT = {
  maps: int(1, {
    min: 1,
    max: 256,
    help: "slabs that the box is cut into along the line of sight, each a map",
  }),
  redshift: float(1, { min: 0, max: 100, help: "when the universe is seen" }),
};

const DES = {
  field: float(5, { min: 0.1, max: 20, help: "side of the patch of sky, in degrees" }),
  bins: int(4, { min: 1, max: 16, help: "tomographic redshift bins, of equally many galaxies; each a map" }),
  median_redshift: float(0.6, { min: 0.1, max: 1.5, help: "of the galaxies" }),
  density: float(5.6, { min: 0.01, max: 1000, help: "galaxies in a square arcminute, in all bins together" }),
  ellipticity: float(0.37, {
    min: 0,
    max: 2,
    help: "sigma_e, the deviation of galaxies' own ellipticities; 0 for no noise",
  }),
  smoothing: float(5, { min: 0, max: 600, help: "deviation of the Gaussian, in arcminutes" }),
  masked: float(0.2, {
    min: 0,
    max: 0.9,
    help: "share of the patch that is not seen; convergence is 0 there",
  }),
  mask_map: bool(false, { help: "one more map: 1 where the survey has looked, 0 elsewhere" }),
};

type BoxValues = ConfigOf<typeof BOX>;

export type SimulationSpec =
  & { readonly seed: number }
  & (
    | { readonly kind: "2lpt"; readonly values: BoxValues & ConfigOf<typeof LPT> }
    | { readonly kind: "des"; readonly values: BoxValues & ConfigOf<typeof DES> }
  );

export const OPTIONS = { "2lpt": { ...BOX, ...LPT }, des: { ...BOX, ...DES } } as const;

export function usual<K extends keyof typeof OPTIONS>(kind: K): ConfigOf<typeof OPTIONS[K]> {
  const entries = Object.entries(OPTIONS[kind]).map(([name, option]) => [name, option.default]);
  return Object.fromEntries(entries) as ConfigOf<typeof OPTIONS[K]>;
}

export function simulation({ kind, values, seed }: SimulationSpec): Simulation {
  const options = boxOptions(values, seed);
  if (kind === "des") {
    const { field, bins, median_redshift, density, ellipticity, smoothing, masked, mask_map } = values;
    const galaxies = { bins, medianRedshift: median_redshift, density, ellipticity };
    return surveyMaps({ ...options, ...galaxies, field, smoothing, masked, maskMap: mask_map });
  }
  const { maps, redshift } = values;
  if (options.grid % maps !== 0) {
    throw new UserError(
      "usage",
      `A box of ${options.grid} cells can't be cut into ${maps} slabs of one thickness: ` +
        `take a number of maps that divides ${options.grid}.`,
    );
  }
  return lptMaps({ ...options, maps, redshift });
}

function boxOptions({ grid, box, order, targets, prior }: BoxValues, seed: number): BoxOptions {
  if (grid % 2 !== 0 || grid < BOX.grid.min! || grid > BOX.grid.max!) {
    throw new UserError(
      "usage",
      `A grid of ${grid} cells along the side (--grid, or model.image_size in training) can't be used: ` +
        `take an even number from ${BOX.grid.min} to ${BOX.grid.max}.`,
    );
  }
  const ranges = readPrior(prior);
  return {
    seed,
    grid,
    box,
    order: order === "1" ? 1 : 2,
    prior: ranges,
    targets: readTargets(targets, ranges),
  };
}

function readTargets(names: readonly string[], prior: Prior): readonly Parameter[] {
  const vary = PARAMETERS.filter((name) => prior[name][0] < prior[name][1]);
  const wanted = names.length > 0 ? names.map(parameter) : vary;
  const fixed = wanted.find((name) => !vary.includes(name));
  if (fixed) {
    throw new UserError(
      "usage",
      `${fixed} is fixed by --prior, so that it can't be inferred: leave it out of --targets.`,
    );
  }
  if (wanted.length > 0) return [...new Set(wanted)];
  throw new UserError(
    "usage",
    "--prior fixes all parameters: give one of them a range, such as sigma_8=0.6..1.",
  );
}

function readPrior(items: readonly string[]): Prior {
  const ranges: Record<Parameter, readonly [number, number]> = { ...COSMOLOGY_PRIOR };
  for (const item of items) {
    const [, name, low, high = low] = /^(\w+)=([-+.\de]+?)(?:\.\.([-+.\de]+))?$/i.exec(item) ?? [];
    if (name === undefined) {
      throw new UserError(
        "usage",
        `--prior has "${item}": write NAME=LOW..HIGH, such as sigma_8=0.6..1, or NAME=VALUE.`,
      );
    }
    const known = parameter(name),
      bounds = [Number(low), Number(high)] as const,
      [least, most] = POSSIBLE[known];
    if (!(bounds[0] >= least && bounds[0] <= bounds[1] && bounds[1] <= most)) {
      throw new UserError(
        "usage",
        `--prior has "${item}": ${known} goes from ${least} to ${most}, the lower bound first.`,
      );
    }
    ranges[known] = bounds;
  }
  if (ranges.omega_b[1] < ranges.omega_m[0]) return ranges;
  throw new UserError(
    "usage",
    `--prior lets omega_b be ${ranges.omega_b[1]} where omega_m is ${
      ranges.omega_m[0]
    }: baryons are a part of matter.`,
  );
}

function parameter(name: string): Parameter {
  const known = PARAMETERS.find((parameter) => parameter === name);
  if (known) return known;
  throw new UserError(
    "usage",
    `There is no parameter "${name}".${didYouMean(name, PARAMETERS)} They are ${PARAMETERS.join(", ")}.`,
  );
}
