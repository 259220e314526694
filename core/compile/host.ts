// Ops of the program itself among a plan's calls: for what libtorch has no op, as ranks that meet within forward.
import type { Tensor } from "../../ffi/tensor.ts";

/** Takes the schema's arguments, and gives its results in the caller's scope; null for one that is no tensor. */
export type HostOp = (...args: readonly unknown[]) => readonly (Tensor | null)[];

/** By the schema's name. Who has the op puts it here. */
export const hostOps = new Map<string, HostOp>();

/** Batch norm over all ranks, before weight and bias: the normalised values, what they were divided by, the samples. */
export const SYNCED_NORM = "synced_norm(Tensor x, int norm) -> (Tensor, Tensor, Tensor)";
export const SYNCED_NORM_BACKWARD =
  "synced_norm_backward(Tensor grad, Tensor normal, Tensor scale, Tensor count, int norm) -> Tensor";
