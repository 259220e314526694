// A micro-batch is what goes through the model at once, and its share is its part of the step's valid items. Virtual shards
// are a step's parts that don't depend on the ranks, in a binary tree: any ranks make the same additions of the same numbers.
import type { Tensor } from "../../ffi/tensor.ts";
import type { Batch } from "../data/source/source.ts";
import type { Loss } from "../models/losses.ts";
import { UserError } from "../base/errors.ts";

/** Samples of one pass through the model. */
export interface MicroBatch {
  /** The model's input, on the device. */
  readonly input: Tensor;
  /** The loss compares the output with it. */
  readonly target: Tensor;
  /** The items that its loss is a mean over, where they were counted before the batch went to a device. */
  readonly items?: number;
  /** As in a `Batch`. @internal */
  readonly unscaled?: Tensor;
  /** The virtual shard that it is a part of, where there are some. */
  readonly shard?: number;
  /**
   * Input and target are raw rows, of which a step makes what the model sees.
   * @internal
   */
  readonly raw?: {
    /** They lie in it, and so do those of later batches. */
    readonly memory: object;
    /** The same work for every batch of as many rows. */
    finish(rows: Batch): Batch;
  };
}

/** The caller's scope has what is made of raw rows. */
export function finished(given: MicroBatch): MicroBatch {
  if (!given.raw) return given;
  const { raw, ...batch } = given, { input, target } = batch;
  return { ...batch, ...raw.finish({ input, target }) };
}

export type Shape = Pick<Tensor, "dtype" | "shape">;

/** It holds when the tensor is gone. */
export const shapeOf = ({ dtype, shape }: Tensor): Shape => ({ dtype, shape: [...shape] });

export function sameShape(a: Shape, b: Shape): boolean {
  const x = a.shape, y = b.shape;
  if (x.length !== y.length) return false;
  for (let i = 0; i < x.length; i++) if (x[i] !== y[i]) return false;
  return a.dtype === b.dtype;
}

export const itemsOf = (b: MicroBatch, loss: Loss): number => b.items ?? loss.validCount(b.target);

/** A part of the step's valid items; a 0-dim tensor where only the device knows it. */
export type Share = number | Tensor;

const WHOLE = [1];

/** Each micro-batch's share of the step's valid items. Where nothing counts, the first has all of nothing. */
export function sharesOf(batches: readonly MicroBatch[], loss: Loss): readonly number[] {
  if (batches.length === 1) return WHOLE;
  for (const { target } of batches) loss.refuseUneven?.(target);
  const counts = batches.map((b) => itemsOf(b, loss));
  const all = counts.reduce((sum, count) => sum + count, 0);
  return all === 0 ? counts.map((_, i) => i === 0 ? 1 : 0) : counts.map((count) => count / all);
}

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
