// The latency and the rate of a network, from measured all-reduces.
import type { AllReduceTiming } from "../ranks/team.ts";

interface FittedLink {
  readonly alpha: number;
  readonly beta: number;
}

/** Sizes from here on are of a bucket's kind: caches and single packets matter less. */
const LONG = 2 ** 20;

/**
 * A line through times by bytes, in which each size counts by its own share and not by its length. Two ranks send each other
 * half of the sums twice, and more ranks 2 (n - 1) / n of them.
 */
export function fittedLink(
  measured: readonly Pick<AllReduceTiming, "bytes" | "seconds">[],
  ranks: number,
): FittedLink {
  const long = measured.filter(({ bytes }) => bytes >= LONG);
  const points = long.length >= 2 ? long : measured;
  const factor = 2 * (ranks - 1) / ranks;
  // Least squares of (a + b x - t) / t.
  let [w, wx, wxx, wt, wxt] = [0, 0, 0, 0, 0];
  for (const { bytes, seconds } of points) {
    const weight = 1 / seconds ** 2, x = factor * bytes;
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wt += weight * seconds;
    wxt += weight * x * seconds;
  }
  const beta = (w * wxt - wx * wt) / (w * wxx - wx * wx);
  const both = Math.max(0, (wt - beta * wx) / w);
  return { alpha: both / 2, beta };
}
