// A tokenizer turns a text into numbers and back.
import { Merger, type PairTable } from "./merges.ts";

export interface Tokenizer {
  /** For messages: "bytes", or the file's name. */
  readonly name: string;
  /** One more than the largest token. */
  readonly vocabulary: number;
  /** It stands between documents; null where there is none. */
  readonly end: number | null;
  /** A long text may be cut between words, and its parts encoded one by one. */
  readonly cuts: boolean;
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
