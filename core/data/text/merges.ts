// Byte-pair encoding: of all neighbours the pair with the least rank is merged, the leftmost first, until none is
// known. A heap of pairs makes this n log n, for runs of a million equal characters too.

const MOST_LOOKED_UP = 2 ** 21;

/** Two tokens make a third, the earlier the lower its rank. A Map of so many pairs would take seconds to fill. */
export class PairTable {
  #slots: Int32Array;
  #mask: number;
  #count = 0;
  readonly #lookUp: ((left: number, right: number) => number) | null;

  /** A pair that is not in the table is looked up once: the token that it makes is its rank too, and -1 where there is none. */
  constructor(expected = 1024, lookUp: ((left: number, right: number) => number) | null = null) {
    this.#lookUp = lookUp;
    const size = 2 ** Math.ceil(Math.log2(Math.max(16, 2 * expected)));
    this.#slots = new Int32Array(4 * size).fill(-1);
    this.#mask = size - 1;
  }

  set(left: number, right: number, rank: number, merged: number): void {
    if (2 * (this.#count + 1) > this.#mask) this.#grow();
    const at = this.#place(left, right), slots = this.#slots;
    if (slots[at] < 0) this.#count++;
    slots[at] = left;
    slots[at + 1] = right;
    slots[at + 2] = rank;
    slots[at + 3] = merged;
  }

  /** -1 where they don't merge. */
  rank(left: number, right: number): number {
    const at = this.#place(left, right), slots = this.#slots;
    if (slots[at] >= 0 || this.#lookUp === null) return slots[at + 2];
    if (this.#count > MOST_LOOKED_UP) this.#forget();
    const merged = this.#lookUp(left, right);
    this.set(left, right, merged, merged);
    return merged;
  }

  merged(left: number, right: number): number {
    const at = this.#place(left, right), slots = this.#slots;
    return slots[at] >= 0 ? slots[at + 3] : this.#lookUp?.(left, right) ?? -1; // it may have been forgotten since
  }

  #place(left: number, right: number): number {
    let hash = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    const slots = this.#slots;
    for (let i = (hash ^ (hash >>> 13)) & this.#mask;; i = (i + 1) & this.#mask) {
      const at = 4 * i;
      if (slots[at] === -1 || (slots[at] === left && slots[at + 1] === right)) return at;
    }
  }

  #forget(): void {
    this.#slots.fill(-1);
    this.#count = 0;
  }

  #grow(): void {
    const old = this.#slots, size = 2 * (this.#mask + 1);
    this.#slots = new Int32Array(4 * size).fill(-1);
    this.#mask = size - 1;
    for (let at = 0; at < old.length; at += 4) {
      if (old[at] >= 0) this.#slots.set(old.subarray(at, at + 4), this.#place(old[at], old[at + 1]));
    }
  }
}

/** Ranks and places share a double: ranks below 2^21, places below 2^31. */
const PLACES = 2 ** 31;

/** It merges in memory of its own, which it keeps for the next word. */
export class Merger {
  readonly #pairs: PairTable;
  #next = new Int32Array(0);
  #before = new Int32Array(0);
  #rank = new Int32Array(0);
  #heap = new Float64Array(0);
  #size = 0;

  constructor(pairs: PairTable) {
    this.#pairs = pairs;
  }

  /** Merges the first `count` tokens in place, and returns how many are left. */
  merge(tokens: Int32Array, count: number): number {
    if (count < 2) return count;
    this.#reserve(count);
    const pairs = this.#pairs, next = this.#next, before = this.#before, rank = this.#rank;
    this.#size = 0;
    for (let i = 0; i < count; i++) {
      next[i] = i + 1;
      before[i] = i - 1;
      rank[i] = i + 1 < count ? pairs.rank(tokens[i], tokens[i + 1]) : -1;
      if (rank[i] >= 0) this.#push(rank[i] * PLACES + i);
    }
    while (this.#size > 0) {
      const top = this.#pop(), least = Math.floor(top / PLACES), i = top - least * PLACES;
      if (rank[i] !== least) continue; // one of the pair has been merged since
      const right = next[i], after = next[right];
      tokens[i] = pairs.merged(tokens[i], tokens[right]);
      rank[right] = -1;
      next[i] = after;
      if (after < count) before[after] = i;
      this.#rate(tokens, i, count);
      if (before[i] >= 0) this.#rate(tokens, before[i], count);
    }
    let left = 0;
    for (let i = 0; i < count; i = next[i]) tokens[left++] = tokens[i];
    return left;
  }

  #rate(tokens: Int32Array, i: number, count: number): void {
    const right = this.#next[i];
    const found = right < count ? this.#pairs.rank(tokens[i], tokens[right]) : -1;
    if (found === this.#rank[i] && found < 0) return;
    this.#rank[i] = found;
    if (found >= 0) this.#push(found * PLACES + i);
  }

  #reserve(count: number): void {
    if (this.#next.length >= count) return;
    const size = 2 * count;
    this.#next = new Int32Array(size);
    this.#before = new Int32Array(size);
    this.#rank = new Int32Array(size);
    this.#heap = new Float64Array(3 * size);
  }

  #push(value: number): void {
    const heap = this.#heap;
    let at = this.#size++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (heap[parent] <= value) break;
      heap[at] = heap[parent];
      at = parent;
    }
    heap[at] = value;
  }

  #pop(): number {
    const heap = this.#heap, top = heap[0], value = heap[--this.#size], size = this.#size;
    let at = 0;
    for (let child = 1; child < size; child = 2 * at + 1) {
      if (child + 1 < size && heap[child + 1] < heap[child]) child++;
      if (heap[child] >= value) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = value;
    return top;
  }
}
