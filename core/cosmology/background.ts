// A flat universe of matter and a cosmological constant: its parameters, distances, and how structure grows.
// May import quadrature.
import { integrate } from "./quadrature.ts";

export interface Cosmology {
  /** Matter and, of it, baryons; in units of the critical density today. */
  readonly omegaM: number;
  readonly omegaB: number;
  /** Hubble's constant in units of 100 km/s/Mpc. */
  readonly h: number;
  /** Slope of the primordial spectrum. */
  readonly ns: number;
  /** Rms of the linear density contrast today, in spheres of 8 Mpc/h. */
  readonly sigma8: number;
}

/** Speed of light over 100 km/s/Mpc: the Hubble length in Mpc/h. */
export const HUBBLE_LENGTH = 2997.92458;

/** H(z) / H0. */
export const expansion = ({ omegaM }: Cosmology, z: number): number =>
  Math.sqrt(omegaM * (1 + z) ** 3 + 1 - omegaM);

/** Share of matter in the density at redshift z. */
export const matterAt = (c: Cosmology, z: number): number => c.omegaM * (1 + z) ** 3 / expansion(c, z) ** 2;

/** Comoving distance in Mpc/h. */
export const distanceTo = (c: Cosmology, z: number): number =>
  HUBBLE_LENGTH * integrate((x) => 1 / expansion(c, x), 0, z, 128);

/** Linear growth since redshift z: 1 today. Heath's integral; radiation is left out. */
export const growth = (c: Cosmology, z: number): number => growing(c, z) / growing(c, 0);

/** H times the integral of da / (a H)^3, with a = u^2 so that the integrand is smooth at the beginning. */
function growing(c: Cosmology, z: number): number {
  const f = (u: number) => 2 * u ** 4 / (c.omegaM + (1 - c.omegaM) * u ** 6) ** 1.5;
  return expansion(c, z) * integrate(f, 0, 1 / Math.sqrt(1 + z), 128);
}
