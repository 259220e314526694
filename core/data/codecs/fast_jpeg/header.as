// What stands in a JPEG before its bits: size, tables, which of them is whose. May import places, huffman.
import { buildTable } from "./huffman";
import { align, big16, byte, FRAME, HUFFMAN, QUANT, TABLE, ZIGZAG } from "./places";

export let width: i32 = 0, height: i32 = 0, components: i32 = 0, across: i32 = 1, down: i32 = 1, interval: i32 = 0;
/** Tables that were given: quantisation in bits 0 to 3, Huffman in bits 8 to 15. */
let given: i32 = 0;

export function setSize(columns: i32, rows: i32): void {
  width = columns;
  height = rows;
}

/** A picture without a file, whose colours have half its size in both directions, or full size. */
export function setShape(columns: i32, rows: i32, half: i32): void {
  setSize(columns, rows);
  across = down = half;
}

/** From one plane to the next; a few bytes more than the plane. */
export function planeBytes(): usize {
  return align(width * height + 32);
}

/** Where the bits begin, or 0. */
export function readHeader(from: usize, end: usize): usize {
  let at = from + 2, framed = false, jfif = false, adobe = -1;
  given = 0;
  interval = 0;
  while (at + 4 <= end) {
    if (byte(at) != 0xff) return 0;
    const marker = byte(at + 1);
    if (marker == 0xff) {
      at++;
      continue;
    }
    const length = big16(at + 2), content = at + 4, stop = at + 2 + length;
    if (length < 2 || stop > end) return 0;
    if (marker == 0xda) return framed && readScan(content, stop) && isYcc(jfif, adobe) ? stop : 0;
    if (marker == 0xc0 || marker == 0xc1) {
      if (framed || !readFrame(content, stop)) return 0;
      framed = true;
    } else if (marker == 0xc4) {
      if (!readHuffman(content, stop)) return 0;
    } else if (marker == 0xdb) {
      if (!readQuantisation(content, stop)) return 0;
    } else if (marker == 0xdd) {
      if (length != 4) return 0;
      interval = big16(content);
    } else if (marker == 0xe0) {
      if (length >= 16 && load<u32>(content) == 0x4649464a && byte(content + 4) == 0) jfif = true; // JFIF
    } else if (marker == 0xee) {
      if (length >= 14 && load<u32>(content) == 0x626f6441 && byte(content + 4) == 0x65) adobe = byte(content + 11); // Adobe
    } else if (!((marker > 0xe0 && marker < 0xf0) || marker == 0xfe)) return 0;
    at = stop;
  }
  return 0;
}

/** As libjpeg decides on what the three components are. */
function isYcc(jfif: bool, adobe: i32): bool {
  if (components == 1 || jfif) return true;
  if (adobe >= 0) return adobe == 1;
  return byte(FRAME) == 1 && byte(FRAME + 4) == 2 && byte(FRAME + 8) == 3;
}

function readFrame(at: usize, stop: usize): bool {
  if (at + 6 > stop || byte(at) != 8) return false;
  height = big16(at + 1);
  width = big16(at + 3);
  components = byte(at + 5);
  if (width == 0 || height == 0 || (components != 1 && components != 3)) return false;
  if (at + 6 + 3 * components != stop) return false;
  for (let i = 0; i < components; i++) {
    const part = at + 6 + 3 * i, factors = byte(part + 1), table = byte(part + 2);
    if (table > 3 || (i > 0 && factors != 0x11)) return false;
    store<u8>(FRAME + 4 * i, byte(part));
    store<u8>(FRAME + 4 * i + 1, table);
    if (i > 0) continue;
    if (components == 3 && factors != 0x11 && factors != 0x21 && factors != 0x22) return false;
    across = components == 1 ? 1 : factors >> 4;
    down = components == 1 ? 1 : factors & 15;
  }
  return across == 1 || width > 4; // narrower ones are widened in another way
}

function readQuantisation(at: usize, stop: usize): bool {
  while (at < stop) {
    const table = byte(at++);
    if (table > 3 || at + 64 > stop) return false;
    for (let i = 0; i < 64; i++) store<i16>(QUANT + 128 * table + 2 * byte(ZIGZAG + i), byte(at + i));
    given |= 1 << table;
    at += 64;
  }
  return true;
}

function readHuffman(at: usize, stop: usize): bool {
  while (at < stop) {
    const kind = byte(at++);
    if ((kind & 0xef) > 3 || at + 16 > stop) return false;
    const table = (kind >> 2) | (kind & 3);
    let symbols = 0;
    for (let i = 0; i < 16; i++) symbols += byte(at + i);
    if (symbols > 256 || at + 16 + symbols > stop) return false;
    if (!buildTable(HUFFMAN + <usize>table * TABLE, at, at + 16, kind < 16)) return false;
    given |= 0x100 << table;
    at += 16 + symbols;
  }
  return true;
}

function readScan(at: usize, stop: usize): bool {
  if (at + 4 + 2 * components != stop || byte(at) != components) return false;
  for (let i = 0; i < components; i++) {
    const id = byte(at + 1 + 2 * i), tables = byte(at + 2 + 2 * i), dc = tables >> 4, ac = tables & 15;
    if (id != byte(FRAME + 4 * i) || dc > 3 || ac > 3) return false;
    const wanted = (1 << byte(FRAME + 4 * i + 1)) | (0x100 << dc) | (0x1000 << ac);
    if ((given & wanted) != wanted) return false;
    store<u8>(FRAME + 4 * i + 2, dc);
    store<u8>(FRAME + 4 * i + 3, 4 + ac);
  }
  const rest = at + 1 + 2 * components;
  return byte(rest) == 0 && byte(rest + 1) == 63 && byte(rest + 2) == 0;
}
