// Tables of Huffman codes, made for looking ten bits ahead. May import places.
import { byte, LOOK } from "./places";

/**
 * A look-up's entry: bits 0 to 4 how many bits it takes, bit 7 whether the value is in them, bits 8 to 11 the zeros before
 * it, bits 12 to 15 its size, bits 16 to 31 itself. 0 is for codes longer than a look-up.
 */
export function buildTable(table: usize, lengths: usize, symbols: usize, dc: bool): bool {
  const most = table + (4 << LOOK), first = most + 80, list = first + 80;
  memory.fill(table, 0, 4 << LOOK);
  let code = 0, k = 0;
  for (let length = 1; length <= 16; length++, code <<= 1) {
    const n = byte(lengths + length - 1);
    if (code + n > 1 << length) return false;
    store<i32>(first + 4 * length, k - code);
    for (let i = 0; i < n; i++, k++, code++) {
      const symbol = byte(symbols + k);
      if (dc && symbol > 11) return false;
      store<u8>(list + k, symbol);
      if (length <= LOOK) fillLook(table, code, length, symbol);
    }
    store<i32>(most + 4 * length, n > 0 ? code - 1 : -1);
  }
  return true;
}

function fillLook(table: usize, code: i32, length: i32, symbol: i32): void {
  const size = symbol & 15, run = symbol >> 4, rest = LOOK - length;
  for (let i = 0; i < 1 << rest; i++) {
    let entry = length | (run << 8) | (size << 12);
    if (size <= rest) entry = (length + size) | 0x80 | (run << 8) | (valueOf(i >> (rest - size), size) << 16);
    store<i32>(table + 4 * ((code << rest) | i), entry);
  }
}

// @ts-ignore: decorator
@inline
export function valueOf(raw: i32, size: i32): i32 {
  return raw < (1 << size) >> 1 ? raw - (1 << size) + 1 : raw;
}

export function longCode(table: usize, peek: i32): i32 {
  const most = table + (4 << LOOK), first = most + 80, list = first + 80;
  for (let length = LOOK + 1; length <= 16; length++) {
    const code = peek >> (16 - length);
    if (code > load<i32>(most + 4 * length)) continue;
    const symbol = byte(list + load<i32>(first + 4 * length) + code);
    return length | ((symbol >> 4) << 8) | ((symbol & 15) << 12);
  }
  return 0;
}
