// Weak lensing in Born's approximation: matter in slabs between here and the galaxies -> convergence.
// May import background, redshifts.
import { type Cosmology, distanceTo, HUBBLE_LENGTH } from "./background.ts";
import { type Bins, FARTHEST } from "./redshifts.ts";

/** Matter of a length of the line of sight, seen as one sheet in its middle. */
export interface Slab {
  /** Comoving distance, in Mpc/h. */
  readonly distance: number;
  readonly redshift: number;
  /** For each bin: convergence for a density contrast of 1. */
  readonly weights: readonly number[];
}

/** Slabs of this thickness as far as there are galaxies. */
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

/** Between the nodes on a straight line, from 0 on. */
function redshiftAt(z: Float64Array, reach: readonly number[], distance: number): number {
  const after = reach.findIndex((far) => far > distance);
  if (after < 0) return FARTHEST;
  const [z0, d0] = after === 0 ? [0, 0] : [z[after - 1], reach[after - 1]];
  return z0 + (z[after] - z0) * (distance - d0) / (reach[after] - d0);
}

/** How a slab is seen through a box that repeats itself. */
export interface View {
  /** The axis of the line of sight. */
  readonly axis: number;
  /** Cells from the box's corner to the map's, across. */
  readonly shift: readonly [number, number];
  /** Cells from one pixel to the next: negative where the box is seen in a mirror. */
  readonly step: readonly [number, number];
}

/** Adds a sheet [n, n], times each weight, to the maps [weights, side, side]: what is seen in the middle of each pixel. */
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
