// The first picture of a GIF as numbers: each pixel's place in the palette. Label images of some collections are such files.
import { BadSample } from "../../core/data/arrays/rows.ts";
import { cutOff, has } from "../../core/data/images/header.ts";

const TRAILER = 0x3b, EXTENSION = 0x21, PICTURE = 0x2c, FREE = 4096;

export interface Gif {
  readonly width: number;
  readonly height: number;
}

/** Null where the file is no GIF. */
export function gifHeader(file: Uint8Array): Gif | null {
  if (!has(file, 0, "GIF87a") && !has(file, 0, "GIF89a")) return null;
  if (file.length < 13) throw cutOff(file, "before its picture begins");
  return { width: little16(file, 6), height: little16(file, 8) };
}

/** Pixels that the picture leaves out are 0, as the file's background mostly is. */
export function gifNumbers(file: Uint8Array, { width, height }: Gif, into: Int32Array): void {
  const { at, left, top, columns, rows, interlaced } = pictureIn(file);
  if (left + columns > width || top + rows > height) {
    throw damaged("its picture is larger than the file says");
  }
  const places = unpacked(file, at, columns * rows);
  into.fill(0);
  const order = interlaced ? interlacedRows(rows) : null;
  for (let row = 0; row < rows; row++) {
    const to = (top + (order?.[row] ?? row)) * width + left, from = row * columns;
    for (let x = 0; x < columns; x++) into[to + x] = places[from + x];
  }
}

/** Where the first picture's codes begin, and its place. */
function pictureIn(file: Uint8Array) {
  let at = 13 + tableBytes(file[10]);
  for (;;) {
    const kind = file[at];
    if (kind === PICTURE && at + 10 < file.length) break;
    if (kind === EXTENSION) at = behindBlocks(file, at + 2);
    else if (kind === TRAILER) throw damaged("there is no picture in it");
    else {throw at >= file.length
        ? cutOff(file, "before its picture begins")
        : damaged("its parts are of no known kind");}
  }
  const flags = file[at + 9];
  return {
    left: little16(file, at + 1),
    top: little16(file, at + 3),
    columns: little16(file, at + 5),
    rows: little16(file, at + 7),
    interlaced: (flags & 0x40) !== 0,
    at: at + 10 + tableBytes(flags),
  };
}

/** Codes of 2 to 12 bits, low bits first (LZW): each is an earlier run of places and one place more. */
function unpacked(file: Uint8Array, from: number, count: number): Uint8Array {
  const first = file[from], clear = 1 << first, end = clear + 1;
  if (!(first >= 1 && first <= 8)) throw damaged("its codes begin with a wrong size");
  const before = new Int16Array(FREE), last = new Uint8Array(FREE), run = new Uint8Array(FREE);
  const places = new Uint8Array(count);
  let size = first + 1, next = end + 1, previous = -1, done = 0;
  let at = from + 1, block = 0, bits = 0, held = 0;
  for (;;) {
    while (held < size) {
      if (block === 0) {
        if (at >= file.length) throw cutOff(file, "within its picture");
        if ((block = file[at++]) === 0) throw cutOff(file, "within its picture");
      }
      if (at >= file.length) throw cutOff(file, "within its picture");
      bits |= file[at++] << held;
      block--;
      held += 8;
    }
    const code = bits & ((1 << size) - 1);
    bits >>= size;
    held -= size;
    if (code === clear) {
      size = first + 1;
      next = end + 1;
      previous = -1;
      continue;
    }
    if (code === end) break;
    if (code > next || (code === next && previous < 0) || (code > end && previous < 0)) {
      throw damaged("it has a code that stands for nothing");
    }
    let length = 0;
    for (let walk = code === next ? previous : code;; walk = before[walk]) {
      run[length++] = walk < clear ? walk : last[walk];
      if (walk < clear) break;
    }
    const begin = run[length - 1];
    if (done + length + (code === next ? 1 : 0) > count) throw damaged("it has more pixels than its size");
    while (length > 0) places[done++] = run[--length];
    if (code === next) places[done++] = begin;
    if (previous >= 0 && next < FREE) {
      before[next] = previous;
      last[next++] = begin;
      if (next === 1 << size && size < 12) size++;
    }
    previous = code;
    if (done === count) break;
  }
  if (done < count) throw damaged("it has fewer pixels than its size");
  return places;
}

/** Every eighth row, then those between, ever finer. */
const interlacedRows = (rows: number): number[] =>
  [[0, 8], [4, 8], [2, 4], [1, 2]].flatMap(([first, step]) =>
    Array.from({ length: Math.max(0, Math.ceil((rows - first) / step)) }, (_, i) => first + i * step)
  );

const tableBytes = (flags: number): number => flags & 0x80 ? 3 << ((flags & 7) + 1) : 0;

function behindBlocks(file: Uint8Array, from: number): number {
  let at = from;
  while (at < file.length && file[at] !== 0) at += 1 + file[at];
  return at + 1;
}

const little16 = (file: Uint8Array, at: number): number => file[at] + 256 * file[at + 1];

const damaged = (why: string): BadSample => new BadSample("", `is a damaged GIF: ${why}`);
