// Planes -> what a JPEG keeps of them, as libjpeg writes one by default (4:2:0, the accurate transform) and reads it. Its bits are
// left out, since they lose nothing. May import places, header, inverse, colours.
import { copyGrey, toRgb } from "./colours";
import { planeBytes, setShape } from "./header";
import { flat, inverse } from "./inverse";
import { align, ARENA, BLOCK, need, QUANT, WORK } from "./places";

/** The tables of the standard's annex K, of brightness and of colours, in natural order. */
const TABLES: usize = memory.data<u8>([
  16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80,
  62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98,
  112, 100, 103, 99,
  17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99,
  99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
  99, 99,
]);

/** The place of the first plane, as `decode` leaves it. Pictures of three planes are wider than 4. */
export function again(width: i32, height: i32, planes: i32, quality: i32): usize {
  const grey = planes == 1, unit = grey ? 8 : 16;
  setShape(width, height, grey ? 1 : 2);
  setTables(quality);
  const pitch = (width + unit - 1) / unit * unit, rows = (height + unit - 1) / unit * unit;
  const luma = align(ARENA + planes * width * height + 64), full: usize = align(pitch * rows);
  const blue = luma + full, red = blue + full, small = pitch >> 1;
  const scratch = align(red + full + 64), made = align(scratch + 8 * (width + 64));
  need(made + 3 * planeBytes() + 64);
  if (grey) {
    for (let y = 0; y < height; y++) memory.copy(luma + y * pitch, ARENA + y * width, width);
  } else toYcc(width, height, luma, blue, red, pitch);
  fill(luma, width, height, pitch, rows);
  transform(luma, pitch, rows, 0);
  if (grey) {
    copyGrey(luma, pitch, made);
    return made;
  }
  halve(blue, width, height, pitch, rows);
  halve(red, width, height, pitch, rows);
  transform(blue, small, rows >> 1, 1);
  transform(red, small, rows >> 1, 1);
  toRgb(luma, blue, red, pitch, small, scratch, made);
  return made;
}

/** Annex K's tables are those of quality 50. */
function setTables(quality: i32): void {
  const share = quality < 50 ? 5000 / quality : 200 - 2 * quality;
  for (let i = 0; i < 128; i++) {
    store<i16>(QUANT + 2 * i, <i16>max(1, min(255, (load<u8>(TABLES + i) * share + 50) / 100)));
  }
}

function toYcc(width: i32, height: i32, luma: usize, blue: usize, red: usize, pitch: i32): void {
  const plane = width * height;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const from = ARENA + y * width + x, to = y * pitch + x;
      const r = <i32>load<u8>(from), g = <i32>load<u8>(from + plane), b = <i32>load<u8>(from + 2 * plane);
      store<u8>(luma + to, (19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
      store<u8>(blue + to, (-11059 * r - 21709 * g + 32768 * b + 8421375) >> 16);
      store<u8>(red + to, (32768 * r - 27439 * g - 5329 * b + 8421375) >> 16);
    }
  }
}

/** The last column, and then the last row, go on to the end. */
function fill(plane: usize, width: i32, height: i32, pitch: i32, rows: i32): void {
  for (let y = 0; y < height; y++) {
    const row = plane + y * pitch;
    memory.fill(row + width, load<u8>(row + width - 1), pitch - width);
  }
  for (let y = height; y < rows; y++) memory.copy(plane + y * pitch, plane + (height - 1) * pitch, pitch);
}

/** Four colours become their mean in place; halves are rounded up and down in turn. */
function halve(plane: usize, width: i32, height: i32, pitch: i32, rows: i32): void {
  const even = (height + 1) & ~1, small = pitch >> 1;
  fill(plane, width, height, pitch, even);
  for (let y = 0; y < even >> 1; y++) {
    const from = plane + 2 * y * pitch, to = plane + y * small;
    for (let x = 0; x < small; x++) {
      const at = from + 2 * x;
      const sum = <i32>load<u8>(at) + load<u8>(at + 1) + load<u8>(at + pitch) + load<u8>(at + pitch + 1);
      store<u8>(to + x, (sum + 1 + (x & 1)) >> 2);
    }
  }
  fill(plane, small, even >> 1, small, rows >> 1);
}

/** Each block goes through the transform, a table's steps, and back. */
function transform(plane: usize, pitch: i32, rows: i32, table: i32): void {
  const quant = QUANT + 128 * table;
  for (let y = 0; y < rows; y += 8) {
    for (let x = 0; x < pitch; x += 8) {
      const at = plane + y * pitch + x;
      for (let i = 0; i < 8; i++) forwardRow(at + i * pitch, WORK + 16 * i);
      for (let i = 0; i < 8; i++) forwardColumn(WORK + 2 * i);
      if (quantise(quant)) inverse(quant, at, pitch);
      else flat(<i32>load<i16>(BLOCK) * load<i16>(quant), at, pitch);
    }
  }
}

/** The transform is libjpeg's accurate one (jfdctint): 13 bits of fraction in constants, 2 between the passes. */
function forwardRow(from: usize, to: usize): void {
  const a = <i32>load<u8>(from) - 128, b = <i32>load<u8>(from + 1) - 128, c = <i32>load<u8>(from + 2) - 128;
  const d = <i32>load<u8>(from + 3) - 128, e = <i32>load<u8>(from + 4) - 128, f = <i32>load<u8>(from + 5) - 128;
  const g = <i32>load<u8>(from + 6) - 128, h = <i32>load<u8>(from + 7) - 128;
  forward(a, b, c, d, e, f, g, h, to, 2, 0, 11);
}

function forwardColumn(at: usize): void {
  const a = <i32>load<i16>(at), b = <i32>load<i16>(at + 16), c = <i32>load<i16>(at + 32), d = <i32>load<i16>(at + 48);
  const e = <i32>load<i16>(at + 64), f = <i32>load<i16>(at + 80), g = <i32>load<i16>(at + 96), h = <i32>load<i16>(at + 112);
  forward(a, b, c, d, e, f, g, h, at, 16, 2, 15);
}

// @ts-ignore: decorator
@inline
function descaled(x: i32, bits: i32): i16 {
  return <i16>((x + (1 << (bits - 1))) >> bits);
}

/** `less` bits fewer of the even sums; two more for none. */
function forward(
  a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: i32, to: usize, step: usize, less: i32, bits: i32,
): void {
  const s0 = a + h, s1 = b + g, s2 = c + f, s3 = d + e, s4 = d - e, s5 = c - f, s6 = b - g, s7 = a - h;
  const s10 = s0 + s3, s13 = s0 - s3, s11 = s1 + s2, s12 = s1 - s2;
  store<i16>(to, less == 0 ? <i16>((s10 + s11) << 2) : descaled(s10 + s11, 2));
  store<i16>(to + 4 * step, less == 0 ? <i16>((s10 - s11) << 2) : descaled(s10 - s11, 2));
  const z = (s12 + s13) * 4433;
  store<i16>(to + 2 * step, descaled(z + s13 * 6270, bits));
  store<i16>(to + 6 * step, descaled(z - s12 * 15137, bits));
  const z5 = (s4 + s6 + s5 + s7) * 9633;
  const z1 = -7373 * (s4 + s7), z2 = -20995 * (s5 + s6), z3 = z5 - 16069 * (s4 + s6), z4 = z5 - 3196 * (s5 + s7);
  store<i16>(to + 7 * step, descaled(s4 * 2446 + z1 + z3, bits));
  store<i16>(to + 5 * step, descaled(s5 * 16819 + z2 + z4, bits));
  store<i16>(to + 3 * step, descaled(s6 * 25172 + z2 + z3, bits));
  store<i16>(to + step, descaled(s7 * 12299 + z1 + z4, bits));
}

/** WORK in steps, rounded to the nearest, becomes BLOCK; whether there is more than its mean. */
function quantise(quant: usize): bool {
  let more = 0;
  for (let i = 0; i < 64; i++) {
    const x = <i32>load<i16>(WORK + 2 * i), by = <i32>load<i16>(quant + 2 * i) << 3;
    const steps = (abs(x) + (by >> 1)) / by, value = x < 0 ? -steps : steps;
    store<i16>(BLOCK + 2 * i, <i16>value);
    if (i > 0) more |= value;
  }
  return more != 0;
}
