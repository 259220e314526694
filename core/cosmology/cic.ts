// Cloud in cell: particles -> density on a grid. A plain loop: one pass is as fast as the thirty ops that it takes
// otherwise, and adds in one order whatever the number of threads. May import ffi.
import { borrowBytes } from "../../ffi/make.ts";
import type { Tensor } from "../../ffi/tensor.ts";

/**
 * The density, in units of its mean, of particles that began at the middle of each cell and moved by [3, n, n, n] cells.
 * In the middle, because a particle that began at a point of the grid spreads the same way whichever way it goes: where
 * displacements are small beside a cell, that adds a wrong term of their own order to the density.
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
 * The density contrast of the whole box seen along one axis, as a sheet [n, n] of the other two: of particles that moved
 * by `first` times one displacement and `second` times another.
 */
export function sheet(
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

/** The whole number i on a circle of n. */
const wrap = (i: number, n: number): number => i >= 0 && i < n ? i : i - n * Math.floor(i / n);
