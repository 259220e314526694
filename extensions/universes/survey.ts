// Maps as a weak-lensing survey sees them: convergence in tomographic bins, with shape noise, smoothing and a
// footprint.
import {
  type Cosmology,
  densitySheet,
  displacement,
  distanceTo,
  factors,
  gaussianField,
  HUBBLE_LENGTH,
  linearPower,
  normalNumbers,
  secondSource,
  simulationGrid,
} from "./fields.ts";
import { key, uniform } from "../../core/base/random.ts";
import { scope } from "../../ffi/tensor.ts";
import { type BoxOptions, chosen, cosmologyOf, drawers, factsOf, type Simulation } from "./simulation.ts";

/** Nothing beyond this redshift is simulated. */
const FARTHEST = 2;
const NODES = 200;
/** The scatter of measured redshifts, in units of 1 + z. */
const SCATTER = 0.05;

export interface Bins {
  readonly z: Float64Array;
  /** Each bin's shares of its galaxies at each redshift add up to 1. */
  readonly shares: readonly Float64Array[];
}

/**
 * n(z) = z^2 exp(-(z / z0)^1.5) (Smail et al. 1994). Bins hold equally many galaxies by measured redshift,
 * whose scatter of 0.05 (1 + z) makes neighbours overlap.
 */
export function tomography(median: number, count: number): Bins {
  const z = Float64Array.from({ length: NODES }, (_, i) => FARTHEST * (i + 0.5) / NODES);
  const all = normalised(z.map((z) => z ** 2 * Math.exp(-((z * 1.412 / median) ** 1.5))));
  const edges = Array.from({ length: count + 1 }, (_, i) => quantile(z, all, i / count));
  edges[0] = -Infinity;
  edges[count] = Infinity;
  const shares = edges.slice(1).map((to, bin) =>
    normalised(all.map((share, i) => {
      const width = Math.SQRT2 * SCATTER * (1 + z[i]);
      return share * (erf((to - z[i]) / width) - erf((edges[bin] - z[i]) / width));
    }))
  );
  return { z, shares };
}

function normalised(values: Float64Array): Float64Array {
  const sum = values.reduce((a, b) => a + b, 0);
  return values.map((value) => value / sum);
}

function quantile(z: Float64Array, shares: Float64Array, wanted: number): number {
  let sum = 0;
  for (let i = 0; i < z.length; i++) {
    if (sum + shares[i] >= wanted) return z[i] + FARTHEST / NODES * ((wanted - sum) / shares[i] - 0.5);
    sum += shares[i];
  }
  return FARTHEST;
}

/** The error is below 1.5e-7 (Abramowitz & Stegun 7.1.26). */
function erf(x: number): number {
  if (!Number.isFinite(x)) return Math.sign(x);
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = t *
    (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

interface Slab {
  /** The comoving distance is in Mpc/h. */
  readonly distance: number;
  readonly redshift: number;
  /** Each bin's convergence for a density contrast of 1. */
  readonly weights: readonly number[];
}

/** Slabs reach as far as there are galaxies. */
export function slabsOf(c: Cosmology, bins: Bins, thickness: number): Slab[] {
  const reach = Array.from(bins.z, (z) => distanceTo(c, z));
  const count = Math.ceil(distanceTo(c, FARTHEST) / thickness);
  const strength = 1.5 * c.omegaM * thickness / HUBBLE_LENGTH ** 2;
  return Array.from({ length: count }, (_, i) => {
    const distance = (i + 0.5) * thickness;
    const redshift = redshiftAt(bins.z, reach, distance);
    const weights = bins.shares.map((shares) => {
      const behind = shares.reduce((sum, share, j) => sum + share * Math.max(0, 1 - distance / reach[j]), 0);
      return strength * distance * (1 + redshift) * behind;
    });
    return { distance, redshift, weights };
  });
}

/** It interpolates linearly between the nodes, from 0 on. */
function redshiftAt(z: Float64Array, reach: readonly number[], distance: number): number {
  const after = reach.findIndex((far) => far > distance);
  if (after < 0) return FARTHEST;
  const [z0, d0] = after === 0 ? [0, 0] : [z[after - 1], reach[after - 1]];
  return z0 + (z[after] - z0) * (distance - d0) / (reach[after] - d0);
}

interface View {
  readonly axis: number;
  /** Cells from the box's corner to the map's, across. */
  readonly shift: readonly [number, number];
  /** Cells from one pixel to the next; negative in a mirror. */
  readonly step: readonly [number, number];
}

/** It adds a sheet [n, n], times each weight, to the maps [weights, side, side], sampled at pixel centres. */
export function addSheet(
  maps: Float64Array,
  side: number,
  weights: readonly number[],
  sheet: Float32Array,
  n: number,
  view: View,
): void {
  const at = [0, 1].map((axis) =>
    Float64Array.from({ length: side }, (_, i) => {
      const cell = view.shift[axis] + (i + 0.5) * view.step[axis];
      return cell - n * Math.floor(cell / n);
    })
  );
  const plane = side * side;
  for (let i = 0; i < side; i++) {
    const x0 = Math.floor(at[0][i]) % n, x1 = (x0 + 1) % n, bx = at[0][i] - Math.floor(at[0][i]);
    for (let j = 0; j < side; j++) {
      const y0 = Math.floor(at[1][j]) % n, y1 = (y0 + 1) % n, by = at[1][j] - Math.floor(at[1][j]);
      const value = (1 - bx) * ((1 - by) * sheet[x0 * n + y0] + by * sheet[x0 * n + y1]) +
        bx * ((1 - by) * sheet[x1 * n + y0] + by * sheet[x1 * n + y1]);
      for (let bin = 0; bin < weights.length; bin++) maps[bin * plane + i * side + j] += weights[bin] * value;
    }
  }
}

/** Holes around bright stars take this share of the mask. */
const HOLES = 0.25;
/** Holes have radii in units of the patch's side. */
const RADIUS = [0.01, 0.04] as const;
/** The edge is made of waves; the shortest is a third of the patch long. */
const WAVES = 6, SHORTEST = 3;

/** 1 marks a pixel that is seen; exactly `masked` of the pixels are not. */
export function footprint(side: number, masked: number, key: bigint): Uint8Array {
  const at = uniform(key);
  const count = Math.round(masked * side * side);
  const seen = new Uint8Array(side * side).fill(1);
  let hidden = 0, draw = 0;
  const next = () => at(draw++);
  while (hidden < HOLES * count) {
    const x = next() * side,
      y = next() * side,
      radius = (RADIUS[0] + (RADIUS[1] - RADIUS[0]) * next()) * side;
    for (let i = Math.max(0, Math.floor(x - radius)); i < Math.min(side, x + radius); i++) {
      for (let j = Math.max(0, Math.floor(y - radius)); j < Math.min(side, y + radius); j++) {
        if (hidden === count || seen[i * side + j] === 0 || Math.hypot(i + 0.5 - x, j + 0.5 - y) > radius) {
          continue;
        }
        seen[i * side + j] = 0;
        hidden++;
      }
    }
  }
  const height = heights(side, next);
  const lowest = Array.from(height.keys()).filter((pixel) => seen[pixel] === 1).sort((a, b) =>
    height[a] - height[b]
  );
  for (const pixel of lowest.slice(0, count - hidden)) seen[pixel] = 0;
  return seen;
}

/** The lowest parts of a smooth random landscape lie outside. */
function heights(side: number, next: () => number): Float64Array {
  const waves = Array.from({ length: WAVES }, () => {
    const angle = 2 * Math.PI * next(), waves = 0.5 + (SHORTEST - 0.5) * next() ** 2;
    return {
      x: Math.cos(angle) * waves,
      y: Math.sin(angle) * waves,
      phase: 2 * Math.PI * next(),
      height: 1 / waves,
    };
  });
  return Float64Array.from({ length: side * side }, (_, pixel) => {
    const i = Math.floor(pixel / side) / side, j = (pixel % side) / side;
    return waves.reduce(
      (sum, w) => sum + w.height * Math.cos(2 * Math.PI * (w.x * i + w.y * j) + w.phase),
      0,
    );
  });
}

/** A seen pixel becomes the Gaussian mean of seen pixels around it (deviation in pixels); others become 0. */
export function smooth(map: Float64Array, seen: Uint8Array, side: number, deviation: number): Float64Array {
  const weight = Float64Array.from(seen), value = map.map((x, i) => x * weight[i]);
  if (deviation === 0) return value;
  const kernel = gaussian(deviation);
  const above = blurred(value, side, kernel), below = blurred(weight, side, kernel);
  return above.map((x, i) => seen[i] === 1 ? x / below[i] : 0);
}

/** Weights go from the middle outwards. */
export function gaussian(deviation: number): Float64Array {
  const kernel = Float64Array.from(
    { length: Math.ceil(4 * deviation) + 1 },
    (_, i) => Math.exp(-0.5 * (i / deviation) ** 2),
  );
  const sum = kernel.reduce((a, b) => a + 2 * b, -kernel[0]);
  return kernel.map((x) => x / sum);
}

function blurred(map: Float64Array, side: number, kernel: Float64Array): Float64Array {
  return along(along(map, side, kernel, side, 1), side, kernel, 1, side);
}

function along(
  map: Float64Array,
  side: number,
  kernel: Float64Array,
  step: number,
  across: number,
): Float64Array {
  const out = new Float64Array(map.length);
  for (let line = 0; line < side; line++) {
    for (let i = 0; i < side; i++) {
      let sum = 0;
      for (let d = Math.max(-i, 1 - kernel.length); d < Math.min(side - i, kernel.length); d++) {
        sum += kernel[Math.abs(d)] * map[line * across + (i + d) * step];
      }
      out[line * across + i * step] = sum;
    }
  }
  return out;
}

export interface SurveyOptions extends BoxOptions {
  /** The patch's side is in degrees. */
  readonly field: number;
  readonly bins: number;
  readonly medianRedshift: number;
  readonly density: number;
  /** The deviation of a galaxy's ellipticity, both components combined. */
  readonly ellipticity: number;
  /** The Gaussian's deviation is in arcminutes. */
  readonly smoothing: number;
  readonly masked: number;
  /** The last map is 1 where the survey has looked and 0 elsewhere. */
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
      const shapes = normalNumbers(of("shapes"), count * plane);
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
    description:
      `a survey of ${field} x ${field} degrees with ${count} bins, ${options.density} galaxies an arcmin^2, ` +
      `${Math.round(100 * masked)}% masked, by ${
        options.order === 1 ? "Zel'dovich" : "2LPT"
      } boxes of ${box} Mpc/h, seed ${seed}`,
  };
}

/** Galaxies' own shapes give this deviation to the convergence of one pixel of one bin. */
export function shapeNoise({ grid, field, bins, density, ellipticity }: SurveyOptions): number {
  const pixel = (60 * field / grid) ** 2;
  return ellipticity / Math.sqrt(2 * density / bins * pixel);
}

/**
 * The result is [bins, n, n] without noise. Each slab of the box's length sees the box along another axis,
 * from another corner and perhaps in a mirror, so no structure stands behind itself.
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
    const grid = simulationGrid(n);
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
      addSheet(maps, n, weights, densitySheet(first, second, [d1, order === 1 ? 0 : d2], axis), n, view);
    });
  });
  return maps;
}
