// The context of a forward pass: a pass of gradient checkpointing, a batch norm over all ranks. A model's modules share
// one context.
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Module } from "./module.ts";

/** Collectives of batch norm; every rank calls them in the same order. */
export interface NormRanks {
  /** Every rank's vector as a row. */
  gather(own: Tensor): Tensor;
  /** The sum over ranks, in place. */
  sum(t: Tensor): void;
}

/** One application, until its backward. */
export interface SyncedNorm {
  readonly ranks: NormRanks;
  /** The input, and the leaf with its normalised values. */
  readonly x: Tensor;
  readonly normal: Tensor;
  readonly scale: Tensor;
  readonly count: Tensor;
}

export interface ForwardContext {
  /** Gradient checkpointing goes over a batch twice; "only" is every other pass. */
  pass: "only" | "first" | "second";
  /** Set where batch norm takes the samples of all ranks. */
  ranks: NormRanks | null;
  /** The norms over all ranks' samples that were applied since `takeNorms`, in their order. */
  norms: SyncedNorm[];
}

/** The context of a module that is in no model, and of every model without gradient checkpointing and --sync-bn. */
export const PLAIN: ForwardContext = Object.freeze({ pass: "only", ranks: null, norms: [] });

/** The context that a root shares with all modules below it. */
export function contextOf(root: Module): ForwardContext {
  if (root.forwardContext !== PLAIN) return root.forwardContext;
  const context: ForwardContext = { pass: "only", ranks: null, norms: [] };
  for (const module of root.modules()) module.forwardContext = context;
  return context;
}

/** Runs `body` as the first or the second pass of gradient checkpointing over one batch. */
export function inPass<R>(root: Module, pass: "first" | "second", body: () => R): R {
  const context = contextOf(root);
  context.pass = pass;
  try {
    return body();
  } finally {
    context.pass = "only";
  }
}
