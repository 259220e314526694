// A sample's planes as they lie in memory, and how they are cut and copied.
import type { SampleNumbers } from "../arrays/numbers.ts";

/** Planes are equal, such as an image's channels; steps lead to the next row or column in `data`. */
export interface Planes {
  readonly data: SampleNumbers;
  readonly starts: readonly number[];
  readonly height: number;
  readonly width: number;
  readonly row: number;
  readonly column: number;
}

export function planesOf({ data, shape, strides = rowMajor(shape) }: Stored): Planes {
  const from = Math.max(0, shape.length - 2);
  let starts = [0];
  for (let k = 0; k < from; k++) {
    starts = starts.flatMap((start) => Array.from({ length: shape[k] }, (_, i) => start + i * strides[k]));
  }
  const [height, width] = [1, 1, ...shape].slice(-2), [row, column] = [0, 0, ...strides].slice(-2);
  return { data, starts, height, width, row, column };
}

function rowMajor(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  for (let k = shape.length - 1, step = 1; k >= 0; step *= shape[k--]) strides[k] = step;
  return strides;
}

export function cut(from: Planes, top: number, left: number, height: number, width: number): Planes {
  const offset = top * from.row + left * from.column;
  return { ...from, starts: from.starts.map((start) => start + offset), height, width };
}

/** Steps in the target are 1 and a row's length, in either order and with any sign. */
export interface Target {
  readonly start: number;
  readonly plane: number;
  readonly row: number;
  readonly column: number;
}

export function copyPlanes(from: Planes, into: SampleNumbers, to: Target): void {
  const [source, target] = alongTarget(from, to);
  const { starts } = source;
  if (source.column === 1 && source.width >= LONG) return copyRows(source, into, target);
  if (starts.length === 3) return copyThree(source, into, target);
  starts.forEach((start, i) => copyOne(source, start, into, target, target.start + i * target.plane));
}

/** From this length on, copying a row as a whole is faster. */
const LONG = 64;

/** The target's neighbours come in the inner loop, in ascending order. */
function alongTarget(from: Planes, to: Target): [Planes, Target] {
  if (Math.abs(to.column) !== 1) {
    from = { ...from, height: from.width, width: from.height, row: from.column, column: from.row };
    to = { ...to, row: to.column, column: to.row };
  }
  if (to.column > 0) return [from, to];
  const last = from.width - 1;
  const starts = from.starts.map((start) => start + last * from.column);
  return [{ ...from, starts, column: -from.column }, { ...to, start: to.start - last, column: 1 }];
}

function copyRows({ data, starts, height, width, row }: Planes, into: SampleNumbers, to: Target): void {
  const whole = row === width && to.row === width;
  const [rows, length] = whole ? [1, height * width] : [height, width];
  starts.forEach((start, i) => {
    for (let r = 0; r < rows; r++) {
      const at = start + r * row;
      (into as Uint8Array).set(
        data.subarray(at, at + length) as Uint8Array,
        to.start + i * to.plane + r * to.row,
      );
    }
  });
}

/** An image's three colours stand side by side. */
function copyThree(
  { data, starts, height, width, row, column }: Planes,
  into: SampleNumbers,
  to: Target,
): void {
  const from = data as Uint8Array, out = into as Uint8Array; // or any other of the types: they are used alike
  const [a, b, c] = starts, { plane } = to;
  for (let r = 0; r < height; r++) {
    let s = r * row, t = to.start + r * to.row;
    for (const end = t + width; t < end; t++, s += column) {
      out[t] = from[a + s];
      out[t + plane] = from[b + s];
      out[t + 2 * plane] = from[c + s];
    }
  }
}

function copyOne(
  { data, height, width, row, column }: Planes,
  start: number,
  into: SampleNumbers,
  to: Target,
  first: number,
): void {
  const from = data as Uint8Array, out = into as Uint8Array;
  for (let r = 0; r < height; r++) {
    let s = start + r * row, t = first + r * to.row;
    for (const end = t + width; t < end; t++, s += column) out[t] = from[s];
  }
}

/** `data` is the reader's own memory, valid until the next read. */
export interface Stored {
  readonly data: SampleNumbers;
  readonly shape: readonly number[];
  readonly strides?: readonly number[];
}
