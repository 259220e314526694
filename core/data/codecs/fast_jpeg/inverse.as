// 64 coefficients -> 8 x 8 values. May import places.
import { BLOCK, WORK } from "./places";

/** A block of one colour: what is left of `inverse`. */
export function flat(dc: i32, to: usize, pitch: i32): void {
  const level = <u8>max(0, min(255, ((<i32>(<i16>(dc << 2)) + 16) >> 5) + 128));
  const row = <u64>level * 0x0101010101010101;
  for (let y = 0; y < 8; y++) store<u64>(to + y * pitch, row);
}

// The inverse transform is libjpeg's accurate one (jidctint), in the steps that its vector code takes: 16-bit values,
// products of pairs in 32 bits, 13 bits of fraction in constants and 2 between the passes.
export function inverse(quant: usize, to: usize, pitch: i32): void {
  pass(BLOCK, quant, true, 11);
  pass(WORK, 0, false, 18);
  const half = i16x8.splat(128);
  for (let y = 0; y < 8; y += 2) {
    const a = i16x8.add_sat_s(v128.load(WORK + 16 * y), half), b = i16x8.add_sat_s(v128.load(WORK + 16 * y + 16), half);
    const both = i8x16.narrow_i16x8_u(a, b);
    v128.store64_lane(to + y * pitch, both, 0);
    v128.store64_lane(to + (y + 1) * pitch, both, 1);
  }
}

// @ts-ignore: decorator
@inline
export function low(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
}

// @ts-ignore: decorator
@inline
export function high(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31);
}

// @ts-ignore: decorator
@inline
export function pair(a: i16, b: i16): v128 {
  return i32x4.splat((<i32>a & 0xffff) | (<i32>b << 16));
}

// @ts-ignore: decorator
@inline
function row(from: usize, quant: usize, scaled: bool, y: i32): v128 {
  const values = v128.load(from + 16 * y);
  return scaled ? i16x8.mul(values, v128.load(quant + 16 * y)) : values;
}

/** One pass over the columns of `from`; WORK then has its result turned, columns for rows. */
// @ts-ignore: decorator
@inline
function pass(from: usize, quant: usize, scaled: bool, shift: i32): void {
  const r0 = row(from, quant, scaled, 0), r1 = row(from, quant, scaled, 1), r2 = row(from, quant, scaled, 2);
  const r3 = row(from, quant, scaled, 3), r4 = row(from, quant, scaled, 4), r5 = row(from, quant, scaled, 5);
  const r6 = row(from, quant, scaled, 6), r7 = row(from, quant, scaled, 7);
  const round = i32x4.splat(1 << (shift - 1));

  // Even part.
  const to3 = pair(10703, 4433), to2 = pair(4433, -10704);
  const l26 = low(r2, r6), h26 = high(r2, r6);
  const t3l = i32x4.dot_i16x8_s(l26, to3), t3h = i32x4.dot_i16x8_s(h26, to3);
  const t2l = i32x4.dot_i16x8_s(l26, to2), t2h = i32x4.dot_i16x8_s(h26, to2);
  const sum = i16x8.add(r0, r4), difference = i16x8.sub(r0, r4), zero = i64x2.splat(0);
  const t0l = i32x4.add(i32x4.shr_s(low(zero, sum), 3), round), t0h = i32x4.add(i32x4.shr_s(high(zero, sum), 3), round);
  const t1l = i32x4.add(i32x4.shr_s(low(zero, difference), 3), round);
  const t1h = i32x4.add(i32x4.shr_s(high(zero, difference), 3), round);
  const e0l = i32x4.add(t0l, t3l), e0h = i32x4.add(t0h, t3h), e3l = i32x4.sub(t0l, t3l), e3h = i32x4.sub(t0h, t3h);
  const e1l = i32x4.add(t1l, t2l), e1h = i32x4.add(t1h, t2h), e2l = i32x4.sub(t1l, t2l), e2h = i32x4.sub(t1h, t2h);

  // Odd part.
  const z3 = i16x8.add(r7, r3), z4 = i16x8.add(r5, r1);
  const lz = low(z3, z4), hz = high(z3, z4);
  const toZ3 = pair(-6436, 9633), toZ4 = pair(9633, 6437);
  const z3l = i32x4.dot_i16x8_s(lz, toZ3), z3h = i32x4.dot_i16x8_s(hz, toZ3);
  const z4l = i32x4.dot_i16x8_s(lz, toZ4), z4h = i32x4.dot_i16x8_s(hz, toZ4);
  const l71 = low(r7, r1), h71 = high(r7, r1), l53 = low(r5, r3), h53 = high(r5, r3);
  const to0 = pair(-4927, -7373), toO3 = pair(-7373, 4926), to1 = pair(-4176, -20995), toO2 = pair(-20995, 4177);
  const o0l = i32x4.add(i32x4.dot_i16x8_s(l71, to0), z3l), o0h = i32x4.add(i32x4.dot_i16x8_s(h71, to0), z3h);
  const o3l = i32x4.add(i32x4.dot_i16x8_s(l71, toO3), z4l), o3h = i32x4.add(i32x4.dot_i16x8_s(h71, toO3), z4h);
  const o1l = i32x4.add(i32x4.dot_i16x8_s(l53, to1), z4l), o1h = i32x4.add(i32x4.dot_i16x8_s(h53, to1), z4h);
  const o2l = i32x4.add(i32x4.dot_i16x8_s(l53, toO2), z3l), o2h = i32x4.add(i32x4.dot_i16x8_s(h53, toO2), z3h);

  const s0 = both(i32x4.add(e0l, o3l), i32x4.add(e0h, o3h), shift), s7 = both(i32x4.sub(e0l, o3l), i32x4.sub(e0h, o3h), shift);
  const s1 = both(i32x4.add(e1l, o2l), i32x4.add(e1h, o2h), shift), s6 = both(i32x4.sub(e1l, o2l), i32x4.sub(e1h, o2h), shift);
  const s2 = both(i32x4.add(e2l, o1l), i32x4.add(e2h, o1h), shift), s5 = both(i32x4.sub(e2l, o1l), i32x4.sub(e2h, o1h), shift);
  const s3 = both(i32x4.add(e3l, o0l), i32x4.add(e3h, o0h), shift), s4 = both(i32x4.sub(e3l, o0l), i32x4.sub(e3h, o0h), shift);

  // Turned: first pairs, then pairs of pairs, then halves.
  const a0 = low(s0, s4), a1 = high(s0, s4), a2 = low(s1, s5), a3 = high(s1, s5);
  const a4 = low(s2, s6), a5 = high(s2, s6), a6 = low(s3, s7), a7 = high(s3, s7);
  const b0 = low(a0, a4), b1 = high(a0, a4), b2 = low(a2, a6), b3 = high(a2, a6);
  const b4 = low(a1, a5), b5 = high(a1, a5), b6 = low(a3, a7), b7 = high(a3, a7);
  v128.store(WORK, low(b0, b2));
  v128.store(WORK, high(b0, b2), 16);
  v128.store(WORK, low(b1, b3), 32);
  v128.store(WORK, high(b1, b3), 48);
  v128.store(WORK, low(b4, b6), 64);
  v128.store(WORK, high(b4, b6), 80);
  v128.store(WORK, low(b5, b7), 96);
  v128.store(WORK, high(b5, b7), 112);
}

// @ts-ignore: decorator
@inline
export function both(l: v128, h: v128, shift: i32): v128 {
  return i16x8.narrow_i32x4_s(i32x4.shr_s(l, shift), i32x4.shr_s(h, shift));
}
