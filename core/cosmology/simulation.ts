// What every kind of made universe is to those who store it, and the first kind: projected maps of matter by 2LPT.
// May import ffi, core/random, its siblings.
import { add, scalar } from "../../ffi/make.ts";
import { mul } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { key } from "../random.ts";
import { density } from "./cic.ts";
import { gaussianField } from "./gaussian.ts";
import { gridOf } from "./grid.ts";
import { displacement, factors, secondSource } from "./lpt.ts";
import { linearPower } from "./power.ts";
import { cosmologyOf, drawer, type Parameter, PARAMETERS, type Prior, type Role } from "./prior.ts";
import { project } from "./project.ts";

export interface Simulation {
  readonly kind: "2lpt" | "des";
  /** Of a sample: [maps, height, width], f32. */
  readonly shape: readonly [number, number, number];
  readonly targets: readonly Parameter[];
  /** Writes a sample, a function of its role and number alone. */
  make(role: Role, i: number, maps: Float32Array, targets: Float32Array): void;
  /** All that the samples depend on. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** One line for the user. */
  readonly said: string;
}

/** What all kinds take. */
export interface BoxOptions {
  readonly seed: number;
  /** Cells, and particles, along the side of the box. */
  readonly grid: number;
  /** Side of the box in Mpc/h. */
  readonly box: number;
  /** 1 leaves out the second order: the approximation of Zel'dovich. */
  readonly order: 1 | 2;
  readonly prior: Prior;
  readonly targets: readonly Parameter[];
}

export interface LptOptions extends BoxOptions {
  readonly redshift: number;
  /** Slabs that the box is cut into along the line of sight. */
  readonly maps: number;
}

/** Grows when a change of the program changes the numbers that are made. */
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
        const grid = gridOf(n);
        const delta = gaussianField(grid, box, linearPower(c), key(seed, "2lpt", role, "field", i));
        const [first, second] = factors(c, redshift);
        // scale() would keep each factor for good, and these are the sample's own.
        const times = (source: Tensor, factor: number) => mul(source, scalar(factor));
        const linear = times(delta, first);
        const source = order === 1 ? linear : add(linear, times(secondSource(grid, delta), second));
        into.set(project(density(displacement(grid, source)), n, maps));
      });
    },
    facts: factsOf(options),
    said:
      `${
        order === 1 ? "Zel'dovich" : "2LPT"
      } boxes of ${box} Mpc/h with ${n}^3 particles at redshift ${redshift}, ` +
      `seed ${seed}`,
  };
}

export const drawers = (
  { prior, seed }: BoxOptions,
  kind: string,
): Readonly<Record<Role, (i: number) => number[]>> => ({
  train: drawer(prior, seed, kind, "train"),
  val: drawer(prior, seed, kind, "val"),
});

export function chosen(values: readonly number[], targets: readonly Parameter[], into: Float32Array): void {
  targets.forEach((name, j) => into[j] = values[PARAMETERS.indexOf(name)]);
}
