// Where everything lies in memory, and how bytes are read from it. Imports nothing.

/** Bits of a code that one look-up decodes, most often with the bits of the value behind it. */
export const LOOK: i32 = 10;

// Fixed places in memory, behind what the compiler put there.
const BASE: usize = (__heap_base + 63) & ~63;
export const QUANT: usize = BASE; // 4 tables of 64 i16, in natural order
export const HUFFMAN: usize = QUANT + 4 * 128; // 8 tables: DC 0 to 3, AC 0 to 3
export const TABLE: usize = (4 << LOOK) + 80 + 80 + 256; // look-ups, most[17], first[17], symbols
export const BLOCK: usize = HUFFMAN + 8 * TABLE; // 64 coefficients, i16
export const WORK: usize = BLOCK + 128; // the same after one pass
export const FRAME: usize = WORK + 128; // of each component: id, quantisation table, dc table, ac table, in bytes
export const ARENA: usize = FRAME + 64;

export const ZIGZAG: usize = memory.data<u8>([
  0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
  35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55,
  62, 63,
]);

export function need(bytes: usize): void {
  const pages = <i32>((bytes + 0xffff) >> 16) - memory.size();
  if (pages > 0 && memory.grow(pages) < 0) unreachable();
}

// @ts-ignore: decorator
@inline
export function align(at: usize): usize {
  return (at + 15) & ~15;
}

// @ts-ignore: decorator
@inline
export function byte(at: usize): i32 {
  return load<u8>(at);
}

// @ts-ignore: decorator
@inline
export function big16(at: usize): i32 {
  return (byte(at) << 8) | byte(at + 1);
}
