// Fields on a periodic grid: Fourier transforms on one thread, Gaussian random fields, displacements by Lagrangian
// perturbation theory, and cloud-in-cell densities.
import { fftIrfftn, fftRfftn, indexSelect, mul, reshape, stack, viewAsComplex } from "../../ffi/ops.ts";
import { setThreads, threads } from "../../ffi/context.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { add, borrowBytes, scale, sub, tensor } from "../../ffi/make.ts";
import { uniform } from "../../core/base/random.ts";

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

// Linear theory of a flat universe: distances, growth, the transfer function of Eisenstein & Hu (1998, ApJ
// 496, 605; numbers in brackets are its equations), and the power spectrum of matter.

/** Simpson's rule takes an even number of panels. */
function integrate(f: (x: number) => number, from: number, to: number, panels: number): number {
  const step = (to - from) / panels;
  let sum = f(from) + f(to);
  for (let i = 1; i < panels; i++) sum += (i % 2 === 1 ? 4 : 2) * f(from + i * step);
  return sum * step / 3;
}

export interface Cosmology {
  /** Densities are in units of the critical density today. */
  readonly omegaM: number;
  readonly omegaB: number;
  readonly h: number;
  /** Slope of the primordial spectrum. */
  readonly ns: number;
  /** Rms of the linear density contrast today, in spheres of 8 Mpc/h. */
  readonly sigma8: number;
}

/** c over 100 km/s/Mpc, in Mpc/h. */
export const HUBBLE_LENGTH = 2997.92458;

/** H(z) / H0. */
const expansion = ({ omegaM }: Cosmology, z: number): number => Math.sqrt(omegaM * (1 + z) ** 3 + 1 - omegaM);

/** Share of matter in the density at redshift z. */
const matterAt = (c: Cosmology, z: number): number => c.omegaM * (1 + z) ** 3 / expansion(c, z) ** 2;

export const distanceTo = (c: Cosmology, z: number): number =>
  HUBBLE_LENGTH * integrate((x) => 1 / expansion(c, x), 0, z, 128);

/** Growth is 1 today. Heath's integral leaves out radiation. */
export const growth = (c: Cosmology, z: number): number => growing(c, z) / growing(c, 0);

/** H times the integral of da / (a H)^3; a = u^2 makes the integrand smooth at the beginning. */
function growing(c: Cosmology, z: number): number {
  const f = (u: number) => 2 * u ** 4 / (c.omegaM + (1 - c.omegaM) * u ** 6) ** 1.5;
  return expansion(c, z) * integrate(f, 0, 1 / Math.sqrt(1 + z), 128);
}

// Wavenumbers of the transfer functions are in 1/Mpc.

/** The microwave background has 2.7255 K (Fixsen 2009). */
const THETA = 2.7255 / 2.7;

interface Early {
  /** Omega_m h^2, Omega_b h^2 and the baryons' share of matter. */
  readonly m: number;
  readonly b: number;
  readonly share: number;
  /** Wavenumber of the horizon at equality (3). */
  readonly kEq: number;
  /** (1 + z) of equality over (1 + z) of the drag epoch. */
  readonly waited: number;
  /** Baryon to photon momentum at the drag epoch (5). */
  readonly ratio: number;
  readonly sound: number;
}

function early({ omegaM, omegaB, h }: Cosmology): Early {
  const m = omegaM * h ** 2, b = omegaB * h ** 2;
  const zEq = 2.5e4 * m * THETA ** -4; // (2)
  const kEq = 7.46e-2 * m * THETA ** -2;
  const b1 = 0.313 * m ** -0.419 * (1 + 0.607 * m ** 0.674);
  const b2 = 0.238 * m ** 0.223;
  const zDrag = 1291 * m ** 0.251 / (1 + 0.659 * m ** 0.828) * (1 + b1 * b ** b2); // (4)
  const ratioAt = (z: number) => 31.5 * b * THETA ** -4 * (1000 / z);
  const ratio = ratioAt(zDrag), atEq = ratioAt(zEq);
  const sound = 2 / (3 * kEq) * Math.sqrt(6 / atEq) *
    Math.log((Math.sqrt(1 + ratio) + Math.sqrt(ratio + atEq)) / (1 + Math.sqrt(atEq)));
  return { m, b, share: b / m, kEq, waited: (1 + zEq) / (1 + zDrag), ratio, sound };
}

/** The sound horizon at the drag epoch is in Mpc. */
export const soundHorizon = (c: Cosmology): number => early(c).sound;

/** Section 3 of the paper has the baryons' acoustic oscillations. */
export function transfer(c: Cosmology): (k: number) => number {
  const { m, b, share, kEq, waited, ratio, sound } = early(c);
  const kSilk = 1.6 * b ** 0.52 * m ** 0.73 * (1 + (10.4 * m) ** -0.95); // (7)
  const a1 = (46.9 * m) ** 0.67 * (1 + (32.1 * m) ** -0.532);
  const a2 = (12 * m) ** 0.424 * (1 + (45 * m) ** -0.582);
  const alphaC = a1 ** -share * a2 ** -(share ** 3); // (11)
  const bb1 = 0.944 / (1 + (458 * m) ** -0.708);
  const bb2 = (0.395 * m) ** -0.0266;
  const betaC = 1 / (1 + bb1 * ((1 - share) ** bb2 - 1)); // (12)
  const alphaB = 2.07 * kEq * sound * (1 + ratio) ** -0.75 * suppression(waited); // (14)
  const betaB = 0.5 + share + (3 - 2 * share) * Math.sqrt((17.2 * m) ** 2 + 1); // (24)
  const betaNode = 8.41 * m ** 0.435; // (23)
  return (k) => {
    const q = k / (13.41 * kEq), ks = k * sound;
    const f = 1 / (1 + (ks / 5.4) ** 4); // (18)
    const cold = f * pressureless(q, 1, betaC) + (1 - f) * pressureless(q, alphaC, betaC); // (17)
    const shifted = ks / Math.cbrt(1 + (betaNode / ks) ** 3); // (22)
    const damped = alphaB / (1 + (betaB / ks) ** 3) * Math.exp(-((k / kSilk) ** 1.4));
    const baryons = (pressureless(q, 1, 1) / (1 + (ks / 5.2) ** 2) + damped) * Math.sin(shifted) / shifted; // (21)
    return share * baryons + (1 - share) * cold; // (16)
  };
}

/** Section 4.2 has only the baryons' pressure. */
export function smoothTransfer(c: Cosmology): (k: number) => number {
  const { m, b, share } = early(c);
  const sound = 44.5 * Math.log(9.83 / m) / Math.sqrt(1 + 10 * b ** 0.75); // (26)
  const alpha = 1 - 0.328 * Math.log(431 * m) * share + 0.38 * Math.log(22.3 * m) * share ** 2; // (31)
  return (k) => {
    const gamma = m * (alpha + (1 - alpha) / (1 + (0.43 * k * sound) ** 4)); // (30), times h
    const q = k * THETA ** 2 / gamma;
    const l = Math.log(2 * Math.E + 1.8 * q);
    return l / (l + (14.2 + 731 / (1 + 62.5 * q)) * q ** 2); // (29)
  };
}

/** (15): how much of the baryons' own growth the drag has left. */
function suppression(y: number): number {
  const root = Math.sqrt(1 + y);
  return y * (-6 * root + (2 + 3 * y) * Math.log((root + 1) / (root - 1)));
}

/** (19) and (20). */
function pressureless(q: number, alpha: number, beta: number): number {
  const l = Math.log(Math.E + 1.8 * beta * q);
  return l / (l + (14.2 / alpha + 386 / (1 + 69.9 * q ** 1.08)) * q ** 2);
}

// Today's spectrum is scaled to sigma_8. k is in h/Mpc, P in (Mpc/h)^3.

type Power = (k: number) => number;

export function linearPower(c: Cosmology): Power {
  const growth = transfer(c);
  const shape: Power = (k) => k === 0 ? 0 : k ** c.ns * growth(k * c.h) ** 2;
  const height = (c.sigma8 / rmsInSpheres(shape, 8)) ** 2;
  return (k) => height * shape(k);
}

export function rmsInSpheres(power: Power, radius: number): number {
  const perLogK = (logK: number) => {
    const k = Math.exp(logK);
    return k ** 3 * power(k) * sphere(k * radius) ** 2 / (2 * Math.PI ** 2);
  };
  // Less than 1e-7 of the integral lies outside, for any spectrum that structure could have grown from.
  return Math.sqrt(integrate(perLogK, Math.log(1e-3 / radius), Math.log(200 / radius), 2048));
}

/** The sphere has radius 1 and holds 1 in all. */
export function sphere(x: number): number {
  return x < 0.01 ? 1 - x * x / 10 : 3 * (Math.sin(x) - x * Math.cos(x)) / x ** 3;
}
