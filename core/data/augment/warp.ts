// Pixels from other places than whole rows and columns: rotation, affine maps, perspective, elastic distortion. Pictures get
// what torchvision's kernels give them. In maps a missing neighbour is not blended: the nearest point counts.
import type { SampleNumbers } from "../arrays/numbers.ts";
import { moveNearest } from "./pixels.ts";
import type { Planes } from "./planes.ts";
import type { Sample } from "./sample.ts";

export type Interpolation = "nearest" | "bilinear";

export interface Look {
  readonly interpolation: Interpolation;
  /** This stands outside of a picture: one number or one for each channel; null for 0, without a blended edge. */
  readonly fill: readonly number[] | null;
}

/** Where each pixel of a row comes from, in pixels of the picture as it was. */
type Places = (y: number, xs: Float64Array, ys: Float64Array) => void;

/** [a, b, c, d, e, f]: from a place of the result to (ax + by + c, dx + ey + f), both from the middle. */
export type Matrix = readonly [number, number, number, number, number, number];

export interface Affine {
  /** Degrees with the clock. */
  readonly angle: number;
  /** Pixels. */
  readonly translate: readonly [number, number];
  readonly scale: number;
  /** Degrees. */
  readonly shear: readonly [number, number];
  /** Pixels from the picture's top left corner; null is its middle. */
  readonly centre: readonly [number, number] | null;
}

const radians = (degrees: number) => degrees * Math.PI / 180;

/** As torchvision composes it: translation, centre, rotation, scale and shear, undone. */
export function inverseOf(
  { angle, translate: [tx, ty], scale, shear }: Affine,
  centre: readonly number[],
): Matrix {
  const turn = radians(angle), sx = radians(shear[0]), sy = radians(shear[1]), [cx, cy] = centre;
  const a = Math.cos(turn - sy) / Math.cos(sy), c = Math.sin(turn - sy) / Math.cos(sy);
  const b = -(a * Math.tan(sx) + Math.sin(turn)), d = Math.cos(turn) - c * Math.tan(sx);
  const [m0, m1, m3, m4] = [d / scale, -b / scale, -c / scale, a / scale];
  const x = cx + tx, y = cy + ty;
  return [m0, m1, cx - m0 * x - m1 * y, m3, m4, cy - m3 * x - m4 * y];
}

export function affine(sample: Sample, by: Affine, look: Look): void {
  const { width, height } = sample, { centre } = by;
  const middle = centre ? [centre[0] - width / 2, centre[1] - height / 2] : [0, 0];
  const matrix = inverseOf(by, middle);
  if (!isSame(matrix)) warpBy(sample, matrix, [height, width], look);
  const turn = radians(by.angle), [cos, sin] = [Math.cos(turn), Math.sin(turn)];
  if (by.angle !== 0) sample.turned([cos, -sin, sin, cos]);
}

interface Rotation {
  /** Degrees against the clock. */
  readonly angle: number;
  readonly centre: Affine["centre"];
}

/** Whole quarters of a turn move pixels as they are. */
export function rotate(sample: Sample, { angle, centre }: Rotation, look: Look): void {
  const { width, height } = sample, to = ((angle % 360) + 360) % 360, quarters = to / 90;
  if (centre === null && Number.isInteger(quarters) && (quarters % 2 === 0 || width === height)) {
    return sample.quarters(quarters);
  }
  affine(sample, { angle: -to, translate: [0, 0], scale: 1, shear: [0, 0], centre }, look);
}

const isSame = ([a, b, c, d, e, f]: Matrix) => a === 1 && b === 0 && c === 0 && d === 0 && e === 1 && f === 0;

function warpBy(
  sample: Sample,
  matrix: Matrix,
  [height, width]: readonly [number, number],
  look: Look,
): void {
  if (sample.planes.data instanceof Uint8Array && isNearest(sample, look)) {
    const into = sample.fresh(sample.channels, height, width);
    moveNearest(sample.planes, matrix, outsideOf(sample, look) as number[], into as Uint8Array);
    return void sample.put(into, sample.channels, height, width);
  }
  const [a, b, c, d, e, f] = matrix;
  const left = (1 - width) / 2, top = (1 - height) / 2;
  const right = (sample.width - 1) / 2, down = (sample.height - 1) / 2;
  warp(sample, [height, width], look, (y, xs, ys) => {
    const x0 = b * (y + top) + c + right, y0 = e * (y + top) + f + down;
    for (let x = 0; x < width; x++) {
      xs[x] = a * (x + left) + x0;
      ys[x] = d * (x + left) + y0;
    }
  });
}

/** x = (c0 x + c1 y + c2) / (c6 x + c7 y + 1), and y with c3, c4 and c5. */
export function perspective(sample: Sample, c: readonly number[], look: Look): void {
  const { width, height } = sample;
  warp(sample, [height, width], look, (row, xs, ys) => {
    const y = row + 0.5;
    for (let column = 0; column < width; column++) {
      const x = column + 0.5, by = c[6] * x + c[7] * y + 1;
      xs[column] = (c[0] * x + c[1] * y + c[2]) / by - 0.5;
      ys[column] = (c[3] * x + c[4] * y + c[5]) / by - 0.5;
    }
  });
}

/** It takes the end points to the start points, corner by corner: eight equations, whose solution torchvision keeps as float32. */
export function perspectiveOf(start: readonly number[][], end: readonly number[][]): number[] {
  const rows = end.flatMap(([x, y], i) => {
    const [u, v] = start[i];
    return [[x, y, 1, 0, 0, 0, -u * x, -u * y, u], [0, 0, 0, x, y, 1, -v * x, -v * y, v]];
  });
  for (let k = 0; k < 8; k++) {
    const best = rows.reduce((at, row, i) => i >= k && Math.abs(row[k]) > Math.abs(rows[at][k]) ? i : at, k);
    [rows[k], rows[best]] = [rows[best], rows[k]];
    for (let i = 0; i < 8; i++) {
      const share = rows[i][k] / rows[k][k];
      if (i !== k && share !== 0) { for (let j = k; j < 9; j++) rows[i][j] -= share * rows[k][j]; }
    }
  }
  return rows.map((row, i) => Math.fround(row[8] / row[i]));
}

/** Each pixel comes from so many halves of the width and height beside its place. */
export function elastic(sample: Sample, dx: Float32Array, dy: Float32Array, look: Look): void {
  const { width, height } = sample;
  warp(sample, [height, width], look, (y, xs, ys) => {
    for (let x = 0, at = y * width; x < width; x++, at++) {
      xs[x] = x + dx[at] * width / 2;
      ys[x] = y + dy[at] * height / 2;
    }
  });
}

function warp(sample: Sample, [height, width]: readonly [number, number], look: Look, places: Places): void {
  const { channels, planes, role } = sample;
  const into = sample.fresh(channels, height, width);
  const xs = new Float64Array(width), ys = new Float64Array(width), plane = height * width;
  const nearest = isNearest(sample, look);
  const outside = outsideOf(sample, look);
  const offsets = new Int32Array(width);
  for (let y = 0; y < height; y++) {
    places(y, xs, ys);
    if (nearest) {
      nearestOffsets(planes, xs, ys, offsets);
      for (let c = 0; c < channels; c++) {
        takeRow(planes.data, planes.starts[c], offsets, into, c * plane + y * width, outside[c]);
      }
    } else if (role === "map") mapRow(planes, xs, ys, into, y * width, plane, outside);
    else if (planes.data instanceof Uint8Array) {
      byteRow(planes, xs, ys, into as Uint8Array, y * width, plane, look.fill);
    } else pictureRow(planes, xs, ys, into as Float32Array, y * width, plane, look.fill);
  }
  sample.put(into, channels, height, width);
}

const isNearest = ({ role }: Sample, { interpolation }: Look) =>
  interpolation === "nearest" || role === "classes";

function outsideOf(sample: Sample, { fill }: Look): (number | bigint)[] {
  const { data } = sample.planes, big = data instanceof BigInt64Array || data instanceof BigUint64Array;
  return Array.from({ length: sample.channels }, (_, c) => {
    const value = sample.outside ?? (fill ? fill[c] ?? fill[0] : 0);
    return big ? BigInt(value) : value;
  });
}

/** -1 stands for a place outside. */
function nearestOffsets(
  { height, width, row, column }: Planes,
  xs: Float64Array,
  ys: Float64Array,
  offsets: Int32Array,
): void {
  for (let i = 0; i < xs.length; i++) {
    const x = xs[i] + 0.5, y = ys[i] + 0.5;
    // Above 0 a cut is the floor. Steps of a mirrored view are negative, and so are its places.
    offsets[i] = x >= 0 && x < width && y >= 0 && y < height ? (y | 0) * row + (x | 0) * column : OUTSIDE;
  }
}

const OUTSIDE = -(2 ** 31);

function takeRow(
  data: SampleNumbers,
  start: number,
  offsets: Int32Array,
  into: SampleNumbers,
  at: number,
  outside: number | bigint,
): void {
  const from = data as Uint8Array, to = into as Uint8Array; // or any other of the types: they are used alike
  for (let i = 0; i < offsets.length; i++) {
    const offset = offsets[i];
    to[at + i] = offset === OUTSIDE ? outside as number : from[start + offset];
  }
}

/** The four neighbours of a place, as offsets and weights; neighbours outside weigh nothing. */
const offset = new Int32Array(4), weight = new Float64Array(4);

function neighbours({ height, width, row, column }: Planes, x: number, y: number): number {
  const x0 = Math.floor(x), y0 = Math.floor(y), right = x - x0, lower = y - y0;
  if (x0 >= 0 && x0 + 1 < width && y0 >= 0 && y0 + 1 < height) {
    const at = y0 * row + x0 * column;
    offset[0] = at;
    offset[1] = at + column;
    offset[2] = at + row;
    offset[3] = at + row + column;
    weight[0] = (1 - right) * (1 - lower);
    weight[1] = right * (1 - lower);
    weight[2] = (1 - right) * lower;
    weight[3] = right * lower;
    return 1;
  }
  let all = 0;
  for (let k = 0; k < 4; k++) {
    const px = x0 + (k & 1), py = y0 + (k >> 1);
    const here = px >= 0 && px < width && py >= 0 && py < height;
    offset[k] = here ? py * row + px * column : 0;
    weight[k] = here ? (k & 1 ? right : 1 - right) * (k >> 1 ? lower : 1 - lower) : 0;
    all += weight[k];
  }
  return all;
}

function byteRow(
  planes: Planes,
  xs: Float64Array,
  ys: Float64Array,
  into: Uint8Array,
  at: number,
  plane: number,
  fill: readonly number[] | null,
): void {
  const { starts } = planes, from = planes.data as Uint8Array;
  for (let i = 0; i < xs.length; i++) {
    const there = neighbours(planes, xs[i], ys[i]);
    const a = offset[0], b = offset[1], c = offset[2], d = offset[3];
    const w0 = weight[0], w1 = weight[1], w2 = weight[2], w3 = weight[3];
    for (let k = 0, to = at + i; k < starts.length; k++, to += plane) {
      const s = starts[k];
      let value = from[s + a] * w0 + from[s + b] * w1 + from[s + c] * w2 + from[s + d] * w3;
      if (fill) {
        const outside = fill[k] ?? fill[0];
        value = (value - outside) * there + outside;
      }
      into[to] = value + 0.5;
    }
  }
}

function pictureRow(
  planes: Planes,
  xs: Float64Array,
  ys: Float64Array,
  into: Float32Array,
  at: number,
  plane: number,
  fill: readonly number[] | null,
): void {
  const { starts } = planes, from = planes.data as Float32Array;
  const whole = !(from instanceof Float32Array || (from as unknown) instanceof Float64Array);
  for (let i = 0; i < xs.length; i++) {
    const there = neighbours(planes, xs[i], ys[i]);
    for (let k = 0, to = at + i; k < starts.length; k++, to += plane) {
      let value = 0;
      for (let n = 0; n < 4; n++) value += from[starts[k] + offset[n]] * weight[n];
      const outside = fill ? fill[k] ?? fill[0] : 0;
      if (fill) value = (value - outside) * there + outside;
      into[to] = whole ? Math.round(value) : value;
    }
  }
}

/** Where one of the four is missing or outside, the nearest counts, be it missing or not. */
function mapRow(
  planes: Planes,
  xs: Float64Array,
  ys: Float64Array,
  into: SampleNumbers,
  at: number,
  plane: number,
  outside: readonly (number | bigint)[],
): void {
  const { starts, height, width, row, column } = planes;
  const from = planes.data as Float32Array, to = into as Float32Array;
  const whole = !(from instanceof Float32Array || (from as unknown) instanceof Float64Array);
  for (let i = 0; i < xs.length; i++) {
    const all = neighbours(planes, xs[i], ys[i]) > 1 - 1e-12;
    const x = Math.floor(xs[i] + 0.5), y = Math.floor(ys[i] + 0.5);
    const inside = x >= 0 && x < width && y >= 0 && y < height;
    for (let k = 0, t = at + i; k < starts.length; k++, t += plane) {
      const s = starts[k];
      let value = 0;
      for (let n = 0; n < 4; n++) if (weight[n] > 0) value += from[s + offset[n]] * weight[n];
      if (!all || value !== value) value = inside ? from[s + y * row + x * column] : outside[k] as number;
      to[t] = whole ? Math.round(value) : value;
    }
  }
}
