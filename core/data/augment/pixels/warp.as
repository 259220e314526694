// Pixels from the nearest place of an affine map. Imports nothing.

/** x = a * (column + left) + (b * (row + top) + c + right), and y with d, e, f and bottom: the order of warp.ts. */
export function moveNearest(
  a: f64, b: f64, c: f64, d: f64, e: f64, f: f64,
  from: usize, width: i32, height: i32, planes: i32, stride: i32, to: usize, offsets: usize,
): void {
  const left = f64(1 - width) / 2, top = f64(1 - height) / 2, right = f64(width - 1) / 2, bottom = f64(height - 1) / 2;
  const half = f64x2.splat(0.5), as2 = f64x2.splat(a), ds = f64x2.splat(d);
  const wide = i32x4.splat(width), high = i32x4.splat(height), beyond = i32x4.splat(width * height);
  const size = width * height;
  for (let y = 0; y < height; y++) {
    const x0 = f64x2.splat(b * (f64(y) + top) + c + right), y0 = f64x2.splat(e * (f64(y) + top) + f + bottom);
    for (let x = 0; x < width; x += 4) {
      const at = f64(x) + left;
      const first = f64x2.replace_lane(f64x2.splat(at), 1, f64(x + 1) + left);
      const second = f64x2.replace_lane(f64x2.splat(f64(x + 2) + left), 1, f64(x + 3) + left);
      const xs = floors(f64x2.add(f64x2.add(f64x2.mul(as2, first), x0), half), f64x2.add(f64x2.add(f64x2.mul(as2, second), x0), half));
      const ys = floors(f64x2.add(f64x2.add(f64x2.mul(ds, first), y0), half), f64x2.add(f64x2.add(f64x2.mul(ds, second), y0), half));
      const inside = v128.and(i32x4.lt_u(xs, wide), i32x4.lt_u(ys, high));
      v128.store(offsets + 4 * x, v128.bitselect(i32x4.add(i32x4.mul(ys, wide), xs), beyond, inside));
    }
    for (let p = 0; p < planes; p++) take(from + p * stride, offsets, width, to + p * size + y * width);
  }
}

function take(plane: usize, offsets: usize, count: i32, to: usize): void {
  const end = offsets + 4 * (count & ~3);
  for (; offsets < end; offsets += 16, to += 4) {
    const low = byte(plane, offsets) | (byte(plane, offsets + 4) << 8);
    store<u32>(to, low | (byte(plane, offsets + 8) << 16) | (byte(plane, offsets + 12) << 24));
  }
  for (let i = 0; i < (count & 3); i++) store<u8>(to + i, byte(plane, offsets + 4 * i));
}

// @ts-ignore: decorator
@inline
function byte(plane: usize, offset: usize): u32 {
  return load<u8>(plane + load<u32>(offset));
}

// @ts-ignore: decorator
@inline
function floors(a: v128, b: v128): v128 {
  const low = i32x4.trunc_sat_f64x2_s_zero(f64x2.floor(a)), high = i32x4.trunc_sat_f64x2_s_zero(f64x2.floor(b));
  return i8x16.shuffle(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
}
