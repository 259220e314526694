// Weighted sums of rows, 16 columns at once; columns are summed as the rows of a turned picture. Imports nothing.

/** Of an output: its first row and the pairs of rows that it has; then of each pair its weights' upper and lower halves. */
const ENTRY: usize = 8, PAIR: usize = 8;

const BITS = 22;

// @ts-ignore: decorator
@inline
function halves(a: i32, b: i32): u32 {
  return ((<u32>a) & 0xffff) | ((<u32>b) << 16);
}

/**
 * Weights of 22 bits become pairs of 16, since two rows are weighed in one instruction: w = 65536 * upper + lower. `most` is the
 * room of an output's weights. The last row of an odd number has itself for a partner, of no weight.
 */
export function prepare(firsts: usize, taps: usize, weights: usize, most: i32, count: i32, skipped: i32, to: usize): void {
  const stride = strideOf(most);
  for (let i = 0; i < count; i++, to += stride, weights += 4 * most) {
    const n = load<i32>(taps + 4 * i);
    store<i32>(to, load<i32>(firsts + 4 * i) - skipped);
    store<i32>(to + 4, n);
    for (let k = 0; k < n; k += 2) {
      const a = load<i32>(weights + 4 * k), b = k + 1 < n ? load<i32>(weights + 4 * k + 4) : 0;
      const at = to + ENTRY + <usize>(k >> 1) * PAIR;
      store<u32>(at, halves((a + 0x8000) >> 16, (b + 0x8000) >> 16));
      store<u32>(at + 4, halves(a, b));
    }
  }
}

// @ts-ignore: decorator
@inline
function strideOf(most: i32): usize {
  return ENTRY + <usize>((most + 1) >> 1) * PAIR;
}

/** `count` rows from those at `from`; columns go up to a multiple of 16. */
export function down(from: usize, pitch: i32, columns: i32, filter: usize, most: i32, count: i32, to: usize, toPitch: i32): void {
  const stride = strideOf(most);
  for (let i = 0; i < count; i++, filter += stride, to += toPitch) {
    const first = from + load<i32>(filter) * pitch, taps = load<i32>(filter + 4);
    for (let x = 0; x < columns; x += 16) store16(first + x, pitch, filter + ENTRY, taps, to + x);
  }
}

// @ts-ignore: decorator
@inline
function store16(at: usize, pitch: i32, pairs: usize, taps: i32, to: usize): void {
  const zero = i64x2.splat(0), round = i32x4.splat(1 << (BITS - 1));
  let l0 = round, l1 = round, l2 = round, l3 = round, h0 = zero, h1 = zero, h2 = zero, h3 = zero;
  for (let k = 0; k < taps; k += 2, at += 2 * pitch, pairs += PAIR) {
    const a = v128.load(at), b = v128.load(k + 1 < taps ? at + pitch : at);
    const low = i8x16.shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const high = i8x16.shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    const p0 = i16x8.extend_low_i8x16_u(low), p1 = i16x8.extend_high_i8x16_u(low);
    const p2 = i16x8.extend_low_i8x16_u(high), p3 = i16x8.extend_high_i8x16_u(high);
    const upper = v128.load32_splat(pairs), lower = v128.load32_splat(pairs + 4);
    h0 = i32x4.add(h0, i32x4.dot_i16x8_s(p0, upper));
    h1 = i32x4.add(h1, i32x4.dot_i16x8_s(p1, upper));
    h2 = i32x4.add(h2, i32x4.dot_i16x8_s(p2, upper));
    h3 = i32x4.add(h3, i32x4.dot_i16x8_s(p3, upper));
    l0 = i32x4.add(l0, i32x4.dot_i16x8_s(p0, lower));
    l1 = i32x4.add(l1, i32x4.dot_i16x8_s(p1, lower));
    l2 = i32x4.add(l2, i32x4.dot_i16x8_s(p2, lower));
    l3 = i32x4.add(l3, i32x4.dot_i16x8_s(p3, lower));
  }
  const first = i16x8.narrow_i32x4_s(sum(h0, l0), sum(h1, l1)), second = i16x8.narrow_i32x4_s(sum(h2, l2), sum(h3, l3));
  v128.store(to, i8x16.narrow_i16x8_u(first, second));
}

// @ts-ignore: decorator
@inline
function sum(upper: v128, lower: v128): v128 {
  return i32x4.shr_s(i32x4.add(i32x4.shl(upper, 16), lower), BITS);
}

/** So many rows are turned at once: what they are turned into stays in the nearest cache. */
const BAND = 64;

/** `count` columns from those of each row; `scratch` has room for BAND bytes of each column, before and behind. */
export function across(
  from: usize,
  pitch: i32,
  columns: i32,
  rows: i32,
  filter: usize,
  most: i32,
  count: i32,
  to: usize,
  toPitch: i32,
  scratch: usize,
): void {
  const turned = scratch + <usize>((columns + 7) & ~7) * BAND;
  for (let y = 0; y < rows; y += BAND) {
    const some = min(BAND, rows - y);
    turn(from + y * pitch, pitch, columns, some, scratch, BAND);
    down(scratch, BAND, some, filter, most, count, turned, BAND);
    turn(turned, BAND, some, count, to + y * toPitch, toPitch);
  }
}

/** Columns become rows, eight by eight: it reads and writes up to a multiple of 8 in both directions. */
function turn(from: usize, pitch: i32, columns: i32, rows: i32, to: usize, toPitch: i32): void {
  for (let y = 0; y < rows; y += 8) {
    for (let x = 0; x < columns; x += 8) turn8(from + y * pitch + x, pitch, to + x * toPitch + y, toPitch);
  }
}

// @ts-ignore: decorator
@inline
function zip(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

// @ts-ignore: decorator
@inline
function turn8(at: usize, pitch: i32, to: usize, toPitch: i32): void {
  const r0 = v128.load64_zero(at), r1 = v128.load64_zero(at + pitch);
  const r2 = v128.load64_zero(at + 2 * pitch), r3 = v128.load64_zero(at + 3 * pitch);
  const r4 = v128.load64_zero(at + 4 * pitch), r5 = v128.load64_zero(at + 5 * pitch);
  const r6 = v128.load64_zero(at + 6 * pitch), r7 = v128.load64_zero(at + 7 * pitch);
  const a = zip(r0, r1), b = zip(r2, r3), c = zip(r4, r5), d = zip(r6, r7);
  // Pairs of rows, then fours, then eights.
  const ab0 = i8x16.shuffle(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
  const ab1 = i8x16.shuffle(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31);
  const cd0 = i8x16.shuffle(c, d, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
  const cd1 = i8x16.shuffle(c, d, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31);
  two(ab0, cd0, to, toPitch);
  two(ab1, cd1, to + 4 * toPitch, toPitch);
}

/** Four rows of the turned eight. */
// @ts-ignore: decorator
@inline
function two(ab: v128, cd: v128, to: usize, pitch: i32): void {
  const even = i8x16.shuffle(ab, cd, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const odd = i8x16.shuffle(ab, cd, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
  v128.store64_lane(to, even, 0);
  v128.store64_lane(to + pitch, even, 1);
  v128.store64_lane(to + 2 * pitch, odd, 0);
  v128.store64_lane(to + 3 * pitch, odd, 1);
}
