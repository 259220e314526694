// Resizing is bilinear as in Pillow, with a wider filter where an image shrinks, one direction after the
// other. Bytes equal Pillow's, floats equal PyTorch's interpolate with antialias.
import { BadSample } from "../arrays/rows.ts";
import type { SampleNumbers } from "../arrays/numbers.ts";

export type ImageSize = readonly [height: number, width: number];

/** The longer side is cut to whole pixels, as in torchvision's Resize. */
export const resizedSize = ([height, width]: ImageSize, side: number): ImageSize =>
  width <= height ? [Math.floor(side * height / width), side] : [side, Math.floor(side * width / height)];

interface ResizeWindow {
  readonly top: number;
  readonly left: number;
  readonly rows: number;
  readonly columns: number;
}

/** The result is overwritten by the next call. */
export function openResize(): (
  from: Planes,
  size: ImageSize,
  wanted: ResizeWindow,
  kernel?: KernelName,
) => Planes {
  let between: SampleNumbers = new Uint8Array(0), result: SampleNumbers = between;
  return (
    { data, starts, height, width, row, column },
    size,
    { top, left, rows, columns },
    name = "bilinear",
  ) => {
    if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
      throw new BadSample(
        "",
        "has whole numbers of 64 bits, which can't be resized: store them in 32 bits or fewer",
      );
    }
    const bytes = data instanceof Uint8Array;
    const down = filterOf(height, size[0], top, rows, bytes, KERNELS[name]);
    const across = filterOf(width, size[1], left, columns, bytes, KERNELS[name]);
    // Bytes are rounded between the passes, so the order matters: it is Pillow 13's.
    const rowsFirst = size[0] < height && 2 * (width - size[1]) < height - size[0];
    const [one, two] = rowsFirst ? [down, across] : [across, down];
    const [along, next] = rowsFirst ? [row, column] : [column, row];
    const [first, lines] = span(two), plane1 = lines * one.from.length, plane2 = rows * columns;
    between = roomIn(between, bytes ? Uint8Array : Float64Array, starts.length * plane1);
    result = roomIn(result, data.constructor as Kind, starts.length * plane2);
    const source = { data, starts: starts.map((start) => start + first * next), along, across: next };
    const length = one.from.length;
    // Bicubic weights may be negative: such bytes are clamped as they are stored.
    const stored = (numbers: SampleNumbers) => bytes && name === "bicubic" ? clamped(numbers) : numbers;
    const middle = {
      data: stored(between),
      starts: starts.map((_, i) => i * plane1),
      along: 1,
      across: length,
    };
    filter(one, 0, lines, source, middle);
    const target = {
      data: stored(result),
      starts: starts.map((_, i) => i * plane2),
      along: rowsFirst ? 1 : columns,
      across: rowsFirst ? columns : 1,
    };
    filter(two, first, length, { ...middle, data: between, along: length, across: 1 }, target);
    const { starts: planes } = target;
    return { data: result, starts: planes, height: rows, width: columns, row: columns, column: 1 };
  };
}

export type KernelName = "bilinear" | "bicubic";

interface Kernel {
  /** So many pixels on either side count where an image keeps its size. */
  readonly support: number;
  readonly at: (distance: number) => number;
}

const KERNELS: Readonly<Record<KernelName, Kernel>> = {
  bilinear: { support: 1, at: (x) => Math.max(0, 1 - x) },
  bicubic: {
    support: 2,
    at: (x) => x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? -0.5 * (((x - 5) * x + 8) * x - 4) : 0,
  },
};

const clamped = ({ buffer, byteOffset, length }: SampleNumbers): SampleNumbers =>
  new Uint8ClampedArray(buffer as ArrayBuffer, byteOffset, length) as unknown as Uint8Array;

type Kind = new (length: number) => SampleNumbers;

const roomIn = (old: SampleNumbers, kind: Kind, length: number): SampleNumbers =>
  old.constructor === kind && old.length >= length ? old : new kind(length);

function span({ from, taps }: Filter): [first: number, count: number] {
  const last = from.length - 1;
  return last < 0 ? [0, 0] : [from[0], from[last] + taps[last] - from[0]];
}

interface Filter {
  readonly from: Int32Array;
  readonly taps: Int32Array;
  readonly weights: Int32Array | Float64Array;
  readonly most: number;
  readonly widest: number;
}

const BITS = 22, ROUND = 1 << (BITS - 1);

/** The order of operations is Pillow's, so weights have its bits. Pixels begin at `start` of `to`. */
function filterOf(
  size: number,
  to: number,
  start: number,
  count: number,
  fixed: boolean,
  kernel: Kernel,
): Filter {
  const scale = size / to,
    stretch = Math.max(scale, 1),
    reach = kernel.support * stretch,
    most = 2 * Math.ceil(reach) + 1;
  const from = new Int32Array(count), taps = new Int32Array(count);
  const weights = fixed ? new Int32Array(count * most) : new Float64Array(count * most);
  const exact = new Float64Array(most);
  for (let i = 0; i < count; i++) {
    const centre = (start + i + 0.5) * scale;
    from[i] = Math.max(0, Math.trunc(centre - reach + 0.5));
    taps[i] = Math.min(size, Math.trunc(centre + reach + 0.5)) - from[i];
    let sum = 0;
    for (let k = 0; k < taps[i]; k++) {
      exact[k] = kernel.at(Math.abs((k + from[i] - centre + 0.5) * (1 / stretch)));
      sum += exact[k];
    }
    for (let k = 0; k < taps[i]; k++) {
      const weight = exact[k] / sum;
      weights[i * most + k] = fixed ? Math.trunc(weight * (1 << BITS) + (weight < 0 ? -0.5 : 0.5)) : weight;
    }
  }
  return { from, taps, weights, most, widest: taps.reduce((a, b) => Math.max(a, b), 0) };
}

interface Lines {
  readonly data: SampleNumbers;
  readonly starts: readonly number[];
  readonly along: number;
  readonly across: number;
}

/** The source begins `skipped` pixels into each line. */
function filter(by: Filter, skipped: number, lines: number, from: Lines, to: Lines): void {
  const bytes = from.data instanceof Uint8Array;
  // Three colours are filtered at once where there is much to read, so memory is read once.
  if (bytes && from.starts.length === 3 && by.widest > 3) return filterColours(by, skipped, lines, from, to);
  const pass = bytes ? filterBytes : filterNumbers;
  from.starts.forEach((start, i) => pass(by, skipped, lines, from, start, to, to.starts[i]));
}

/** Few pixels have more taps than these weights. */
function filterBytes(
  { from: firsts, taps, weights, most }: Filter,
  skipped: number,
  lines: number,
  { data, along, across }: Lines,
  start: number,
  to: Lines,
  first: number,
): void {
  const source = data as Uint8Array, target = to.data as Uint8Array;
  for (let i = 0; i < firsts.length; i++) {
    const from = i * most, end = from + taps[i];
    const w0 = weights[from], w1 = weights[from + 1], w2 = weights[from + 2];
    const a = taps[i] > 1 ? along : 0, b = taps[i] > 2 ? 2 * along : 0;
    let s = start + (firsts[i] - skipped) * along, t = first + i * to.along;
    if (taps[i] <= 3) { // without the loop over the others it takes half the time
      for (let line = 0; line < lines; line++, s += across, t += to.across) {
        const sum = Math.imul(source[s], w0) + Math.imul(source[s + a], w1) + Math.imul(source[s + b], w2);
        target[t] = (ROUND + sum) >> BITS;
      }
    } else {
      for (let line = 0; line < lines; line++, s += across, t += to.across) {
        let sum = ROUND;
        for (let k = from, at = s; k < end; k++, at += along) sum += Math.imul(source[at], weights[k]);
        target[t] = sum >> BITS;
      }
    }
  }
}

function filterColours(
  { from: firsts, taps, weights, most }: Filter,
  skipped: number,
  lines: number,
  { data, starts: [r, g, b], along, across }: Lines,
  to: Lines,
): void {
  const source = data as Uint8Array, target = to.data as Uint8Array;
  const [r1, g1, b1] = to.starts;
  for (let line = 0; line < lines; line++) {
    for (let i = 0, t = line * to.across; i < firsts.length; i++, t += to.along) {
      let red = ROUND, green = ROUND, blue = ROUND;
      let s = line * across + (firsts[i] - skipped) * along;
      for (let k = i * most, end = k + taps[i]; k < end; k++, s += along) {
        const weight = weights[k];
        red += Math.imul(source[r + s], weight);
        green += Math.imul(source[g + s], weight);
        blue += Math.imul(source[b + s], weight);
      }
      target[r1 + t] = red >> BITS;
      target[g1 + t] = green >> BITS;
      target[b1 + t] = blue >> BITS;
    }
  }
}

/** Whole numbers are rounded when they are stored. */
function filterNumbers(
  { from: firsts, taps, weights, most }: Filter,
  skipped: number,
  lines: number,
  { data, along, across }: Lines,
  start: number,
  to: Lines,
  first: number,
): void {
  const source = data as Float64Array, target = to.data as Float64Array; // or any other type of numbers
  const floats = to.data instanceof Float64Array || to.data instanceof Float32Array;
  for (let i = 0; i < firsts.length; i++) {
    const from = i * most, end = from + taps[i];
    let s = start + (firsts[i] - skipped) * along, t = first + i * to.along;
    for (let line = 0; line < lines; line++, s += across, t += to.across) {
      let sum = 0;
      for (let k = from, at = s; k < end; k++, at += along) sum += source[at] * weights[k];
      target[t] = floats ? sum : toEven(sum);
    }
  }
}

/** Halves round to even: beyond 2^52 a double has no fraction, and the addition rounds so. */
const toEven = (x: number) => x + 1.5 * 2 ** 52 - 1.5 * 2 ** 52;

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
