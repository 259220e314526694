// Fields on a periodic grid: Fourier transforms on one thread, Gaussian random fields, displacements by Lagrangian
// perturbation theory, and cloud-in-cell densities.
import { fftIrfftn, fftRfftn, indexSelect, mul, reshape, stack, viewAsComplex } from "../../ffi/ops.ts";
import { setThreads, threads } from "../../ffi/context.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { add, borrowBytes, scale, sub, tensor } from "../../ffi/make.ts";
import { uniform } from "../../core/base/random.ts";
import { type Cosmology, growth, matterAt, type Power } from "./theory.ts";

// Transforms run on one thread: with several, some libraries add in another order, and the same seed would
// give other bits. Ranks share the work instead.

const transform = (x: Tensor): Tensor => onOneThread(() => fftRfftn(x));

const inverse = (x: Tensor, n: number): Tensor => onOneThread(() => fftIrfftn(x, [n, n, n], ALONG));

const ALONG = [0, 1, 2];

function onOneThread<T>(run: () => T): T {
  const before = threads();
  if (before === 1) return run();
  setThreads(1);
  try {
    return run();
  } finally {
    setThreads(before);
  }
}

/** Waves are counted along the side of the box, so tables do not depend on its length. */
interface Grid {
  readonly n: number;
  /** m^2 of each wave of a real transform [n, n, n/2 + 1] is an index into levels. */
  readonly squares: Tensor;
  readonly levels: number;
  /** It is 1 / m^2, and 0 for the mean. */
  readonly inverse: Tensor;
  /** m along each axis broadcasts. The shortest wave has no slope on the grid: there it is 0. */
  readonly m: readonly Tensor[];
  readonly im: readonly Tensor[];
}

const grids = new Map<number, Grid>();

export function simulationGrid(n: number): Grid {
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

/**
 * Transform of the density contrast in a box of side `length`: white noise times sqrt(P(k) n^3 / length^3).
 * Only the inverse transform has a factor, 1 / n^3: P = length^3 / n^6 <|delta_k|^2>.
 */
export function gaussianField(grid: Grid, length: number, power: Power, key: bigint): Tensor {
  const { n, levels, squares } = grid;
  const height = n ** 3 / length ** 3, unit = 2 * Math.PI / length;
  const filter = Float32Array.from(
    { length: levels },
    (_, i) => Math.sqrt(height * power(unit * Math.sqrt(i))),
  );
  return scope(() => {
    const white = transform(tensor(normalNumbers(key, n ** 3), [n, n, n]));
    return mul(white, reshape(indexSelect(tensor(filter), 0, squares), white.shape));
  });
}

/**
 * Box and Muller's method gives an even count of normal numbers. libtorch's generator takes only 32 bits of a
 * key: among 100,000 samples two would likely be the same.
 */
export function normalNumbers(key: bigint, count: number): Float32Array {
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

// x(q) = q - D1 grad phi1 + D2 grad phi2, lap phi1 = delta, lap phi2 = sum over i > j of phi1,ii phi1,jj -
// phi1,ij^2, D2 = -3/7 D1^2 Omega_m(z)^(-1/143) (Bouchet et al. 1995; Scoccimarro 1998, appendix D). Both
// terms are - grad of an inverse Laplacian, of delta and of -D2 times that sum, so one function makes either.

const WAVES_ALONG = [0, 1, 2];

/** D1 and -D2 multiply today's two displacements at redshift z. */
export function factors(c: Cosmology, z: number): readonly [first: number, second: number] {
  const first = growth(c, z);
  return [first, 3 / 7 * first ** 2 * matterAt(c, z) ** (-1 / 143)];
}

/** Displacements in cells [3, n, n, n]: i k / k^2 times the transform of their source. */
export function displacement(grid: Grid, source: Tensor): Tensor {
  const { n, inverse: inverseSquare, im } = grid;
  return scope(() => {
    const potential = scale(mul(source, inverseSquare), n / (2 * Math.PI));
    return stack(im.map((slope) => scope(() => inverse(mul(potential, slope), n))));
  });
}

export function secondSource(grid: Grid, delta: Tensor): Tensor {
  const { n, inverse: inverseSquare, m } = grid;
  return scope(() => {
    const potential = mul(delta, inverseSquare);
    const tide = (i: number, j: number) => scope(() => inverse(mul(mul(potential, m[i]), m[j]), n));
    const pair = (i: number, j: number) =>
      scope(() => {
        const across = tide(i, j);
        return sub(mul(stretch[i], stretch[j]), mul(across, across));
      });
    const stretch = WAVES_ALONG.map((i) => tide(i, i));
    return transform(add(add(pair(1, 0), pair(2, 0)), pair(2, 1)));
  });
}

// Cloud in cell as a plain loop: as fast as thirty ops, and it adds in one order for any number of threads.

/**
 * The density is in units of its mean; displacements [3, n, n, n] are in cells. Particles begin at the middle
 * of each cell: from a grid point they would spread the same way in both directions, which adds a wrong term
 * of the order of small displacements.
 */
export function density(moved: Tensor): Float32Array {
  const n = moved.shape[1], plane = n * n, count = n * plane;
  const { buffer, byteOffset } = borrowBytes(moved);
  const move = new Float32Array(buffer, byteOffset, 3 * count);
  const mass = new Float32Array(count);
  for (let x = 0, p = 0; x < n; x++) {
    for (let y = 0; y < n; y++) {
      for (let z = 0; z < n; z++, p++) {
        const px = x + 0.5 + move[p], py = y + 0.5 + move[p + count], pz = z + 0.5 + move[p + 2 * count];
        const fx = Math.floor(px), fy = Math.floor(py), fz = Math.floor(pz);
        const bx = px - fx, by = py - fy, bz = pz - fz;
        const ax = 1 - bx, ay = 1 - by, az = 1 - bz;
        const x0 = wrap(fx, n), y0 = wrap(fy, n), z0 = wrap(fz, n);
        const x1 = x0 + 1 === n ? 0 : x0 + 1, y1 = y0 + 1 === n ? 0 : y0 + 1, z1 = z0 + 1 === n ? 0 : z0 + 1;
        const row00 = x0 * plane + y0 * n, row01 = x0 * plane + y1 * n;
        const row10 = x1 * plane + y0 * n, row11 = x1 * plane + y1 * n;
        mass[row00 + z0] += ax * ay * az;
        mass[row00 + z1] += ax * ay * bz;
        mass[row01 + z0] += ax * by * az;
        mass[row01 + z1] += ax * by * bz;
        mass[row10 + z0] += bx * ay * az;
        mass[row10 + z1] += bx * ay * bz;
        mass[row11 + z0] += bx * by * az;
        mass[row11 + z1] += bx * by * bz;
      }
    }
  }
  return mass;
}

/**
 * The density contrast along one axis is a sheet [n, n]. Particles moved by `first` and `second` times the
 * two displacements.
 */
export function densitySheet(
  one: Tensor,
  two: Tensor,
  [first, second]: readonly [number, number],
  axis: number,
): Float32Array {
  const n = one.shape[1], count = n ** 3;
  const [u, v] = [0, 1, 2].filter((other) => other !== axis);
  const along = (moved: Tensor, axis: number) => {
    const { buffer, byteOffset } = borrowBytes(moved);
    return new Float32Array(buffer, byteOffset + 4 * axis * count, count);
  };
  const oneU = along(one, u), oneV = along(one, v), twoU = along(two, u), twoV = along(two, v);
  const mass = new Float32Array(n * n).fill(-1);
  for (let x = 0, p = 0; x < n; x++) {
    for (let y = 0; y < n; y++) {
      const i = axis === 0 ? y : x;
      for (let z = 0; z < n; z++, p++) {
        const pu = i + 0.5 + first * oneU[p] + second * twoU[p];
        const pv = (axis === 2 ? y : z) + 0.5 + first * oneV[p] + second * twoV[p];
        const fu = Math.floor(pu), fv = Math.floor(pv), bu = (pu - fu) / n, bv = pv - fv, au = 1 / n - bu;
        const u0 = wrap(fu, n), v0 = wrap(fv, n), v1 = v0 + 1 === n ? 0 : v0 + 1;
        const row0 = u0 * n, row1 = u0 + 1 === n ? 0 : row0 + n;
        mass[row0 + v0] += au * (1 - bv);
        mass[row0 + v1] += au * bv;
        mass[row1 + v0] += bu * (1 - bv);
        mass[row1 + v1] += bu * bv;
      }
    }
  }
  return mass;
}

const wrap = (i: number, n: number): number => i >= 0 && i < n ? i : i - n * Math.floor(i / n);
