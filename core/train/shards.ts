// A binary tree over numbered virtual shards: any ranks make the same additions of the same numbers.
import { UserError } from "../base/errors.ts";

/** A step's shards, and those that this rank computes. */
export interface Shards {
  readonly count: number;
  readonly own: ShardRange;
}

/** A node of the tree sums shards `from` to `to` - 1. */
export interface ShardSum<T> {
  readonly from: number;
  readonly to: number;
  readonly value: T;
}

export interface ShardRange {
  readonly from: number;
  readonly to: number;
}

/** The left part is the largest power of two that leaves something. */
const cutOf = (from: number, to: number): number => from + 2 ** (31 - Math.clz32(to - from - 1));

/** `at` returns undefined where two halves are to be added. */
export function treeSum<T>(
  { from, to }: ShardRange,
  at: (from: number, to: number) => T | undefined,
  add: (left: T, right: T) => T,
): T {
  const known = at(from, to);
  if (known !== undefined) return known;
  if (to - from === 1) throw new Error(`internal: nobody summed shard ${from}.`);
  const middle = cutOf(from, to);
  const left = treeSum({ from, to: middle }, at, add);
  return add(left, treeSum({ from: middle, to }, at, add));
}

/** The owner of a range can add up these nodes alone. */
export function nodesWithin(
  own: ShardRange,
  shards: number,
  node: ShardRange = { from: 0, to: shards },
): ShardRange[] {
  if (node.from >= own.from && node.to <= own.to) return [node];
  if (node.to <= own.from || node.from >= own.to) return [];
  const middle = cutOf(node.from, node.to);
  return [{ from: node.from, to: middle }, { from: middle, to: node.to }]
    .flatMap((half) => nodesWithin(own, shards, half));
}

export function shardsOfRank(shards: number, rank: number, world: number): ShardRange {
  if (shards % world !== 0) {
    throw new UserError(
      "usage",
      `--deterministic=world shares ${shards} virtual shards among the ranks, and ${shards} can't be divided by ` +
        `${world} ranks: set training.virtual_shards to a multiple of ${world} ` +
        "(in every run that is to have the same bits), or start another number of ranks.",
    );
  }
  const each = shards / world;
  return { from: rank * each, to: (rank + 1) * each };
}
