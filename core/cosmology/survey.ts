// Maps as a weak-lensing survey sees them: convergence in tomographic bins, with the noise of galaxies' own shapes,
// smoothed, and only where the survey has looked. May import ffi, core/random, its siblings.
import { scope } from "../../ffi/tensor.ts";
import { key, uniform } from "../random.ts";
import type { Cosmology } from "./background.ts";
import { sheet } from "./cic.ts";
import { footprint } from "./footprint.ts";
import { gaussianField, normals } from "./gaussian.ts";
import { gridOf } from "./grid.ts";
import { addSheet, slabsOf } from "./lensing.ts";
import { displacement, factors, secondSource } from "./lpt.ts";
import { linearPower } from "./power.ts";
import { cosmologyOf } from "./prior.ts";
import { type Bins, tomography } from "./redshifts.ts";
import { type BoxOptions, chosen, drawers, factsOf, type Simulation } from "./simulation.ts";
import { smooth } from "./smoothing.ts";

export interface SurveyOptions extends BoxOptions {
  /** Side of the patch, in degrees. */
  readonly field: number;
  readonly bins: number;
  /** Of the galaxies. */
  readonly medianRedshift: number;
  /** Galaxies in a square arcminute, in all bins together. */
  readonly density: number;
  /** Deviation of the two components of a galaxy's own ellipticity together. */
  readonly ellipticity: number;
  /** Deviation of the Gaussian, in arcminutes. */
  readonly smoothing: number;
  /** Share of the patch that is not seen. */
  readonly masked: number;
  /** Whether the last map is 1 where the survey has looked and 0 elsewhere. */
  readonly maskMap: boolean;
}

export function surveyMaps(options: SurveyOptions): Simulation {
  const { seed, grid: n, box, bins: count, field, smoothing, masked, maskMap, targets } = options;
  const bins = tomography(options.medianRedshift, count);
  const drawn = drawers(options, "des");
  const plane = n * n, noise = shapeNoise(options);
  const blur = smoothing / (60 * field / n);
  return {
    kind: "des",
    shape: [count + (maskMap ? 1 : 0), n, n],
    targets,
    make(role, i, into, parameters) {
      const of = (what: string) => key(seed, "des", role, what, i);
      const values = drawn[role](i);
      chosen(values, targets, parameters);
      const maps = convergence(cosmologyOf(values), bins, options, of);
      const shapes = normals(of("shapes"), count * plane);
      const seen = footprint(n, masked, of("footprint"));
      for (let bin = 0; bin < count; bin++) {
        const map = maps.subarray(bin * plane, (bin + 1) * plane).map((x, j) =>
          x + noise * shapes[bin * plane + j]
        );
        into.set(smooth(map, seen, n, blur), bin * plane);
      }
      if (maskMap) into.set(seen, count * plane);
    },
    facts: factsOf(options),
    said:
      `a survey of ${field} x ${field} degrees with ${count} bins, ${options.density} galaxies an arcmin^2, ` +
      `${Math.round(100 * masked)}% masked, by ${
        options.order === 1 ? "Zel'dovich" : "2LPT"
      } boxes of ${box} Mpc/h, seed ${seed}`,
  };
}

/** Deviation that the galaxies' own shapes give to the convergence of a pixel of one bin. */
export function shapeNoise({ grid, field, bins, density, ellipticity }: SurveyOptions): number {
  const pixel = (60 * field / grid) ** 2;
  return ellipticity / Math.sqrt(2 * density / bins * pixel);
}

/**
 * Convergence without noise [bins, n, n]. One box, at the age of each slab, is seen along another axis, from another
 * corner and perhaps in a mirror in each slab of its own length, so that no structure stands behind itself.
 */
export function convergence(
  c: Cosmology,
  bins: Bins,
  { grid: n, box, order, field }: SurveyOptions,
  of: (what: string) => bigint,
): Float64Array {
  const maps = new Float64Array(bins.shares.length * n * n);
  const at = uniform(of("views"));
  const degree = Math.PI / 180;
  scope(() => {
    const grid = gridOf(n);
    const delta = gaussianField(grid, box, linearPower(c), of("field"));
    const first = displacement(grid, delta);
    const second = order === 1 ? first : displacement(grid, secondSource(grid, delta));
    slabsOf(c, bins, box).forEach(({ distance, redshift, weights }, slab) => {
      if (weights.every((weight) => weight === 0)) return;
      const [d1, d2] = factors(c, redshift);
      const draw = (k: number) => at(8 * slab + k);
      const axis = Math.floor(3 * draw(0)), step = distance * field * degree / box; // cells a pixel: as many of both
      const mirrored = (k: number) => draw(k) < 0.5 ? step : -step;
      const view = { axis, shift: [n * draw(1), n * draw(2)], step: [mirrored(3), mirrored(4)] } as const;
      addSheet(maps, n, weights, sheet(first, second, [d1, order === 1 ? 0 : d2], axis), n, view);
    });
  });
  return maps;
}
