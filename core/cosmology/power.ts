// The linear power spectrum of matter today, scaled to its sigma_8. k in h/Mpc, P in (Mpc/h)^3.
// May import background, quadrature, transfer.
import type { Cosmology } from "./background.ts";
import { integrate } from "./quadrature.ts";
import { transfer } from "./transfer.ts";

export type Power = (k: number) => number;

export function linearPower(c: Cosmology): Power {
  const growth = transfer(c);
  const shape: Power = (k) => k === 0 ? 0 : k ** c.ns * growth(k * c.h) ** 2;
  const height = (c.sigma8 / rmsInSpheres(shape, 8)) ** 2;
  return (k) => height * shape(k);
}

/** Rms of the density contrast in spheres of this radius in Mpc/h. */
export function rmsInSpheres(power: Power, radius: number): number {
  const perLogK = (logK: number) => {
    const k = Math.exp(logK);
    return k ** 3 * power(k) * sphere(k * radius) ** 2 / (2 * Math.PI ** 2);
  };
  // Outside of this range is less than 1e-7 of the integral, for any spectrum that structure could have grown from.
  return Math.sqrt(integrate(perLogK, Math.log(1e-3 / radius), Math.log(200 / radius), 2048));
}

/** The transform of a sphere of radius 1 that holds 1 in all. */
export function sphere(x: number): number {
  return x < 0.01 ? 1 - x * x / 10 : 3 * (Math.sin(x) - x * Math.cos(x)) / x ** 3;
}
