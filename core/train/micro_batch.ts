// A micro-batch is what goes through the model at once, and its share is its part of the step's valid items.
import type { Tensor } from "../../ffi/tensor.ts";
import type { Batch } from "../data/source/source.ts";
import type { Loss } from "../models/losses.ts";

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
export function finished({ raw, ...batch }: MicroBatch): MicroBatch {
  const { input, target } = batch;
  return raw ? { ...batch, ...raw.finish({ input, target }) } : batch;
}

export const itemsOf = (b: MicroBatch, loss: Loss): number => b.items ?? loss.validCount(b.target);

/** A part of the step's valid items; a 0-dim tensor where only the device knows it. */
export type Share = number | Tensor;

const WHOLE = [1];

/** Each micro-batch's share of the step's valid items. Where nothing counts, the first has all of nothing. */
export function sharesOf(batches: readonly MicroBatch[], loss: Loss): readonly number[] {
  if (batches.length === 1) return WHOLE;
  const counts = batches.map((b) => itemsOf(b, loss));
  const all = counts.reduce((sum, count) => sum + count, 0);
  return all === 0 ? counts.map((_, i) => i === 0 ? 1 : 0) : counts.map((count) => count / all);
}
