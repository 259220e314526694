// Grids whose points have a latitude and a longitude each, as the maps of ocean and sea-ice models and of satellites.

const LATITUDE = /^degrees?_?n(orth)?$/i, LONGITUDE = /^degrees?_?e(ast)?$/i;

export const isLatitudeUnits = (units: unknown): boolean => typeof units === "string" && LATITUDE.test(units);
export const isLongitudeUnits = (units: unknown): boolean =>
  typeof units === "string" && LONGITUDE.test(units);

/** The mean of each row or column, where these rise or fall all the way: then they show which way is up. */
export function meansAlong(
  values: ArrayLike<number>,
  [height, width]: readonly number[],
  along: "rows" | "columns",
): Float64Array | null {
  const count = along === "rows" ? height : width;
  const sums = new Float64Array(count), known = new Uint32Array(count);
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i++) {
      if (!Number.isFinite(values[i])) continue;
      const at = along === "rows" ? y : x;
      sums[at] += values[i];
      known[at]++;
    }
  }
  const means = sums.map((sum, i) => sum / known[i]);
  const rises = means[count - 1] > means[0];
  return count > 1 && means.every((mean, i) => i === 0 || (rises ? mean > means[i - 1] : mean < means[i - 1]))
    ? means
    : null;
}
