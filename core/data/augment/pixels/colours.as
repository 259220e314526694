// Colours of bytes: what colour.ts says of one value, 4 or 16 at once. Rows are read and written up to 15 bytes too long. Imports
// nothing.

/** Both halves of four whole numbers, as doubles. */
// @ts-ignore: decorator
@inline
function lower(x: v128): v128 {
  return f64x2.convert_low_i32x4_u(x);
}

// @ts-ignore: decorator
@inline
function upper(x: v128): v128 {
  return f64x2.convert_low_i32x4_u(i8x16.shuffle(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
}

/** Two pairs of doubles as four floats. */
// @ts-ignore: decorator
@inline
function floats(a: v128, b: v128): v128 {
  const low = f32x4.demote_f64x2_zero(a), high = f32x4.demote_f64x2_zero(b);
  return i8x16.shuffle(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
}

// @ts-ignore: decorator
@inline
function four(at: usize): v128 {
  return i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(v128.load32_zero(at)));
}

// @ts-ignore: decorator
@inline
function one(at: usize): v128 {
  return i32x4.splat(load<u8>(at));
}

/** In the first four lanes; what is no byte becomes the nearest. */
// @ts-ignore: decorator
@inline
function bytes(x: v128): v128 {
  const halves = i16x8.narrow_i32x4_s(x, x);
  return i8x16.narrow_i16x8_u(halves, halves);
}

const RED: f64 = <f64> (<f32> 0.2989), GREEN: f64 = <f64> (<f32> 0.587), BLUE: f64 = <f64> (<f32> 0.114);

/** A half's products and first sum are exact in doubles; they are floats after each sum, as in torch. */
// @ts-ignore: decorator
@inline
function grey2(r: v128, g: v128, b: v128): v128 {
  const first = f64x2.add(f64x2.mul(r, f64x2.splat(RED)), f64x2.mul(g, f64x2.splat(GREEN)));
  return f64x2.add(f64x2.promote_low_f32x4(f32x4.demote_f64x2_zero(first)), f64x2.mul(b, f64x2.splat(BLUE)));
}

// @ts-ignore: decorator
@inline
function grey4(r: v128, g: v128, b: v128): v128 {
  return i32x4.trunc_sat_f32x4_u(floats(grey2(lower(r), lower(g), lower(b)), grey2(upper(r), upper(g), upper(b))));
}

/** The sum of all grey values, of planes that follow one another. */
export function greySum(at: usize, plane: i32): f64 {
  let sum: u64 = 0;
  const most = plane & ~3;
  for (let i = 0; i < most; i += 4) {
    const g = grey4(four(at + i), four(at + plane + i), four(at + 2 * plane + i));
    sum += i32x4.extract_lane(g, 0) + i32x4.extract_lane(g, 1) + i32x4.extract_lane(g, 2) + i32x4.extract_lane(g, 3);
  }
  for (let i = most; i < plane; i++) {
    sum += i32x4.extract_lane(grey4(one(at + i), one(at + plane + i), one(at + 2 * plane + i)), 0);
  }
  return <f64>sum;
}

// @ts-ignore: decorator
@inline
function blend4(x: v128, grey: v128, by: v128, other: v128): v128 {
  const low = f64x2.add(f64x2.mul(lower(x), by), f64x2.mul(lower(grey), other));
  const high = f64x2.add(f64x2.mul(upper(x), by), f64x2.mul(upper(grey), other));
  return i32x4.trunc_sat_f32x4_u(floats(low, high));
}

/** Each colour is blended with its pixel's grey, in planes that follow one another. `to` is another place. */
export function saturate(at: usize, plane: i32, by: f64, other: f64, to: usize): void {
  const bys = f64x2.splat(by), others = f64x2.splat(other), most = plane & ~3;
  for (let i = 0; i < most; i += 4) {
    const r = four(at + i), g = four(at + plane + i), b = four(at + 2 * plane + i), grey = grey4(r, g, b);
    v128.store32_lane(to + i, bytes(blend4(r, grey, bys, others)), 0);
    v128.store32_lane(to + plane + i, bytes(blend4(g, grey, bys, others)), 0);
    v128.store32_lane(to + 2 * plane + i, bytes(blend4(b, grey, bys, others)), 0);
  }
  for (let i = most; i < plane; i++) {
    const r = one(at + i), g = one(at + plane + i), b = one(at + 2 * plane + i), grey = grey4(r, g, b);
    v128.store8_lane(to + i, bytes(blend4(r, grey, bys, others)), 0);
    v128.store8_lane(to + plane + i, bytes(blend4(g, grey, bys, others)), 0);
    v128.store8_lane(to + 2 * plane + i, bytes(blend4(b, grey, bys, others)), 0);
  }
}

/** x * by + plus in floats, rounded after each, cut to a byte. */
export function scale(at: usize, count: i32, by: f32, plus: f32): void {
  const bys = f32x4.splat(by), pluses = f32x4.splat(plus);
  for (let i = 0; i < count; i += 16) {
    const x = v128.load(at + i), low = i16x8.extend_low_i8x16_u(x), high = i16x8.extend_high_i8x16_u(x);
    const a = scaled(i32x4.extend_low_i16x8_u(low), bys, pluses), b = scaled(i32x4.extend_high_i16x8_u(low), bys, pluses);
    const c = scaled(i32x4.extend_low_i16x8_u(high), bys, pluses), d = scaled(i32x4.extend_high_i16x8_u(high), bys, pluses);
    v128.store(at + i, i8x16.narrow_i16x8_u(i16x8.narrow_i32x4_s(a, b), i16x8.narrow_i32x4_s(c, d)));
  }
}

// @ts-ignore: decorator
@inline
function scaled(x: v128, by: v128, plus: v128): v128 {
  return i32x4.trunc_sat_f32x4_s(f32x4.add(f32x4.mul(f32x4.convert_i32x4_u(x), by), plus));
}

/** The least and the greatest value, the latter times 256; `scratch` has room for 32 bytes. */
export function range(at: usize, count: i32, scratch: usize): i32 {
  let low = i8x16.splat(-1), high = i64x2.splat(0);
  const most = count & ~15;
  for (let i = 0; i < most; i += 16) {
    const x = v128.load(at + i);
    low = i8x16.min_u(low, x);
    high = i8x16.max_u(high, x);
  }
  v128.store(scratch, low);
  v128.store(scratch, high, 16);
  let least = 255, greatest = 0;
  for (let k = 0; k < 16; k++) {
    least = min(least, <i32>load<u8>(scratch + k));
    greatest = max(greatest, <i32>load<u8>(scratch + k, 16));
  }
  for (let i = most; i < count; i++) {
    least = min(least, <i32>load<u8>(at + i));
    greatest = max(greatest, <i32>load<u8>(at + i));
  }
  return least | (greatest << 8);
}
