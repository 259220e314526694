// A Gaussian density field with a given power spectrum, on a periodic grid. May import grid, power, transform, core/random, ffi.
import { tensor } from "../../ffi/make.ts";
import { indexSelect, mul, reshape } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { uniform } from "../random.ts";
import type { Grid } from "./grid.ts";
import type { Power } from "./power.ts";
import { transform } from "./transform.ts";

/**
 * The transform of the density contrast in a box of side `length`: white noise, each wave multiplied by
 * sqrt(P(k) n^3 / length^3). Transforms have no factor, those back have 1 / n^3: P = length^3 / n^6 <|delta_k|^2>.
 */
export function gaussianField(grid: Grid, length: number, power: Power, key: bigint): Tensor {
  const { n, levels, squares } = grid;
  const height = n ** 3 / length ** 3, unit = 2 * Math.PI / length;
  const filter = Float32Array.from(
    { length: levels },
    (_, i) => Math.sqrt(height * power(unit * Math.sqrt(i))),
  );
  return scope(() => {
    const white = transform(tensor(normals(key, n ** 3), [n, n, n]));
    return mul(white, reshape(indexSelect(tensor(filter), 0, squares), white.shape));
  });
}

/**
 * Standard normal numbers, an even count of them, by the method of Box and Muller. Not libtorch's, whose generator
 * takes 32 bits of a key: among 100,000 samples two would likely be the same.
 */
export function normals(key: bigint, count: number): Float32Array {
  const at = uniform(key);
  const values = new Float32Array(count);
  for (let i = 0; i < count; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - at(i))); // at() is never 1
    const angle = 2 * Math.PI * at(i + 1);
    values[i] = radius * Math.cos(angle);
    values[i + 1] = radius * Math.sin(angle);
  }
  return values;
}
