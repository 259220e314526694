// Planes of brightness and colour differences, or pixels -> planes of red, green and blue. May import places, header,
// inverse's vectors.
import { across, down, height, planeBytes, setSize, width } from "./header";
import { both, high, low, pair } from "./inverse";
import { align, ARENA, need } from "./places";

export function copyGrey(luma: usize, pitch: i32, planes: usize): void {
  for (let c = 0; c < 3; c++) {
    const plane = planes + <usize>c * planeBytes();
    for (let y = 0; y < height; y++) memory.copy(plane + y * width, luma + <usize>(y * pitch), width);
  }
}

/** Row by row: the colour differences at full size, then colours. Rows are written up to 15 bytes too long, in order. */
export function toRgb(luma: usize, blue: usize, red: usize, lumaPitch: i32, pitch: i32, scratch: usize, planes: usize): void {
  const sums = scratch + 16, cb = align(scratch + 2 * (width + 32)), cr = align(cb + 2 * width + 64);
  const plane = planeBytes();
  const wide = (width + across - 1) / across, high = (height + down - 1) / down;
  for (let y = 0; y < height; y++) {
    const line = y / down;
    // The nearer row of colours counts three times, the other one once.
    const other = down == 1 ? line : max(0, min(high - 1, y & 1 ? line + 1 : line - 1));
    let cbRow = blue + line * pitch, crRow = red + line * pitch;
    if (across == 2) {
      widen(blue + line * pitch, blue + other * pitch, wide, sums, cb);
      widen(red + line * pitch, red + other * pitch, wide, sums, cr);
      cbRow = cb;
      crRow = cr;
    }
    colours(luma + y * lumaPitch, cbRow, crRow, planes + y * width, plane);
  }
}

/** libjpeg's "fancy upsampling": three parts of the nearer sample and one of the farther, in both directions. */
function widen(near: usize, far: usize, wide: i32, sums: usize, to: usize): void {
  const three = i16x8.splat(3);
  for (let x = 0; x < wide; x += 8) {
    const a = v128.load8x8_u(near + x);
    const sum = down == 1 ? a : i16x8.add(i16x8.mul(a, three), v128.load8x8_u(far + x));
    v128.store(sums + 2 * x, sum);
  }
  // The outermost samples have themselves for neighbours.
  store<i16>(sums - 2, load<i16>(sums));
  store<i16>(sums + 2 * wide, load<i16>(sums + 2 * wide - 2));
  const shift = down == 1 ? 2 : 4;
  const before = i16x8.splat(down == 1 ? 1 : 8), after = i16x8.splat(down == 1 ? 2 : 7);
  for (let x = 0; x < wide; x += 8) {
    const at = sums + 2 * x;
    const here = i16x8.mul(v128.load(at), three);
    const even = i16x8.shr_u(i16x8.add(i16x8.add(here, v128.load(at - 2)), before), shift);
    const odd = i16x8.shr_u(i16x8.add(i16x8.add(here, v128.load(at + 2)), after), shift);
    v128.store(to + 2 * x, v128.or(even, i16x8.shl(odd, 8)));
  }
}

/** Red = Y + 1.402 Cr, green = Y - 0.34414 Cb - 0.71414 Cr, blue = Y + 1.772 Cb, with 16 bits of fraction. */
function colours(luma: usize, cb: usize, cr: usize, to: usize, plane: usize): void {
  for (let x = 0; x < width; x += 16) {
    const y = v128.load(luma + x), half = i8x16.splat(-128);
    // Less 128, as signed bytes.
    const b = v128.xor(v128.load(cb + x), half), r = v128.xor(v128.load(cr + x), half);
    const y0 = i16x8.extend_low_i8x16_u(y), y1 = i16x8.extend_high_i8x16_u(y);
    const b0 = i16x8.extend_low_i8x16_s(b), b1 = i16x8.extend_high_i8x16_s(b);
    const r0 = i16x8.extend_low_i8x16_s(r), r1 = i16x8.extend_high_i8x16_s(r);
    v128.store(to + x, i8x16.narrow_i16x8_u(redOf(y0, r0), redOf(y1, r1)));
    v128.store(to + plane + x, i8x16.narrow_i16x8_u(greenOf(y0, b0, r0), greenOf(y1, b1, r1)));
    v128.store(to + 2 * plane + x, i8x16.narrow_i16x8_u(blueOf(y0, b0), blueOf(y1, b1)));
  }
}

/** (a * x + b * y + 2^15) >> 16 */
// @ts-ignore: decorator
@inline
function share(x: v128, y: v128, factors: v128): v128 {
  const round = i32x4.splat(32768);
  return both(
    i32x4.add(i32x4.dot_i16x8_s(low(x, y), factors), round),
    i32x4.add(i32x4.dot_i16x8_s(high(x, y), factors), round),
    16,
  );
}

// The whole parts of the factors are added apart: what is left of each fits 16 bits.
// @ts-ignore: decorator
@inline
function redOf(y: v128, cr: v128): v128 {
  return i16x8.add(i16x8.add(y, cr), share(cr, cr, pair(26345, 0)));
}

// @ts-ignore: decorator
@inline
function greenOf(y: v128, cb: v128, cr: v128): v128 {
  return i16x8.add(i16x8.sub(y, cr), share(cb, cr, pair(-22554, 18734)));
}

// @ts-ignore: decorator
@inline
function blueOf(y: v128, cb: v128): v128 {
  return i16x8.add(i16x8.add(y, i16x8.shl(cb, 1)), share(cb, cb, pair(-14942, 0)));
}

/** Planes of a picture that the library decoded, its red, green and blue in turn, in the room of a file. */
export function split(columns: i32, rows: i32): usize {
  setSize(columns, rows);
  const planes = align(ARENA + 3 * columns * rows + 64), plane = planeBytes();
  need(planes + 3 * plane + 64);
  for (let at: usize = 0, from = ARENA; at < <usize>(columns * rows); at += 16, from += 48) {
    const a = v128.load(from), b = v128.load(from, 16), c = v128.load(from, 32);
    const reds = i8x16.shuffle(a, b, 0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 0, 0, 0, 0, 0);
    const greens = i8x16.shuffle(a, b, 1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 0, 0, 0, 0, 0);
    const blues = i8x16.shuffle(a, b, 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 0, 0, 0, 0, 0, 0);
    const to = planes + at;
    v128.store(to, i8x16.shuffle(reds, c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 20, 23, 26, 29));
    v128.store(to + plane, i8x16.shuffle(greens, c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 18, 21, 24, 27, 30));
    v128.store(to + 2 * plane, i8x16.shuffle(blues, c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 19, 22, 25, 28, 31));
  }
  return planes;
}
