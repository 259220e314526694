// Simulations draw parameters from a prior; the first kind is projected maps of matter by 2LPT.
import { key, uniform } from "../../core/base/random.ts";
import {
  type Cosmology,
  density,
  displacement,
  factors,
  gaussianField,
  linearPower,
  secondSource,
  simulationGrid,
} from "./fields.ts";
import { add, scalar } from "../../ffi/make.ts";
import { mul } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";

export const PARAMETERS = ["omega_m", "omega_b", "h", "n_s", "sigma_8"] as const;
export type Parameter = typeof PARAMETERS[number];

/** Parameters are uniform between the bounds; equal bounds fix one. */
export type Prior = Readonly<Record<Parameter, readonly [low: number, high: number]>>;

/** The prior is wide in the two that maps of matter tell apart, and narrow around Planck's others. */
export const COSMOLOGY_PRIOR: Prior = {
  omega_m: [0.1, 0.5],
  omega_b: [0.04, 0.06],
  h: [0.6, 0.75],
  n_s: [0.92, 1.01],
  sigma_8: [0.6, 1],
};

export const POSSIBLE: Prior = {
  omega_m: [0.05, 0.95],
  omega_b: [0.005, 0.1],
  h: [0.4, 1],
  n_s: [0.5, 1.5],
  sigma_8: [0.1, 2],
};

export type SampleRole = "train" | "val";

export function drawer(prior: Prior, seed: number, kind: string, role: SampleRole): (i: number) => number[] {
  const at = uniform(key(seed, kind, role, "parameters"));
  return (i) =>
    PARAMETERS.map((name, j) => {
      const [low, high] = prior[name];
      return low + (high - low) * at(i * PARAMETERS.length + j);
    });
}

export const cosmologyOf = ([omegaM, omegaB, h, ns, sigma8]: readonly number[]): Cosmology => ({
  omegaM,
  omegaB,
  h,
  ns,
  sigma8,
});

/** Slabs of equal thickness give [maps, n, n]; the line of sight is the first axis. */
export function project(density: Float32Array, n: number, maps: number): Float32Array {
  const plane = n * n, depth = n / maps;
  const out = new Float32Array(maps * plane);
  for (let x = 0; x < n; x++) {
    const into = Math.floor(x / depth) * plane, from = x * plane;
    for (let i = 0; i < plane; i++) out[into + i] += density[from + i] / depth;
  }
  return out;
}

export interface Simulation {
  readonly kind: "2lpt" | "des";
  /** A sample is shaped [maps, height, width], f32. */
  readonly shape: readonly [number, number, number];
  readonly targets: readonly Parameter[];
  /** A sample is a function of its role and number alone. */
  make(role: SampleRole, i: number, maps: Float32Array, targets: Float32Array): void;
  readonly facts: Readonly<Record<string, unknown>>;
  readonly description: string;
}

export interface BoxOptions {
  readonly seed: number;
  readonly grid: number;
  /** The side is in Mpc/h. */
  readonly box: number;
  /** 1 leaves out the second order: the Zel'dovich approximation. */
  readonly order: 1 | 2;
  readonly prior: Prior;
  readonly targets: readonly Parameter[];
}

interface LptOptions extends BoxOptions {
  readonly redshift: number;
  readonly maps: number;
}

/** The recipe's number grows when a change alters the numbers made. */
const RECIPE = 1;

export const factsOf = (options: BoxOptions) => ({
  recipe: RECIPE,
  transfer: "Eisenstein & Hu 1998",
  ...options,
});

export function lptMaps(options: LptOptions): Simulation {
  const { seed, grid: n, box, order, maps, redshift, targets } = options;
  const drawn = drawers(options, "2lpt");
  return {
    kind: "2lpt",
    shape: [maps, n, n],
    targets,
    make(role, i, into, parameters) {
      const values = drawn[role](i);
      chosen(values, targets, parameters);
      const c = cosmologyOf(values);
      scope(() => {
        const grid = simulationGrid(n);
        const delta = gaussianField(grid, box, linearPower(c), key(seed, "2lpt", role, "field", i));
        const [first, second] = factors(c, redshift);
        // scale() would keep each factor for good, and these belong to one sample.
        const times = (source: Tensor, factor: number) => mul(source, scalar(factor));
        const linear = times(delta, first);
        const source = order === 1 ? linear : add(linear, times(secondSource(grid, delta), second));
        into.set(project(density(displacement(grid, source)), n, maps));
      });
    },
    facts: factsOf(options),
    description:
      `${
        order === 1 ? "Zel'dovich" : "2LPT"
      } boxes of ${box} Mpc/h with ${n}^3 particles at redshift ${redshift}, ` +
      `seed ${seed}`,
  };
}

export const drawers = (
  { prior, seed }: BoxOptions,
  kind: string,
): Readonly<Record<SampleRole, (i: number) => number[]>> => ({
  train: drawer(prior, seed, kind, "train"),
  val: drawer(prior, seed, kind, "val"),
});

export function chosen(values: readonly number[], targets: readonly Parameter[], into: Float32Array): void {
  targets.forEach((name, j) => into[j] = values[PARAMETERS.indexOf(name)]);
}
