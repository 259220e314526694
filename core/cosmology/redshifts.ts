// Where the galaxies are whose shapes a survey measures: their redshifts, in tomographic bins. Imports nothing.

/** Nothing beyond this redshift is simulated. */
export const FARTHEST = 2;
const NODES = 200;
/** Scatter of measured redshifts, in units of 1 + z. */
const SCATTER = 0.05;

export interface Bins {
  /** Redshifts, evenly spaced. */
  readonly z: Float64Array;
  /** For each bin the share of its galaxies at each of them: they add up to 1. */
  readonly shares: readonly Float64Array[];
}

/**
 * n(z) = z^2 exp(-(z / z0)^1.5) (Smail et al. 1994) with this median, cut into bins of equally many galaxies by redshifts
 * that are measured with a scatter of 0.05 (1 + z), so that neighbouring bins overlap.
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

/** To 1.5e-7: Abramowitz & Stegun 7.1.26. */
function erf(x: number): number {
  if (!Number.isFinite(x)) return Math.sign(x);
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = t *
    (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}
