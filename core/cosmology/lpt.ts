// Lagrangian perturbation theory: how far gravity has carried matter from where it began. May import background, grid, transform, ffi.
//
//     x(q) = q - D1 grad phi1 + D2 grad phi2,     lap phi1 = delta,
//     lap phi2 = sum over i > j of  phi1,ii phi1,jj - phi1,ij^2,     D2 = -3/7 D1^2 Omega_m(z)^(-1/143)
//
// (Bouchet et al. 1995; Scoccimarro 1998, appendix D). Both terms are - grad of an inverse Laplacian, of delta and of
// -D2 times that sum, so one verb makes either.
import { add, scale, sub } from "../../ffi/make.ts";
import { mul, stack } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { type Cosmology, growth, matterAt } from "./background.ts";
import type { Grid } from "./grid.ts";
import { inverse, transform } from "./transform.ts";

const ALONG = [0, 1, 2];

/** What the two displacements of a density field of today are multiplied with at redshift z: D1, and -D2. */
export function factors(c: Cosmology, z: number): readonly [first: number, second: number] {
  const first = growth(c, z);
  return [first, 3 / 7 * first ** 2 * matterAt(c, z) ** (-1 / 143)];
}

/** Displacements in cells [3, n, n, n], from the transform of what they are the slope of: i k / k^2 times it. */
export function displacement(grid: Grid, source: Tensor): Tensor {
  const { n, inverse: inverseSquare, im } = grid;
  return scope(() => {
    const potential = scale(mul(source, inverseSquare), n / (2 * Math.PI));
    return stack(im.map((slope) => scope(() => inverse(mul(potential, slope), n))));
  });
}

/** The transform of the sum above, from that of the density contrast. */
export function secondSource(grid: Grid, delta: Tensor): Tensor {
  const { n, inverse: inverseSquare, m } = grid;
  return scope(() => {
    const potential = mul(delta, inverseSquare);
    // phi,ij = k_i k_j / k^2 delta
    const tide = (i: number, j: number) => scope(() => inverse(mul(mul(potential, m[i]), m[j]), n));
    const pair = (i: number, j: number) =>
      scope(() => {
        const across = tide(i, j);
        return sub(mul(stretch[i], stretch[j]), mul(across, across));
      });
    const stretch = ALONG.map((i) => tide(i, i));
    return transform(add(add(pair(1, 0), pair(2, 0)), pair(2, 1)));
  });
}
