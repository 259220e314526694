// Where the window of each sample begins in a row of token files. May import random, order.
import { key, MOST_POSITIONS, uniformInt } from "../random.ts";
import { splitIndices } from "./order.ts";

export interface Windows {
  /** How many samples. */
  readonly length: number;
  /** A place in the files as they stand behind one another; no window goes on from one into the next. */
  startOf(sample: number): number;
}

/** Plain data, to be sent to threads. */
export interface WindowsPlan {
  readonly kind: "random" | "tiled";
  /** Tokens of each file. */
  readonly lengths: readonly number[];
  readonly context: number;
  /** The most windows that are made. */
  readonly most: number;
  readonly seed: number;
}

export const planWindows = ({ kind, lengths, context, most, seed }: WindowsPlan): Windows =>
  (kind === "random" ? randomWindows : tiledWindows)(lengths, context, most, seed);

/** Drawn for each sample; as many as would stand side by side, so that an epoch reads about as many tokens as there are. */
function randomWindows(
  lengths: readonly number[],
  context: number,
  most: number,
  seed: number,
): Windows {
  const starts = lengths.map((length) => Math.max(length - context, 0));
  const draw = uniformInt(key(seed, "windows"), sum(starts));
  const beside = sum(starts.map((count) => Math.ceil(count / context)));
  const place = placer(lengths, starts, 1);
  return { length: Math.min(beside, most, MOST_POSITIONS), startOf: (sample) => place(draw(sample)) };
}

/** Side by side, so that each token is predicted once; a random choice of them where there are more than `most`. */
function tiledWindows(
  lengths: readonly number[],
  context: number,
  most: number,
  seed: number,
): Windows {
  const tiles = lengths.map((length) => Math.max(Math.floor((length - 1) / context), 0));
  const total = Math.min(sum(tiles), MOST_POSITIONS);
  const chosen = splitIndices(total, { train: Math.min(total, most), val: 0 }, seed).train;
  const place = placer(lengths, tiles, context);
  return { length: chosen.length, startOf: (sample) => place(chosen[sample]) };
}

/** From the `index`th window of all to its place, where each file has `counts` of them, `step` tokens apart. */
function placer(lengths: readonly number[], counts: readonly number[], step: number) {
  return (index: number): number => {
    let file = 0, before = 0;
    while (index >= counts[file]) {
      index -= counts[file];
      before += lengths[file++];
    }
    return before + index * step;
  };
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
