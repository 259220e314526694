// Values of a page go to their places among other columns, as f32: row by row, so many numbers apart.

import type { Codes } from "./pages.ts";

/** A column with a mark has to be looked at number by number. */
export const NOT_FINITE = 1, LARGE = 2;

/** The first whole number beyond which floats have gaps. */
const GAPS = 2 ** 24;

const EXPONENT = 0x7f800000, ONE_EXPONENT = 0x00800000;
const MISSING = 0x7fc00000;

/** A place among the rows: numbers of a column are `step` apart, beginning at `at`. */
export interface Places {
  readonly words: Int32Array;
  readonly floats: Float32Array;
  readonly step: number;
}

/** It moves `count` values from `first` on to the places from `at` on; the result is marks. */
export type Spread = (first: number, count: number, at: number) => number;

export function spreadFloats(from: Float32Array, to: Places): Spread {
  return spreadWords(new Int32Array(from.buffer, from.byteOffset, from.length), to);
}

/** Bits are moved as they are; an exponent of ones is infinity or NaN. */
export function spreadWords(from: Int32Array, { words: to, step }: Places): Spread {
  return (first, count, at) => {
    let odd = 0;
    for (let i = first, end = first + count; i < end; i++, at += step) {
      const word = from[i];
      to[at] = word;
      odd |= (word & EXPONENT) + ONE_EXPONENT;
    }
    return odd < 0 ? NOT_FINITE : 0;
  };
}

/** Codes come one after the other, whatever the first is; the dictionary was judged before. */
export function spreadCodes(packed: Codes, known: Int32Array, { words: to, step }: Places): Spread {
  let codes = new Int32Array(0);
  return (_, count, at) => {
    if (codes.length < count) codes = new Int32Array(count);
    packed.read(codes, count);
    for (let i = 0; i < count; i++, at += step) to[at] = known[codes[i]];
    return 0;
  };
}

export function spreadDoubles(from: Float64Array, { floats: to, step }: Places): Spread {
  return (first, count, at) => {
    let odd = 0;
    for (let i = first, end = first + count; i < end; i++, at += step) {
      const value = Math.fround(from[i]);
      to[at] = value;
      odd += value - value; // NaN from the first that is not finite
    }
    return odd === 0 ? 0 : NOT_FINITE;
  };
}

export function spreadWhole(from: Int32Array, { floats: to, step }: Places): Spread {
  return (first, count, at) => {
    let bits = 0;
    for (let i = first, end = first + count; i < end; i++, at += step) {
      const value = from[i];
      to[at] = value;
      bits |= value ^ value >> 31;
    }
    return bits >= GAPS ? LARGE : 0;
  };
}

/** With `missing` a value becomes a double first, as a column that may miss some is one of doubles. */
export function spreadLong(from: BigInt64Array, { floats: to, step }: Places, missing: boolean): Spread {
  const halves = new Int32Array(from.buffer, from.byteOffset, 2 * from.length);
  return (first, count, at) => {
    let bits = 0;
    for (let i = 2 * first, end = 2 * (first + count); i < end; i += 2, at += step) {
      const low = halves[i], high = halves[i + 1];
      if (high === low >> 31) {
        to[at] = low;
        bits |= low ^ high;
      } else {
        to[at] = missing ? high * 2 ** 32 + (low >>> 0) : nearest(high, low);
        bits |= GAPS;
      }
    }
    return bits >= GAPS ? LARGE : 0;
  };
}

const EXACT = 2 ** 21;

/** A double on the way would round twice, unless the cut bits mark the last bit. */
function nearest(high: number, low: number): number {
  if (high >= -EXACT && high < EXACT) return high * 2 ** 32 + (low >>> 0);
  const cut = (low & 2047) !== 0 ? 2048 : 0;
  return high * 2 ** 32 + ((low & ~2047 | cut) >>> 0);
}

/** Other types are small. */
export function spreadOthers(from: ArrayLike<number>, { floats: to, step }: Places): Spread {
  return (first, count, at) => {
    let odd = 0, most = 0;
    for (let i = first, end = first + count; i < end; i++, at += step) {
      const value = from[i];
      to[at] = value;
      odd += value - value;
      most = Math.max(most, Math.abs(value));
    }
    return (odd === 0 ? 0 : NOT_FINITE) | (most >= GAPS ? LARGE : 0);
  };
}

export function spreadMissing(count: number, at: number, { words: to, step }: Places): void {
  for (let i = 0; i < count; i++, at += step) to[at] = MISSING;
}
