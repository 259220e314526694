// What tests measure of fields on a grid: spectra, variances, moments. Test helper.
import { tensor, toNumbers } from "../../../ffi/make.ts";
import { abs, fftIrfftn, fftRfftn, mul, square } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { type Cosmology, sphere } from "../fields.ts";

export const PLANCK: Cosmology = { omegaM: 0.3111, omegaB: 0.049, h: 0.6766, ns: 0.9665, sigma8: 0.8102 };

/** Of each wave of a real transform on n^3 points: its length in waves along the side, how many waves it stands for. */
export function eachWave(
  n: number,
  visit: (at: number, m: number, waves: number, window: number) => void,
): void {
  const across = n / 2 + 1;
  const wave = (i: number) => i <= n / 2 ? i : i - n;
  const sinc = (m: number) => m === 0 ? 1 : Math.sin(Math.PI * m / n) / (Math.PI * m / n);
  for (let x = 0, at = 0; x < n; x++) {
    for (let y = 0; y < n; y++) {
      for (let z = 0; z < across; z++, at++) {
        const window = (sinc(wave(x)) * sinc(wave(y)) * sinc(z)) ** 2; // of clouds as large as a cell
        visit(at, Math.hypot(wave(x), wave(y), z), z === 0 || 2 * z === n ? 1 : 2, window);
      }
    }
  }
}

export const transformOf = (values: Float32Array, n: number): Tensor => fftRfftn(tensor(values, [n, n, n]));

/** P of each wave, in (Mpc/h)^3, from a transform. */
export function spectrum(transform: Tensor, n: number, length: number): Float64Array {
  return scope(() => toNumbers(square(abs(transform)))).map((p) => p * length ** 3 / n ** 6);
}

/** The field smoothed in spheres of this radius, the clouds' own smoothing taken back. */
export function inSpheres(values: Float32Array, n: number, length: number, radius: number): Float64Array {
  const filter = new Float32Array(n * n * (n / 2 + 1));
  eachWave(n, (at, m, _, window) => {
    filter[at] = m === 0 ? 0 : sphere(2 * Math.PI / length * m * radius) / window;
  });
  return scope(() =>
    toNumbers(fftIrfftn(mul(transformOf(values, n), tensor(filter, [n, n, n / 2 + 1])), [n, n, n]))
  );
}

export const meanOf = (values: ArrayLike<number>, power = 1): number => {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] ** power;
  return sum / values.length;
};
