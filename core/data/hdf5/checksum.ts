// The checksum of HDF5's newer structures: Bob Jenkins' lookup3, over little-endian words. May import bytes.
import { type Span, unforeseen } from "./bytes.ts";

export function lookup3(bytes: Uint8Array): number {
  let a = 0xdeadbeef + bytes.length | 0, b = a, c = a, at = 0, left = bytes.length;
  const word = (from: number) => {
    let value = 0;
    for (let i = Math.min(4, bytes.length - from); i-- > 0;) value = value << 8 | bytes[from + i];
    return value;
  };
  for (; left > 12; left -= 12, at += 12) {
    a = a + word(at) | 0;
    b = b + word(at + 4) | 0;
    c = c + word(at + 8) | 0;
    a = a - c ^ turn(c, 4);
    c = c + b | 0;
    b = b - a ^ turn(a, 6);
    a = a + c | 0;
    c = c - b ^ turn(b, 8);
    b = b + a | 0;
    a = a - c ^ turn(c, 16);
    c = c + b | 0;
    b = b - a ^ turn(a, 19);
    a = a + c | 0;
    c = c - b ^ turn(b, 4);
    b = b + a | 0;
  }
  if (left === 0) return c >>> 0;
  a = a + word(at) | 0;
  b = b + (left > 4 ? word(at + 4) : 0) | 0;
  c = c + (left > 8 ? word(at + 8) : 0) | 0;
  c = (c ^ b) - turn(b, 14) | 0;
  a = (a ^ c) - turn(c, 11) | 0;
  b = (b ^ a) - turn(a, 25) | 0;
  c = (c ^ b) - turn(b, 16) | 0;
  a = (a ^ c) - turn(c, 4) | 0;
  b = (b ^ a) - turn(a, 14) | 0;
  c = (c ^ b) - turn(b, 24) | 0;
  return c >>> 0;
}

const turn = (value: number, bits: number): number => value << bits | value >>> 32 - bits;

/** What was read of the span so far is followed by its sum. */
export function checkSum(span: Span): void {
  const covered = span.bytes.subarray(0, span.position);
  if (lookup3(covered) !== span.u32()) unforeseen("a structure fails its checksum");
}
