// One optimizer step: micro-batches -> gradient arena -> unscale, clip -> update. The hot path: no allocation
// but tensors, no reading back from the device. May import ffi, models, its siblings.
import { add, scalar, zero_ } from "../../ffi/make.ts";
import { detach, mul } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Loss } from "../models/losses.ts";
import { type Arena, takeGradients } from "./arena.ts";
import { checkpointed, type Outcome, type Pass, straight, type Weight } from "./blocks.ts";
import { clip, gradientNorm } from "./clip.ts";
import type { Optimizer } from "./optimizers/optimizer.ts";
import type { LossScaler } from "./precision.ts";

export interface MicroBatch {
  readonly input: Tensor;
  readonly target: Tensor;
  /** The items that its loss is a mean over, where they were counted before the batch went to a device. */
  readonly items?: number;
}

export const itemsOf = (b: MicroBatch, loss: Loss): number => b.items ?? loss.validCount(b.target);

export interface StepOptions {
  readonly pass: Pass;
  readonly arena: Arena;
  readonly optimizer: Optimizer;
  readonly scaler: LossScaler | null;
  readonly checkpointing: boolean;
  /** Longest gradient; 0 leaves it alone. */
  readonly clipNorm: number;
  /** Sees each micro-batch's outcome, in the step's scope: running metrics. */
  readonly observe: ((outcome: Outcome, batch: MicroBatch) => void) | null;
}

export interface StepResult {
  /** Mean loss over the global batch, 0-dim, on the device; the caller frees it after reading it late. */
  readonly loss: Tensor;
  /** 2-norm of the gradient before clipping; null when nobody asked. */
  readonly norm: Tensor | null;
  /** What was skipped and why, or null. */
  readonly skipped: string | null;
}

/**
 * `shares[i]` is micro-batch i's part of the step's valid items: sums to 1 over all ranks. A mean over valid items
 * times that share, added up, is the mean over the global batch, whatever the split.
 */
export function trainStep(
  o: StepOptions,
  batches: readonly MicroBatch[],
  shares: readonly number[],
  learningRate: number,
  wantNorm: boolean,
  step: number,
): StepResult {
  return scope(() => {
    if (!o.arena.direct) zero_(o.arena.gradient);
    let loss: Tensor | null = null;
    const { seeds } = o.pass;
    if (seeds) seeds.step = step;
    for (let i = 0; i < batches.length; i++) {
      if (shares[i] === 0) continue; // nothing in it counts, and the mean over nothing is NaN
      if (seeds) seeds.micro = i;
      const part = accumulate(o, batches[i], shares[i]);
      loss = loss === null ? part : add(loss, part);
    }
    const finite = o.scaler?.unscale(o.arena) ?? true;
    if (o.arena.direct) takeGradients(o.arena);
    const norm = wantNorm || o.clipNorm > 0 ? gradientNorm(o.arena) : null;
    if (o.clipNorm > 0 && finite) clip(o.arena.gradient, norm!, o.clipNorm);
    if (finite) o.optimizer.step(learningRate);
    const skipped = o.scaler?.update(finite, o.arena, step + 1) ?? null;
    return { loss: keep(loss!), norm: norm && keep(norm), skipped };
  });
}

/** Forward and backward of one micro-batch; returns its share of the loss. */
function accumulate(o: StepOptions, batch: MicroBatch, share: number): Tensor {
  return scope(() => {
    const run = o.checkpointing ? checkpointed : straight;
    // Not a constant: there may be as many shares as there are micro-batches.
    const part = share === 1 ? null : scalar(share, "f32", o.arena.flat.device);
    const outcome = run(o.pass, batch.input, batch.target, weightOf(o, part));
    o.observe?.(outcome, batch);
    const loss = detach(outcome.loss);
    return part === null ? loss : mul(loss, part);
  });
}

/** What backward starts from: share x loss scale; null stands for 1 and costs nothing. */
function weightOf({ scaler }: StepOptions, part: Tensor | null): Weight {
  if (scaler === null) return part;
  return part === null ? scaler.gradient : mul(scaler.gradient, part);
}

const WHOLE = [1];

/** Each micro-batch's share of the step's valid items. */
export function sharesOf(batches: readonly MicroBatch[], loss: Loss): readonly number[] {
  if (batches.length === 1) return WHOLE;
  const counts = batches.map((b) => itemsOf(b, loss));
  const all = counts.reduce((sum, count) => sum + count, 0);
  return counts.map((count) => count / all);
}
