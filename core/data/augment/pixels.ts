// Pictures of bytes go through pixels.wasm, whose source is beside this file: planes are copied into its memory, and back.
import { type Filter, type Passes, span } from "./filters.ts";
import { copyPlanes, cut, type Planes } from "./planes.ts";

interface Exports {
  readonly memory: WebAssembly.Memory;
  room(bytes: number): number;
  prepare(
    ...args: [
      firsts: number,
      taps: number,
      weights: number,
      most: number,
      count: number,
      skipped: number,
      to: number,
    ]
  ): void;
  down(
    ...args: [
      from: number,
      pitch: number,
      columns: number,
      filter: number,
      most: number,
      count: number,
      to: number,
      toPitch: number,
    ]
  ): void;
  across(
    ...args: [
      from: number,
      pitch: number,
      columns: number,
      rows: number,
      filter: number,
      most: number,
      count: number,
      to: number,
      toPitch: number,
      scratch: number,
    ]
  ): void;
  moveNearest(
    ...args: [
      ...matrix: [number, number, number, number, number, number],
      from: number,
      width: number,
      height: number,
      planes: number,
      stride: number,
      to: number,
      offsets: number,
    ]
  ): void;
  sharpen(from: number, to: number, width: number, height: number, rest: number): void;
  saturate(at: number, plane: number, by: number, other: number, to: number): void;
  greySum(at: number, plane: number): number;
  scale(at: number, count: number, by: number, plus: number): void;
  range(at: number, count: number, scratch: number): number;
}

let opened: Exports | null = null;

function open(): Exports {
  if (opened) return opened;
  const code = Deno.readFileSync(new URL("./pixels.wasm", import.meta.url));
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(code));
  return opened = exports as unknown as Exports;
}

/** Vectors are read and written a little beyond a row. */
const SPARE = 64;

const upTo = (length: number, unit: number): number => Math.ceil(length / unit) * unit;

/** So many bytes for each of these, one after the other; growing moves the memory's views, and no place. */
function places(wasm: Exports, ...sizes: number[]): { at: number[]; bytes: Uint8Array<ArrayBuffer> } {
  let next = 0;
  const from = sizes.map((size) => {
    const here = next;
    next += upTo(size + SPARE, 64);
    return here;
  });
  const base = wasm.room(next);
  return { at: from.map((place) => base + place), bytes: new Uint8Array(wasm.memory.buffer as ArrayBuffer) };
}

/** A part of a picture of this many bytes is resampled at once, so that large pictures need no memory of their size. */
const STRIP = 2 ** 18;

/** So many bytes of each column are turned at once, as resample.as has it. */
const BAND = 64;

/** The planes follow one another in `into`. */
export function resampleBytes(from: Planes, { down, across, rowsFirst }: Passes, into: Uint8Array): void {
  const rows = down.from.length, columns = across.from.length;
  if (rows === 0 || columns === 0) return;
  const [top, lines] = span(down), [left, length] = span(across);
  const strip = rowsFirst
    ? Math.min(length, upTo(STRIP / lines, 16))
    : Math.min(lines, upTo(STRIP / length, BAND));
  const [high, wide] = rowsFirst ? [lines, strip] : [strip, length];
  const middle = rowsFirst ? [rows, length] : [lines, columns];
  const pitch = upTo(wide, 16), between = upTo(middle[1], 16) + 16, end = upTo(columns, 16);
  const wasm = open();
  const { at: [weights, downs, acrosses, source, mid, result, scratch] } = places(
    wasm,
    ...[Math.max(roomOf(down), roomOf(across)), roomOf(down), roomOf(across)],
    ...[pitch * (high + 8), between * (middle[0] + 8), end * (rows + 8)],
    BAND * (upTo(length, 8) + upTo(columns, 8)),
  );
  const bytes = new Uint8Array(wasm.memory.buffer);
  prepare(wasm, down, top, weights, downs);
  prepare(wasm, across, left, weights, acrosses);
  from.starts.forEach((start, i) => {
    const plane = cut({ ...from, starts: [start] }, top, left, lines, length);
    for (let at = 0; at < (rowsFirst ? length : lines); at += strip) {
      const some = Math.min(strip, (rowsFirst ? length : lines) - at);
      const part = rowsFirst ? cut(plane, 0, at, lines, some) : cut(plane, at, 0, some, length);
      copyPlanes(part, bytes, { start: source, plane: 0, row: pitch, column: 1 });
      if (rowsFirst) wasm.down(source, pitch, some, downs, down.most, rows, mid + at, between);
      else {
        wasm.across(
          ...[source, pitch, length, some, acrosses, across.most, columns] as const,
          ...[mid + at * between, between, scratch] as const,
        );
      }
    }
    if (rowsFirst) {
      wasm.across(mid, between, length, rows, acrosses, across.most, columns, result, end, scratch);
    } else wasm.down(mid, between, columns, downs, down.most, rows, result, end);
    const made = {
      ...{ data: bytes, starts: [result], height: rows, width: columns, row: end, column: 1 },
    };
    copyPlanes(made, into, { start: i * rows * columns, plane: 0, row: columns, column: 1 });
  });
}

/** Weights, or their pairs with what stands before them, and two lists of whole numbers. */
const roomOf = ({ from, most }: Filter): number => from.length * (4 * (most + 1) + 16);

function prepare(wasm: Exports, by: Filter, skipped: number, scratch: number, to: number): void {
  const { from, taps, weights, most } = by, count = from.length;
  const words = new Int32Array(wasm.memory.buffer);
  words.set(from, scratch / 4);
  words.set(taps, scratch / 4 + count);
  words.set(weights, scratch / 4 + 2 * count);
  wasm.prepare(scratch, scratch + 4 * count, scratch + 8 * count, most, count, skipped, to);
}

/** Each pixel is the nearest one of an affine map, in planes that follow one another in `into`; others are `fills`. */
export function moveNearest(
  from: Planes,
  matrix: readonly [number, number, number, number, number, number],
  fills: readonly number[],
  into: Uint8Array,
): void {
  const { height, width, starts } = from, size = height * width, stride = size + 1, wasm = open();
  const { at: [source, target, offsets], bytes } = places(
    wasm,
    ...[starts.length * stride, starts.length * size, 4 * width],
  );
  copyPlanes(from, bytes, { start: source, plane: stride, row: width, column: 1 });
  fills.forEach((value, c) => bytes[source + c * stride + size] = value);
  wasm.moveNearest(...matrix, source, width, height, starts.length, stride, target, offsets);
  into.set(bytes.subarray(target, target + starts.length * size));
}

/** Planes of red, green and blue are blended with their grey: each becomes by * x + other * grey. */
export function saturate(pixels: Uint8Array, plane: number, by: number, other: number): void {
  const wasm = open(), { at: [source, target], bytes } = places(wasm, pixels.length, pixels.length);
  bytes.set(pixels, source);
  wasm.saturate(source, plane, by, other, target);
  pixels.set(bytes.subarray(target, target + pixels.length));
}

/** The sum of the grey values of planes of red, green and blue. */
export function greySum(pixels: Uint8Array, plane: number): number {
  const wasm = open(), { at: [source], bytes } = places(wasm, pixels.length);
  bytes.set(pixels, source);
  return wasm.greySum(source, plane);
}

/** Each becomes by * x + plus, in floats, cut to a byte. */
export function scale(pixels: Uint8Array, by: number, plus: number): void {
  const wasm = open(), { at: [source], bytes } = places(wasm, pixels.length);
  bytes.set(pixels, source);
  wasm.scale(source, pixels.length, by, plus);
  pixels.set(bytes.subarray(source, source + pixels.length));
}

export function range(pixels: Uint8Array): [least: number, greatest: number] {
  const wasm = open(), { at: [source, scratch], bytes } = places(wasm, pixels.length, 32);
  bytes.set(pixels, source);
  const both = wasm.range(source, pixels.length, scratch);
  return [both & 255, both >> 8];
}

/** Pixels within the edge become x + rest * (mean - x) by their neighbours' mean. */
export function sharpen(
  pixels: Uint8Array,
  [planes, height, width]: readonly [number, number, number],
  rest: number,
): void {
  const wasm = open(), size = height * width;
  const { at: [source, target], bytes } = places(wasm, pixels.length, pixels.length);
  bytes.set(pixels, source);
  bytes.copyWithin(target, source, source + pixels.length);
  for (let c = 0; c < planes; c++) wasm.sharpen(source + c * size, target + c * size, width, height, rest);
  pixels.set(bytes.subarray(target, target + pixels.length));
}
