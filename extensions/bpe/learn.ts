// Learns byte-level BPE from words: the neighbours that are most often side by side become a token, again and again.
// Hugging Face's trainer learns the same from the same words.
import { BYTE_LEVEL } from "../../core/data/text/patterns.ts";
import { byteChars } from "../../core/data/text/huggingface.ts";
import type { Vocabulary } from "../../core/data/text/pack.ts";

export function vocabulary(): Vocabulary {
  const counts = new Map<string, number>(), cut = new RegExp(BYTE_LEVEL, "gu");
  return {
    add(text) {
      for (const word of text.match(cut) ?? []) counts.set(word, (counts.get(word) ?? 0) + 1);
    },
    learn: (size) => learn(counts, size),
  };
}

const END_OF_TEXT = "<|endoftext|>";

/** The first token ends a document. */
function learn(counts: ReadonlyMap<string, number>, size: number): string {
  const bytes = Array.from({ length: 256 }, (_, byte) => byteChars(Uint8Array.of(byte))).sort();
  const tokens = [END_OF_TEXT, ...bytes], merges: [string, string][] = [];
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const learner = new Learner(counts, ids);
  while (tokens.length < size) {
    const best = learner.best();
    if (best === null) break;
    const [left, right] = best, token = tokens[left] + tokens[right];
    let id = ids.get(token);
    if (id === undefined) {
      id = tokens.length;
      ids.set(token, id);
      tokens.push(token);
    }
    merges.push([tokens[left], tokens[right]]);
    learner.merge(left, right, id);
  }
  return asJson(tokens, merges);
}

const encoder = new TextEncoder();

/** A pair as one number: tokens are below 2^21. */
const SIDE = 2 ** 21;

class Learner {
  readonly #words: Int32Array[] = [];
  readonly #lengths: number[] = [];
  readonly #times: number[] = [];
  readonly #counts = new Map<number, number>();
  /** The words that a pair is or was in. */
  readonly #places = new Map<number, Set<number>>();
  readonly #heap: { pair: number; count: number }[] = [];

  constructor(counts: ReadonlyMap<string, number>, ids: ReadonlyMap<string, number>) {
    const byByte = Int32Array.from({ length: 256 }, (_, byte) => ids.get(byteChars(Uint8Array.of(byte)))!);
    for (const [word, times] of counts) {
      const tokens = Int32Array.from(encoder.encode(word), (byte) => byByte[byte]);
      this.#words.push(tokens);
      this.#lengths.push(tokens.length);
      this.#times.push(times);
      for (let i = 0; i + 1 < tokens.length; i++) {
        this.#count(tokens[i], tokens[i + 1], times, this.#words.length - 1);
      }
    }
    for (const [pair, count] of this.#counts) this.#push({ pair, count });
  }

  /** The pair that is most often there; of equals the one with the least numbers. */
  best(): readonly [left: number, right: number] | null {
    for (let top = this.#pop(); top !== undefined; top = this.#pop()) {
      const now = this.#counts.get(top.pair) ?? 0;
      if (now === top.count && now > 0) return [Math.floor(top.pair / SIDE), top.pair % SIDE];
      if (now > 0 && now < top.count) this.#push({ pair: top.pair, count: now });
    }
    return null;
  }

  merge(left: number, right: number, merged: number): void {
    const pair = left * SIDE + right, changed = new Set<number>();
    for (const place of this.#places.get(pair) ?? []) {
      const tokens = this.#words[place], length = this.#lengths[place], times = this.#times[place];
      let kept = 0;
      for (let i = 0; i < length; i++) {
        if (i + 1 < length && tokens[i] === left && tokens[i + 1] === right) {
          if (kept > 0) {
            this.#count(tokens[kept - 1], left, -times, place);
            changed.add(this.#count(tokens[kept - 1], merged, times, place));
          }
          if (i + 2 < length) {
            this.#count(right, tokens[i + 2], -times, place);
            changed.add(this.#count(merged, tokens[i + 2], times, place));
          }
          tokens[kept++] = merged;
          i++;
        } else tokens[kept++] = tokens[i];
      }
      this.#lengths[place] = kept;
    }
    this.#counts.delete(pair);
    this.#places.delete(pair);
    for (const pair of changed) {
      const count = this.#counts.get(pair) ?? 0;
      if (count > 0) this.#push({ pair, count });
    }
  }

  #count(left: number, right: number, by: number, place: number): number {
    const pair = left * SIDE + right;
    this.#counts.set(pair, (this.#counts.get(pair) ?? 0) + by);
    if (by > 0) {
      const places = this.#places.get(pair);
      if (places) places.add(place);
      else this.#places.set(pair, new Set([place]));
    }
    return pair;
  }

  #push(one: { pair: number; count: number }): void {
    const heap = this.#heap;
    let at = heap.length;
    while (at > 0 && before(one, heap[(at - 1) >> 1])) {
      heap[at] = heap[(at - 1) >> 1];
      at = (at - 1) >> 1;
    }
    heap[at] = one;
  }

  #pop(): { pair: number; count: number } | undefined {
    const heap = this.#heap, top = heap[0], last = heap.pop();
    if (last === undefined || heap.length === 0) return top;
    let at = 0;
    for (let child = 1; child < heap.length; child = 2 * at + 1) {
      if (child + 1 < heap.length && before(heap[child + 1], heap[child])) child++;
      if (!before(heap[child], last)) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = last;
    return top;
  }
}

const before = (a: { pair: number; count: number }, b: { pair: number; count: number }): boolean =>
  a.count > b.count || (a.count === b.count && a.pair < b.pair);

function asJson(tokens: readonly string[], merges: readonly [string, string][]): string {
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  return JSON.stringify(
    {
      version: "1.0",
      truncation: null,
      padding: null,
      added_tokens: [{ id: 0, content: END_OF_TEXT, ...flags }],
      normalizer: null,
      pre_tokenizer: byteLevel,
      post_processor: null,
      decoder: byteLevel,
      model: {
        type: "BPE",
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: false,
        byte_fallback: false,
        ignore_merges: false,
        vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
        merges,
      },
    },
    null,
    1,
  );
}
