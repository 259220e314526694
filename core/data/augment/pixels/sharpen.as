// A pixel against its neighbours' mean. Imports nothing.

/** Pixels within the edge, from one place to another; the edge itself is the caller's. */
export function sharpen(from: usize, to: usize, width: i32, height: i32, rest: f64): void {
  const rests = f64x2.splat(rest);
  for (let y = 1; y < height - 1; y++) {
    const row = y * width, last = width - 1;
    let x = 1;
    for (; x + 8 <= last; x += 8) v128.store64_lane(to + row + x, sharp8(from + row + x, width, rests), 0);
    for (; x < last; x++) store<u8>(to + row + x, i8x16.extract_lane_u(sharp8(from + row + x, width, rests), 0));
  }
}

// @ts-ignore: decorator
@inline
function column(at: usize, width: i32): v128 {
  return i16x8.add(i16x8.add(v128.load8x8_u(at - width), v128.load8x8_u(at)), v128.load8x8_u(at + width));
}

/** The mean of 13 parts, of which the pixel has five, rounded: (2 * sum + 13) / 26, which is a multiplication below 6,644. */
// @ts-ignore: decorator
@inline
function sharp8(at: usize, width: i32, rest: v128): v128 {
  const own = v128.load8x8_u(at);
  const sum = i16x8.add(i16x8.add(i16x8.add(column(at - 1, width), column(at, width)), column(at + 1, width)), i16x8.shl(own, 2));
  const twice = i16x8.add(i16x8.shl(sum, 1), i16x8.splat(13)), by = i16x8.splat(20165);
  const low = i32x4.shr_u(i32x4.extmul_low_i16x8_u(twice, by), 19), high = i32x4.shr_u(i32x4.extmul_high_i16x8_u(twice, by), 19);
  const a = blended(i32x4.extend_low_i16x8_u(own), low, rest), b = blended(i32x4.extend_high_i16x8_u(own), high, rest);
  const halves = i16x8.narrow_i32x4_s(a, b);
  return i8x16.narrow_i16x8_u(halves, halves);
}

// @ts-ignore: decorator
@inline
function blended(own: v128, soft: v128, rest: v128): v128 {
  const difference = i32x4.sub(soft, own);
  const low = f64x2.add(f64x2.convert_low_i32x4_s(own), f64x2.mul(f64x2.convert_low_i32x4_s(difference), rest));
  const up = i8x16.shuffle(own, own, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
  const rise = i8x16.shuffle(difference, difference, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
  const high = f64x2.add(f64x2.convert_low_i32x4_s(up), f64x2.mul(f64x2.convert_low_i32x4_s(rise), rest));
  const l = i32x4.trunc_sat_f64x2_s_zero(low), h = i32x4.trunc_sat_f64x2_s_zero(high);
  return i8x16.shuffle(l, h, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
}
