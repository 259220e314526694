// The parameters of made universes: their names, the ranges they are drawn from, and the draw of each sample.
// May import background, core/random.
import { key, uniform } from "../random.ts";
import type { Cosmology } from "./background.ts";

/** In the order in which they are stored. */
export const PARAMETERS = ["omega_m", "omega_b", "h", "n_s", "sigma_8"] as const;
export type Parameter = typeof PARAMETERS[number];

/** Uniform between the two; a parameter whose bounds are equal is fixed. */
export type Prior = Readonly<Record<Parameter, readonly [low: number, high: number]>>;

/** Wide in the two that maps of matter tell apart, around Planck's values in the others. */
export const PRIOR: Prior = {
  omega_m: [0.1, 0.5],
  omega_b: [0.04, 0.06],
  h: [0.6, 0.75],
  n_s: [0.92, 1.01],
  sigma_8: [0.6, 1],
};

/** Where the fits hold, and a universe could be ours at all. */
export const POSSIBLE: Prior = {
  omega_m: [0.05, 0.95],
  omega_b: [0.005, 0.1],
  h: [0.4, 1],
  n_s: [0.5, 1.5],
  sigma_8: [0.1, 2],
};

export type Role = "train" | "val";

/** The parameters of sample `i`, in order. */
export function drawer(prior: Prior, seed: number, kind: string, role: Role): (i: number) => number[] {
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
