// Draws the next token from a model's scores.
import { key, uniform } from "../base/random.ts";
import { UserError } from "../base/errors.ts";

export interface Sampling {
  /** 0 takes the likeliest token. */
  readonly temperature: number;
  /** So many of the likeliest tokens are drawn from; 0 for all. */
  readonly topK: number;
  /** The likeliest tokens that together have this share are drawn from; 1 for all. */
  readonly topP: number;
  readonly seed: number;
}

/** `row` is the number of the text, `step` that of its token. */
export function sampler({ temperature, topK, topP, seed }: Sampling, rows: number) {
  const draws = Array.from({ length: rows }, (_, row) => uniform(key(seed, "generate", row)));
  return (scores: Float32Array, row: number, step: number): number => {
    const best = likeliest(scores);
    if (temperature === 0) return best;
    const shares = new Float64Array(scores.length), most = scores[best];
    for (let i = 0; i < scores.length; i++) shares[i] = Math.exp((scores[i] - most) / temperature);
    const draw = draws[row](step);
    return topK > 0 || topP < 1 ? drawnAmong(shares, draw, topK, topP) : drawn(shares, shares.length, draw);
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

/** A heap gives the likeliest tokens in their order: a sorted list of all would take ten times as long. */
function drawnAmong(shares: Float64Array, draw: number, topK: number, topP: number): number {
  const heap = Int32Array.from(shares, (_, i) => i);
  const above = (a: number, b: number) => shares[a] > shares[b] || (shares[a] === shares[b] && a < b);
  const sink = (at: number, size: number) => {
    const value = heap[at];
    for (let child = 2 * at + 1; child < size; child = 2 * at + 1) {
      if (child + 1 < size && above(heap[child + 1], heap[child])) child++;
      if (!above(heap[child], value)) break;
      heap[at] = heap[child];
      at = child;
    }
    heap[at] = value;
  };
  for (let at = (heap.length >> 1) - 1; at >= 0; at--) sink(at, heap.length);
  const most = topK > 0 ? Math.min(topK, heap.length) : heap.length;
  const chosen: number[] = [];
  let size = heap.length, all = 0;
  const take = () => {
    const top = heap[0];
    heap[0] = heap[--size];
    sink(0, size);
    chosen.push(top);
    return shares[top];
  };
  if (topK > 0) {
    while (chosen.length < most) all += take();
  } else for (let i = 0; i < shares.length; i++) all += shares[i];
  let kept = chosen.length;
  if (topP < 1) {
    let sum = 0;
    for (kept = 0; sum < topP * all && kept < most; kept++) {
      sum += kept < chosen.length ? shares[chosen[kept]] : take();
    }
  }
  kept = Math.max(1, kept);
  return chosen[drawn(Float64Array.from(chosen, (token) => shares[token]), kept, draw)];
}
