// The waves of a periodic grid of n x n x n cells: tables shared by every field on such a grid. May import ffi.
import { tensor } from "../../ffi/make.ts";
import { viewAsComplex } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";

/** Waves are counted along the side of the box, so tables don't depend on its length. */
export interface Grid {
  readonly n: number;
  /** m^2, the square of the whole vector, of each wave of a real transform [n, n, n/2 + 1]: an index into levels. */
  readonly squares: Tensor;
  /** How many values m^2 can have. */
  readonly levels: number;
  /** 1 / m^2, and 0 for the mean. */
  readonly inverse: Tensor;
  /** m along each axis, to be broadcast. The shortest wave has no slope on the grid: there it is 0. */
  readonly m: readonly Tensor[];
  /** i m. */
  readonly im: readonly Tensor[];
}

const grids = new Map<number, Grid>();

export function gridOf(n: number): Grid {
  let grid = grids.get(n);
  if (!grid) grids.set(n, grid = make(n));
  return grid;
}

function make(n: number): Grid {
  const across = n / 2 + 1, count = n * n * across;
  const wave = (i: number) => i <= n / 2 ? i : i - n;
  const squares = new Int32Array(count), inverse = new Float32Array(count);
  for (let x = 0, at = 0; x < n; x++) {
    for (let y = 0; y < n; y++) {
      for (let z = 0; z < across; z++, at++) {
        const square = wave(x) ** 2 + wave(y) ** 2 + z * z;
        squares[at] = square;
        inverse[at] = square === 0 ? 0 : 1 / square;
      }
    }
  }
  const axis = (size: number) => Float32Array.from({ length: size }, (_, i) => 2 * i === n ? 0 : wave(i));
  const axes = [axis(n), axis(n), axis(across)];
  const shapes = [[n, 1, 1], [1, n, 1], [1, 1, across]];
  const imaginary = (m: Float32Array) =>
    Float32Array.from({ length: 2 * m.length }, (_, i) => i % 2 * m[i >> 1]);
  const lasting = (make: () => Tensor) => keep(scope(make));
  return {
    n,
    squares: lasting(() => tensor(squares)),
    levels: 3 * (n / 2) ** 2 + 1,
    inverse: lasting(() => tensor(inverse, [n, n, across])),
    m: axes.map((m, i) => lasting(() => tensor(m, shapes[i]))),
    im: axes.map((m, i) => keep(viewAsComplex(tensor(imaginary(m), [...shapes[i], 2])))),
  };
}
