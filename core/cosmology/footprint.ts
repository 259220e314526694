// Which part of a patch of sky a survey has seen: a smooth edge, and holes around bright stars. May import core/random.
import { uniform } from "../random.ts";

/** The share of what is masked that holes take. */
const HOLES = 0.25;
/** Radius of holes, in units of the patch's side. */
const RADIUS = [0.01, 0.04] as const;
/** Waves that the edge is made of, the shortest a third of the patch long. */
const WAVES = 6, SHORTEST = 3;

/** 1 for a pixel that is seen; exactly this share of the pixels is not. */
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

/** A smooth random landscape: what lies lowest is outside. */
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
