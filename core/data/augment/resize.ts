// Resizing is bilinear as in Pillow, with a wider filter where an image shrinks, one direction after the
// other. Bytes equal Pillow's, floats equal PyTorch's interpolate with antialias.
import { BadSample } from "../arrays/rows.ts";
import type { SampleNumbers } from "../arrays/numbers.ts";
import { type Filter, filterOf, type KernelName, type Passes, span } from "./filters.ts";
import { resampleBytes } from "./pixels.ts";
import type { Planes } from "./planes.ts";

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
  return (from, size, { top, left, rows, columns }, kernel = "bilinear") => {
    const { data, starts, height, width } = from;
    if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
      throw new BadSample(
        "",
        "has whole numbers of 64 bits, which can't be resized: store them in 32 bits or fewer",
      );
    }
    const bytes = data instanceof Uint8Array, plane = rows * columns;
    const down = filterOf(height, size[0], top, rows, bytes, kernel);
    const across = filterOf(width, size[1], left, columns, bytes, kernel);
    // Bytes are rounded between the passes, so the order matters: it is Pillow 13's.
    const rowsFirst = size[0] < height && 2 * (width - size[1]) < height - size[0];
    result = roomIn(result, data.constructor as Kind, starts.length * plane);
    if (bytes) resampleBytes(from, { down, across, rowsFirst }, result as Uint8Array);
    else {
      const [lines, length] = rowsFirst ? [span(across)[1], rows] : [span(down)[1], columns];
      between = roomIn(between, Float64Array, starts.length * lines * length);
      resampleNumbers(from, { down, across, rowsFirst }, between, result);
    }
    const places = starts.map((_, i) => i * plane);
    return { data: result, starts: places, height: rows, width: columns, row: columns, column: 1 };
  };
}

type Kind = new (length: number) => SampleNumbers;

const roomIn = (old: SampleNumbers, kind: Kind, length: number): SampleNumbers =>
  old.constructor === kind && old.length >= length ? old : new kind(length);

function resampleNumbers(
  { data, starts, row, column }: Planes,
  { down, across, rowsFirst }: Passes,
  between: SampleNumbers,
  result: SampleNumbers,
): void {
  const rows = down.from.length, columns = across.from.length;
  const [one, two] = rowsFirst ? [down, across] : [across, down];
  const [along, next] = rowsFirst ? [row, column] : [column, row];
  const [first, lines] = span(two), length = one.from.length, plane = lines * length;
  starts.forEach((start, i) => {
    filter(one, lines, { data, start: start + first * next, along, across: next }, {
      ...{ data: between, start: i * plane, along: 1, across: length },
    });
    // The lines of the first pass begin at the first one that the second looks at.
    filter(two, length, {
      ...{ data: between, start: i * plane - first * length, along: length, across: 1 },
    }, {
      ...{ data: result, start: i * rows * columns },
      ...(rowsFirst ? { along: 1, across: columns } : { along: columns, across: 1 }),
    });
  });
}

interface Lines {
  readonly data: SampleNumbers;
  readonly start: number;
  readonly along: number;
  readonly across: number;
}

/** Whole numbers are rounded when they are stored. */
function filter(
  { from: firsts, taps, weights, most }: Filter,
  lines: number,
  { data, start, along, across }: Lines,
  to: Lines,
): void {
  const source = data as Float64Array, target = to.data as Float64Array; // or any other type of numbers
  const floats = to.data instanceof Float64Array || to.data instanceof Float32Array;
  for (let i = 0; i < firsts.length; i++) {
    const from = i * most, end = from + taps[i];
    let s = start + firsts[i] * along, t = to.start + i * to.along;
    for (let line = 0; line < lines; line++, s += across, t += to.across) {
      let sum = 0;
      for (let k = from, at = s; k < end; k++, at += along) sum += source[at] * weights[k];
      target[t] = floats ? sum : toEven(sum);
    }
  }
}

/** Halves round to even: beyond 2^52 a double has no fraction, and the addition rounds so. */
const toEven = (x: number) => x + 1.5 * 2 ** 52 - 1.5 * 2 ** 52;
