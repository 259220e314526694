// Writes on from a prompt, one text or several at once: draws the next token from a model's scores.
import { UserError } from "../base/errors.ts";
import { formatPlural } from "../base/format.ts";
import { key, uniform } from "../base/random.ts";
import type { Decoder } from "./decoder.ts";

interface GenerateOptions extends TokenSampling {
  /** In tokens. */
  readonly prompt: readonly number[];
  readonly most: number;
  readonly count: number;
  /** A text is at its end after this token; null where there is none. */
  readonly end: number | null;
  /** Each token as it comes. */
  take?(row: number, token: number): void;
}

interface Generated {
  /** Without the prompt, and without the token that ends a document. */
  readonly tokens: readonly number[];
  readonly stopped: "end" | "length";
}

export interface Generation {
  readonly texts: readonly Generated[];
  readonly seconds: number;
  /** The tokens of all texts count, and those of the prompt do not. */
  readonly tokensPerSecond: number;
}

export function generate(decoder: Decoder, options: GenerateOptions): Generation {
  const { prompt, most, count, end, take } = options;
  checkPrompt(prompt, decoder);
  const draw = sampler(options, count), { vocabulary, context } = decoder;
  const rows = Array.from({ length: count }, () => [...prompt]);
  const ended = new Array<boolean>(count).fill(false);
  const lengths = new Array<number>(count).fill(0);
  const began = performance.now();
  let length = prompt.length, done = 0;
  decoder.begin(count);
  let scores = most > 0 ? decoder.feed(rows) : new Float32Array();
  for (let step = 0; step < most; step++) {
    for (let row = 0; row < count; row++) {
      const token = draw(scores.subarray(row * vocabulary, (row + 1) * vocabulary), row, step);
      rows[row].push(token);
      if (ended[row]) continue;
      ended[row] = token === end;
      if (ended[row]) continue;
      lengths[row]++;
      take?.(row, token);
    }
    done = step + 1;
    if (done === most || ended.every(Boolean)) break;
    if (length < context) {
      length++;
      scores = decoder.feed(rows.map((row) => row.slice(-1)));
    } else {
      // The context is full: the later half of it is read again, and the text goes on after that.
      length = Math.max(1, context >> 1);
      decoder.begin(count);
      scores = decoder.feed(rows.map((row) => row.slice(-length)));
    }
  }
  const seconds = (performance.now() - began) / 1000;
  return {
    texts: rows.map((row, i) => ({
      tokens: row.slice(prompt.length, prompt.length + lengths[i]),
      stopped: ended[i] ? "end" : "length",
    })),
    seconds,
    tokensPerSecond: done * count / seconds,
  };
}

export function checkPrompt(prompt: readonly number[], { vocabulary, context }: Decoder): void {
  if (prompt.length > context) {
    throw new UserError(
      "usage",
      `The prompt has ${
        formatPlural(prompt.length, "token")
      }, and the model's context is ${context}: shorten the prompt, ` +
        "or train with a larger --context.",
    );
  }
  const outside = prompt.find((token) => token >= vocabulary);
  if (outside === undefined) return;
  throw new UserError(
    "usage",
    `The prompt has the token ${outside}, and the model knows ${vocabulary}: it was trained with another tokenizer. Name ` +
      "its own with --tokenizer.",
  );
}

export interface TokenSampling {
  /** 0 takes the likeliest token. */
  readonly temperature: number;
  /** So many of the likeliest tokens are drawn from; 0 for all. */
  readonly topK: number;
  /** The likeliest tokens that together have this share are drawn from; 1 for all. */
  readonly topP: number;
  readonly seed: number;
}

/** `row` is the number of the text, `step` that of its token. */
export function sampler({ temperature, topK, topP, seed }: TokenSampling, rows: number) {
  const draws = Array.from({ length: rows }, (_, row) => uniform(key(seed, "generate", row)));
  return (scores: Float32Array, row: number, step: number): number => {
    const best = likeliest(scores);
    if (temperature === 0) return best;
    const limited = topK > 0 && topK < scores.length;
    const chosen = limited ? largest(scores, topK) : Int32Array.from(scores, (_, i) => i);
    const shares = Float64Array.from(
      chosen,
      (token) => Math.exp((scores[token] - scores[best]) / temperature),
    );
    if (topP < 1 && !limited) inOrder(chosen, shares);
    const count = topP < 1 ? coveringShare(shares, topP) : shares.length;
    return chosen[drawn(shares, count, draws[row](step))];
  };
}

function likeliest(scores: Float32Array): number {
  let best = 0;
  for (let i = 0; i < scores.length; i++) {
    if (scores[i] > scores[best]) best = i;
    else if (Number.isNaN(scores[i])) throw notFinite();
  }
  if (Number.isFinite(scores[best])) return best;
  throw notFinite();
}

const notFinite = () =>
  new UserError(
    "data",
    "The model's scores are not finite numbers: its training has failed. Generate from an earlier checkpoint.",
  );

function drawn(shares: Float64Array, count: number, draw: number): number {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += shares[i];
  let left = draw * sum, last = 0;
  for (let i = 0; i < count; i++) {
    if (shares[i] === 0) continue;
    last = i;
    if ((left -= shares[i]) < 0) break;
  }
  return last;
}

/** The first of these have that share of all. */
function coveringShare(shares: Float64Array, share: number): number {
  const all = shares.reduce((sum, one) => sum + one, 0);
  let sum = 0, count = 0;
  while (count < shares.length && sum < share * all) sum += shares[count++];
  return Math.max(1, count);
}

/** Sorts tokens by their shares, the likeliest first; of equals the first token. */
function inOrder(tokens: Int32Array, shares: Float64Array): void {
  const before = shares.slice();
  tokens.sort((a, b) => before[b] - before[a] || a - b);
  tokens.forEach((token, i) => shares[i] = before[token]);
}

/** The tokens with the largest scores, in their order. A heap holds the least of them on top: most scores stay below it. */
function largest(scores: Float32Array, count: number): Int32Array {
  const heap = new Int32Array(count);
  const below = (a: number, b: number) => scores[a] < scores[b] || (scores[a] === scores[b] && a > b);
  const sink = (value: number, at: number) => {
    for (let child = 2 * at + 1; child < count; child = 2 * at + 1) {
      if (child + 1 < count && below(heap[child + 1], heap[child])) child++;
      if (!below(heap[child], value)) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = value;
  };
  for (let i = 0; i < count; i++) heap[i] = i;
  for (let at = (count >> 1) - 1; at >= 0; at--) sink(heap[at], at);
  for (let token = count; token < scores.length; token++) {
    if (scores[token] > scores[heap[0]]) sink(token, 0);
  }
  return heap.sort((a, b) => below(a, b) ? 1 : -1);
}
