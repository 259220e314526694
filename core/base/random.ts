// Random numbers are functions of a key: nothing is stored or restored.

const MASK = (1n << 64n) - 1n;
const GOLDEN = 0x9e3779b97f4a7c15n;

/**
 * A 64-bit key for one random choice: `key(seed, "dropout", step, rank)`. splitmix64's finaliser mixes in
 * each part in order; "1" and 1 differ. The key is the same on every machine. (libtorch's CPU generator takes
 * the low 32 bits of a seed, its CUDA generator all 64.)
 */
export function key(seed: number, ...parts: readonly (number | string)[]): bigint {
  let state = mix64(bitsOf(seed));
  for (const part of parts) state = mix64(state ^ (typeof part === "string" ? hashText(part) : bitsOf(part)));
  return state;
}

/** The numbers are in [0, 1) with 32 random bits, one for each whole number `i` from 0 to 2^53. */
export function uniform(key: bigint): (i: number) => number {
  const [low, high] = halves(key);
  return (i) => hash(i, low, high) / 2 ** 32;
}

export function uniformInt(key: bigint, count: number): (i: number) => number {
  const at = uniform(key);
  return (i) => Math.floor(at(i) * count);
}

/** Positions in `permutation` are 32-bit integers. */
export const MOST_POSITIONS = 2 ** 31 - 1;

/**
 * It is a random bijection on [0, n) without a table. A Feistel network permutes the smallest power of two
 * that holds n; a value outside goes through again (fewer than two rounds on average).
 */
export function permutation(n: number, key: bigint): (i: number) => number {
  if (!Number.isInteger(n) || n < 0 || n > MOST_POSITIONS) {
    throw new Error(`internal: permute of ${n} positions.`);
  }
  const bits = n <= 1 ? 0 : 32 - Math.clz32(n - 1);
  const rightBits = bits >> 1;
  const rightMask = (1 << rightBits) - 1;
  const leftMask = (1 << (bits - rightBits)) - 1;
  const [low, high] = halves(key);
  const keys = Int32Array.from({ length: 8 }, (_, round) => hash(round, low, high));
  return (i) => {
    if (!(i >= 0 && i < n)) throw new Error(`internal: position ${i} of ${n}.`);
    let at = i;
    do {
      let left = at >>> rightBits;
      let right = at & rightMask;
      for (let round = 0; round < 8; round += 2) {
        left ^= mix32(right ^ keys[round]) & leftMask;
        right ^= mix32(left ^ keys[round + 1]) & rightMask;
      }
      at = (left << rightBits) | right;
    } while (at >= n);
    return at;
  };
}

function hash(i: number, low: number, high: number): number {
  const upper = Math.floor(i / 2 ** 32);
  return mix32(mix32((i >>> 0) ^ low) ^ upper ^ high) >>> 0;
}

/** lowbias32: each input bit flips each output bit with a probability close to a half. */
function mix32(x: number): number {
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return x ^ (x >>> 16);
}

function mix64(x: bigint): bigint {
  x = (x + GOLDEN) & MASK;
  x = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  x = ((x ^ (x >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return x ^ (x >> 31n);
}

function hashText(text: string): bigint {
  let state = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) state = ((state ^ BigInt(byte)) * 0x100000001b3n) & MASK;
  return state;
}

/** Fractions and negative numbers are hashed by their 64 bits; -0 counts as 0. */
function bitsOf(value: number): bigint {
  return new BigUint64Array(Float64Array.of(value + 0).buffer)[0];
}

const halves = (key: bigint): [number, number] => [Number(key & 0xffffffffn) | 0, Number(key >> 32n) | 0];
