// Which samples, when and on which rank: functions of (seed, epoch, position). May import random.
import { key, permute } from "../random.ts";

/** The order of one epoch. */
export interface Order {
  /** Samples of an epoch. */
  readonly length: number;
  /** The sample at a position from 0 to length - 1. */
  at(position: number): number;
}

/** The order of this epoch: a permutation that the seed and the epoch alone decide, or 0, 1, 2, ... without `shuffle`. */
export function order(length: number, seed: number, epoch: number, shuffle: boolean): Order {
  return { length, at: shuffle ? permute(length, key(seed, "order", epoch)) : (position) => position };
}

/** Where a rank's slice of a global batch lies: `first` is the batch's place in the epoch, the others are within it. */
export interface GlobalRange {
  readonly first: number;
  /** Samples of the whole batch: fewer in the last one of an epoch. */
  readonly count: number;
  readonly from: number;
  readonly to: number;
}

/**
 * A rank takes a contiguous slice of global batch `index` of an epoch. All ranks' slices together are the same samples
 * in the same order, whatever the number of ranks; their sizes differ by at most one.
 */
export function globalRange(
  { length }: Order,
  index: number,
  globalBatchSize: number,
  rank: number,
  world: number,
): GlobalRange {
  const first = index * globalBatchSize;
  const count = Math.max(0, Math.min(globalBatchSize, length - first));
  const share = (rank: number) => Math.floor(rank * count / world);
  return { first, count, from: share(rank), to: share(rank + 1) };
}

/** The samples of that slice. */
export function globalBatch(
  order: Order,
  index: number,
  globalBatchSize: number,
  rank: number,
  world: number,
): Int32Array {
  const { first, from, to } = globalRange(order, index, globalBatchSize, rank, world);
  const ids = new Int32Array(to - from);
  for (let i = 0; i < ids.length; i++) ids[i] = order.at(first + from + i);
  return ids;
}

export interface Split {
  readonly train: Int32Array;
  readonly val: Int32Array;
}

/**
 * Divides the samples 0 to total - 1 at random into two disjoint sets, each in ascending order; a function of the
 * seed alone. `part` is the share to validate with, or the most samples of each set.
 */
export function splitIndices(
  total: number,
  part: number | { readonly train: number; readonly val: number },
  seed: number,
): Split {
  const val = typeof part === "number" ? heldOut(total, part) : Math.min(part.val, total);
  const train = typeof part === "number" ? total - val : Math.min(part.train, total - val);
  const at = permute(total, key(seed, "split"));
  const take = (from: number, count: number) =>
    Int32Array.from({ length: count }, (_, i) => at(from + i)).sort();
  return { train: take(val, train), val: take(0, val) };
}

/** How many samples a share is: at least one on either side, where there are two to divide. */
export function heldOut(total: number, share: number): number {
  return share === 0 || total < 2 ? 0 : Math.min(Math.max(Math.round(total * share), 1), total - 1);
}

const POSITIONS_HASHED = 1024;

/**
 * Eight hex digits that tell two orders apart, from their length and positions spread over all of it: for printing.
 * `indices` are the samples of the data that the order is of, where those are not all.
 */
export function orderHash(order: Order, indices: Int32Array | null = null): string {
  const count = Math.min(order.length, POSITIONS_HASHED);
  const seen = Array.from({ length: count }, (_, i) => {
    const id = order.at(Math.floor(i * order.length / count));
    return indices ? indices[id] : id;
  });
  return (key(order.length, ...seen) & 0xffffffffn).toString(16).padStart(8, "0");
}
