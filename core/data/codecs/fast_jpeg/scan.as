// The bits of a JPEG -> planes of its components. May import places, header, huffman, inverse.
import { across, components, down, interval } from "./header";
import { longCode, valueOf } from "./huffman";
import { flat, inverse } from "./inverse";
import { align, BLOCK, byte, FRAME, HUFFMAN, LOOK, QUANT, TABLE, ZIGZAG } from "./places";

/** The bits that come next, from the highest; how many there are; where the words behind them are. */
let bits: u64 = 0, count: i32 = 0, next: usize = 0;

/** Takes the bits out of their bytes: no zeros behind 0xff, restart markers as ends of segments, words as we load them. */
export function unstuff(from: usize, end: usize, words: usize, list: usize, segments: i32): bool {
  const flag = i8x16.splat(-1);
  let to = words, start = words, segment = 0;
  while (true) {
    while (from + 16 <= end) {
      const some = v128.load(from), marks = i8x16.bitmask(i8x16.eq(some, flag));
      v128.store(to, some);
      const free = marks == 0 ? 16 : ctz(marks);
      from += free;
      to += free;
      if (free < 16) break;
    }
    while (from < end && byte(from) != 0xff) store<u8>(to++, byte(from++));
    if (from + 2 > end) return false;
    const marker = byte(from + 1);
    from += 2;
    if (marker == 0) {
      store<u8>(to++, 0xff);
      continue;
    }
    store<u32>(list + 8 * segment, <u32>start);
    store<u32>(list + 8 * segment + 4, <u32>(to - start));
    segment++;
    v128.store(to, i64x2.splat(0));
    v128.store(to + 16, i64x2.splat(0));
    to = align(to) + 16;
    if (marker == 0xd9) break;
    if (segment == segments || marker != 0xd0 + ((segment - 1) & 7)) return false;
    start = to;
  }
  if (segment != segments) return false;
  for (let at = words; at < to; at += 16) {
    const some = v128.load(at);
    v128.store(at, i8x16.shuffle(some, some, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
  }
  return true;
}

export function decodeScan(list: usize, columns: i32, rows: i32, luma: usize, blue: usize, red: usize): bool {
  const lumaPitch = columns * 8 * across, chromaPitch = columns * 8;
  failed = false;
  let left = 0, segment = 0, dc0 = 0, dc1 = 0, dc2 = 0, ends: usize = 0;
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++) {
      if (left-- == 0) {
        if (segment > 0 && !wellEnded(list + 8 * (segment - 1))) return false;
        next = load<u32>(list + 8 * segment);
        ends = next + load<u32>(list + 8 * segment + 4) + 16;
        segment++;
        left = interval == 0 ? i32.MAX_VALUE : interval - 1;
        bits = 0;
        count = 0;
        dc0 = dc1 = dc2 = 0;
      }
      for (let v = 0; v < down; v++) {
        for (let h = 0; h < across; h++) {
          dc0 = block(0, dc0, luma + ((y * down + v) * 8) * lumaPitch + (x * across + h) * 8, lumaPitch);
        }
      }
      if (components == 3) {
        const at = y * 8 * chromaPitch + x * 8;
        dc1 = block(1, dc1, blue + at, chromaPitch);
        dc2 = block(2, dc2, red + at, chromaPitch);
      }
      if (next > ends || failed) return false;
    }
  }
  return wellEnded(list + 8 * (segment - 1));
}

let failed: bool = false;

/** Whether all bits of a segment were taken but those that fill its last byte. */
function wellEnded(entry: usize): bool {
  const taken = <i32>(next - load<u32>(entry)) * 8 - count, all = <i32>load<u32>(entry + 4) * 8;
  return taken <= all && all - taken < 8;
}

/** Decodes a block to its place in a plane; its DC value. */
function block(component: i32, dc: i32, to: usize, pitch: i32): i32 {
  const frame = FRAME + 4 * component;
  let table = HUFFMAN + <usize>byte(frame + 2) * TABLE;
  let b = bits, n = count, at = next;
  const zero = i64x2.splat(0);
  v128.store(BLOCK, zero);
  v128.store(BLOCK, zero, 16);
  v128.store(BLOCK, zero, 32);
  v128.store(BLOCK, zero, 48);
  v128.store(BLOCK, zero, 64);
  v128.store(BLOCK, zero, 80);
  v128.store(BLOCK, zero, 96);
  v128.store(BLOCK, zero, 112);
  // The difference to the DC value before; then zeros and values in turn.
  let ac = 0;
  for (let k = 0; k < 64;) {
    if (n < 32) {
      b |= (<u64>load<u32>(at)) << (32 - n);
      at += 4;
      n += 32;
    }
    let entry = load<i32>(table + (<usize>(b >> (64 - LOOK)) << 2));
    let value = entry >> 16;
    if (!(entry & 0x80)) {
      if (entry == 0) entry = longCode(table, <i32>(b >> 48));
      const length = entry & 31, size = (entry >> 12) & 15;
      value = size == 0 ? 0 : valueOf(<i32>((b << length) >> 32) >>> (32 - size), size);
      entry += size;
    }
    b <<= entry & 31;
    n -= entry & 31;
    if (k == 0) {
      dc += value;
      table = HUFFMAN + <usize>byte(frame + 3) * TABLE;
      k = 1;
      if (entry == 0) failed = true;
      continue;
    }
    const run = (entry >> 8) & 15;
    k += run;
    if (value == 0) {
      if (entry == 0) failed = true;
      if (run != 15) break;
      k++;
    } else {
      if (k > 63) {
        failed = true;
        break;
      }
      store<i16>(BLOCK + 2 * byte(ZIGZAG + k), <i16>value);
      ac = k;
      k++;
    }
  }
  bits = b;
  count = n;
  next = at;
  store<i16>(BLOCK, <i16>dc);
  const quant = QUANT + 128 * byte(frame + 1);
  if (ac == 0) flat(dc * load<i16>(quant), to, pitch);
  else inverse(quant, to, pitch);
  return dc;
}
