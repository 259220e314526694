// The context of a forward pass: a pass of gradient checkpointing, a batch norm over all ranks. A model's
// modules share one context.
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Module } from "./module.ts";

/** Every rank calls these in the same order. */
export interface NormRanks {
  /** Each rank's vector becomes a row. */
  gather(own: Tensor): Tensor;
  /** False where the last gathering was remembered: this micro-batch has gone this way before. */
  readonly fresh: boolean;
  /** The sum is in place. */
  sum(t: Tensor): void;
}

/** It lasts until its backward. */
export interface SyncedNorm {
  readonly ranks: NormRanks;
  /** The leaf has the normalised values. */
  readonly x: Tensor;
  readonly normal: Tensor;
  readonly scale: Tensor;
  readonly count: Tensor;
}

export interface ForwardContext {
  pass: "only" | "first" | "second";
  /** Set where batch norm takes the samples of all ranks. */
  ranks: NormRanks | null;
  /** These were applied since `takeNorms`, in their order. */
  norms: SyncedNorm[];
}

/** A module in no model has it, and every model without gradient checkpointing and --sync-bn. */
export const PLAIN_CONTEXT: ForwardContext = Object.freeze({ pass: "only", ranks: null, norms: [] });

export function contextOf(root: Module): ForwardContext {
  if (root.forwardContext !== PLAIN_CONTEXT) return root.forwardContext;
  const context: ForwardContext = { pass: "only", ranks: null, norms: [] };
  for (const module of root.modules()) module.forwardContext = context;
  return context;
}

export function inPass<R>(root: Module, pass: "first" | "second", body: () => R): R {
  const context = contextOf(root);
  context.pass = pass;
  try {
    return body();
  } finally {
    context.pass = "only";
  }
}
