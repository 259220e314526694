// A tokenizer turns a text into numbers and back.

export interface Tokenizer {
  /** For messages: "bytes", or the file's name. */
  readonly name: string;
  /** One more than the largest token. */
  readonly vocabulary: number;
  /** It stands between documents; null where there is none. */
  readonly end: number | null;
  /** Tokens that are no text, by their names. */
  readonly special?: readonly (readonly [name: string, token: number])[];
  /** A long text may be cut between words, and its parts encoded one by one. */
  readonly cuts: boolean;
  /** The text of its file, for one that may have none yet. */
  readonly table?: string;
  /** Names of special tokens in the text are those tokens, or else plain text. */
  encode(text: string, special?: boolean): Uint32Array<ArrayBuffer>;
  /** The bytes that a token stands for; none for an unknown one. */
  bytesOf(token: number): Uint8Array;
}

const encoder = new TextEncoder();

/** Each byte is a token, and 256 ends a document. */
export const BYTE_TOKENIZER: Tokenizer = {
  name: "bytes",
  vocabulary: 257,
  end: 256,
  cuts: true,
  encode: (text) => Uint32Array.from(encoder.encode(text)),
  bytesOf: (token) => Uint8Array.from(token < 256 ? [token] : []),
};

/** The file of bytes alone has no ends of documents. */
export const PLAIN_BYTES: Tokenizer = { ...BYTE_TOKENIZER, vocabulary: 256, end: null };

export function decode(tokenizer: Tokenizer, tokens: Iterable<number>): string {
  const text = new TextDecoder();
  let out = "";
  for (const token of tokens) out += text.decode(tokenizer.bytesOf(token), { stream: true });
  return out + text.decode();
}

/** Tokens of one text, in memory that grows. */
export class TokenList {
  #all = new Uint32Array(1024);
  #count = 0;

  push(token: number): void {
    if (this.#count === this.#all.length) this.#grow(1);
    this.#all[this.#count++] = token;
  }

  add(tokens: Int32Array, count: number): void {
    if (this.#count + count > this.#all.length) this.#grow(count);
    for (let i = 0; i < count; i++) this.#all[this.#count++] = tokens[i];
  }

  taken(): Uint32Array<ArrayBuffer> {
    const all = this.#all.slice(0, this.#count);
    this.#count = 0;
    return all;
  }

  #grow(by: number): void {
    const all = new Uint32Array(Math.max(2 * this.#all.length, this.#count + by));
    all.set(this.#all.subarray(0, this.#count));
    this.#all = all;
  }
}

/** Most words come again. */
const MOST_KNOWN = 1 << 18, LONGEST_KNOWN = 48;

interface WordRules {
  readonly pairs: PairTable;
  /** The token of each byte; -1 where there is none. */
  readonly bytes: Int32Array;
  /** A word that is a token is that token, whatever the merges would make of it; keys have a character a byte. */
  readonly whole: ReadonlyMap<string, number> | null;
  /** It stands for bytes without a token; null leaves them out. */
  readonly unknown: { readonly token: number; readonly fused: boolean } | null;
}

/** Turns words into tokens. */
export class WordEncoder {
  readonly #rules: WordRules;
  readonly #merger: Merger;
  readonly #known = new Map<string, Int32Array>();
  #bytes = new Uint8Array(256);
  #tokens = new Int32Array(256);

  constructor(rules: WordRules) {
    this.#rules = rules;
    this.#merger = new Merger(rules.pairs);
  }

  encode(word: string, into: TokenList): void {
    const known = this.#known.get(word);
    if (known) return into.add(known, known.length);
    const count = this.#merge(word);
    into.add(this.#tokens, count);
    if (word.length > LONGEST_KNOWN) return;
    if (this.#known.size >= MOST_KNOWN) this.#known.clear();
    // A word that is a part of a long text would keep all of it.
    this.#known.set(flat(word), this.#tokens.slice(0, count));
  }

  #merge(word: string): number {
    if (this.#bytes.length < 3 * word.length) {
      this.#bytes = new Uint8Array(6 * word.length);
      this.#tokens = new Int32Array(6 * word.length);
    }
    const { bytes, whole, unknown } = this.#rules, tokens = this.#tokens;
    const { written } = encoder.encodeInto(word, this.#bytes);
    if (whole) {
      const found = whole.get(byteKey(this.#bytes.subarray(0, written)));
      if (found !== undefined) {
        tokens[0] = found;
        return 1;
      }
    }
    let count = 0, unknownBefore = false;
    for (let i = 0; i < written; i++) {
      const token = bytes[this.#bytes[i]];
      if (token >= 0) tokens[count++] = token;
      else if (unknown && !(unknown.fused && unknownBefore)) tokens[count++] = unknown.token;
      unknownBefore = token < 0;
    }
    return this.#merger.merge(tokens, count);
  }
}

/** A character a byte, as the keys of tables. */
export function byteKey(bytes: Uint8Array): string {
  let key = "";
  for (let i = 0; i < bytes.length; i++) key += String.fromCharCode(bytes[i]);
  return key;
}

export const bytesIn = (key: string): Uint8Array => Uint8Array.from(key, (char) => char.charCodeAt(0));

const flat = (word: string): string => word.length < 13 ? word : JSON.parse(JSON.stringify(word));

/** Leftmost names of special tokens, of which the longest counts. */
export function namesPattern(names: readonly string[]): RegExp | null {
  if (names.length === 0) return null;
  const longest = [...names].sort((a, b) => b.length - a.length);
  return new RegExp(longest.map((name) => name.replaceAll(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|"), "gu");
}

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
class Merger {
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
