// Which samples, when and on which rank: functions of (seed, epoch, position). May import random.
import { key, permute } from "../random.ts";

/** The order of one epoch. */
export interface Order {
  readonly length: number;
  /** The sample at a position from 0 to length - 1. */
  at(position: number): number;
}

export function order(length: number, seed: number, epoch: number, shuffle: boolean): Order {
  return { length, at: shuffle ? permute(length, key(seed, "order", epoch)) : (position) => position };
}

/**
 * The samples that a rank takes from global batch `index` of an epoch: a contiguous slice of it. All ranks' slices
 * together are the same samples in the same order, whatever the number of ranks; their sizes differ by at most one.
 */
export function globalBatch(
  order: Order,
  index: number,
  globalBatchSize: number,
  rank: number,
  world: number,
): Int32Array {
  const first = index * globalBatchSize;
  const count = Math.max(0, Math.min(globalBatchSize, order.length - first));
  const from = Math.floor(rank * count / world);
  const ids = new Int32Array(Math.floor((rank + 1) * count / world) - from);
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

/** Eight hex digits that tell two orders apart, from their length and first positions: for printing. */
export function orderHash(order: Order): string {
  const first = Array.from({ length: Math.min(order.length, 1024) }, (_, position) => order.at(position));
  return (key(order.length, ...first) & 0xffffffffn).toString(16).padStart(8, "0");
}
