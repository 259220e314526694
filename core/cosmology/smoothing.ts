// Angular smoothing of a map of which only a part was seen. Imports nothing.

/**
 * Each pixel that was seen becomes the mean of those around it, with weights of a Gaussian of this deviation in pixels
 * and nothing from pixels that were not seen, or beyond the edge. Pixels that were not seen are 0.
 */
export function smooth(map: Float64Array, seen: Uint8Array, side: number, deviation: number): Float64Array {
  const weight = Float64Array.from(seen), value = map.map((x, i) => x * weight[i]);
  if (deviation === 0) return value;
  const kernel = gaussian(deviation);
  const above = blurred(value, side, kernel), below = blurred(weight, side, kernel);
  return above.map((x, i) => seen[i] === 1 ? x / below[i] : 0);
}

/** From the middle outwards. */
export function gaussian(deviation: number): Float64Array {
  const kernel = Float64Array.from(
    { length: Math.ceil(4 * deviation) + 1 },
    (_, i) => Math.exp(-0.5 * (i / deviation) ** 2),
  );
  const sum = kernel.reduce((a, b) => a + 2 * b, -kernel[0]);
  return kernel.map((x) => x / sum);
}

/** Along both axes; beyond the edge there is nothing. */
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
