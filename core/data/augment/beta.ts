// Numbers of the Beta distribution: the shares that samples are mixed in.

/** `draw(k)`, for k = 0, 1, ..., is uniform in [0, 1). */
export function symmetricBeta(alpha: number, draw: (k: number) => number): number {
  // The middle of one of 2^32 cells is neither 0 nor 1.
  const inside = (k: number) => draw(k) + 2 ** -33;
  return alpha > 1 ? ulrich(alpha, inside) : johnk(alpha, inside);
}

/**
 * Jöhnk, 1964: x = u^(1/a), y = v^(1/a), x / (x + y) if x + y <= 1; by logarithms, since powers of a small a
 * vanish.
 */
function johnk(alpha: number, draw: (k: number) => number): number {
  for (let k = 0;; k += 2) {
    const x = Math.log(draw(k)) / alpha, y = Math.log(draw(k + 1)) / alpha;
    const largest = Math.max(x, y);
    const sum = largest + Math.log(Math.exp(x - largest) + Math.exp(y - largest));
    if (sum <= 0) return Math.exp(x - sum);
  }
}

/** Ulrich, 1984: from a point in the half disc; for alpha > 1/2. */
function ulrich(alpha: number, draw: (k: number) => number): number {
  for (let k = 0;; k += 2) {
    const u = draw(k), v = 2 * draw(k + 1) - 1;
    const s = u * u + v * v;
    if (s <= 1) return 0.5 + u * v / s * Math.sqrt(1 - Math.exp(Math.log(s) * 2 / (2 * alpha - 1)));
  }
}
