// One optimizer step: zero, forward, backward, reduce, unscale, clip, update. The hot path allocates nothing but tensors
// and reads nothing back from the device.
import { noGrad } from "../../ffi/autograd.ts";
import { detach, reshape, stack } from "../../ffi/ops.ts";
import type { Readback } from "../../ffi/readback.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Batch } from "../data/source/source.ts";
import type { Loss } from "../models/losses.ts";
import { type Account, COMPUTE, OPTIMIZER, SAVE } from "../run/account.ts";
import type { Pass } from "./blocks.ts";
import { clip } from "./gradients/norm.ts";
import type { GradientStrategy, StepWatch } from "./gradients/strategy.ts";
import type { Guard } from "./guards/spikes.ts";
import type { Ema, Optimizer } from "./optimizers.ts";
import type { LossScaler } from "./precision.ts";
import type { Saver } from "./save.ts";

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
  readonly raw?: RawRows;
}

/** Rows as they came to a GPU. @internal */
export interface RawRows {
  /** They lie in it, and so do those of later batches. */
  readonly memory: object;
  /** The same work for every batch of as many rows. */
  finish(rows: Batch): Batch;
}

/** The caller's scope has what is made of raw rows. */
export function finished({ raw, ...batch }: MicroBatch): MicroBatch {
  const { input, target } = batch;
  return raw ? { ...batch, ...raw.finish({ input, target }) } : batch;
}

export const itemsOf = (b: MicroBatch, loss: Loss): number => b.items ?? loss.validCount(b.target);

/** Sees the gradients that this rank updates, whole and before they are clipped. */
export interface Inspection {
  due(step: number): boolean;
  look(step: number, gradients: readonly Tensor[]): void;
}

/** The parts that a step works with. */
export interface StepParts {
  readonly pass: Pass;
  readonly gradients: GradientStrategy;
  readonly optimizer: Optimizer;
  readonly scaler: LossScaler | null;
  /** Longest gradient; 0 leaves it alone. */
  readonly clipNorm: number;
  readonly account: Pick<Account, "lap">;
  readonly guard: Pick<Guard, "refuse" | "reads">;
  readonly saver: Pick<Saver, "hold">;
  readonly inspect: Inspection | null;
  /** It follows the weights. */
  readonly ema?: Pick<Ema, "update"> | null;
}

/** The result of a queued step. The caller frees the tensors when it has read them, a step later. */
export interface StepTaken {
  /** Mean loss over the global batch, 0-dim, on the device. */
  readonly loss: Tensor;
  /** 2-norm of the gradient before clipping; null where it is not wanted. */
  readonly norm: Tensor | null;
  /** 1 on the device where a gradient is not finite; the update is left out then. Null where nobody looks. */
  readonly found: Tensor | null;
  /** The optimizer counts this step, unless `found` says otherwise. */
  readonly counted: boolean;
  /** The reason why the guard refused the update, because the loss jumped; or null. */
  readonly refused: string | null;
  /** Reads the result of `numbersOf`, which a graph copies to the host; the three tensors are the graph's own then, and stay. */
  readonly numbers?: () => Readback;
}

/** Loss, norm and finding, as far as there are such, in one tensor for one copy to the host. */
export const numbersOf = ({ loss, norm, found }: Pick<StepTaken, "loss" | "norm" | "found">): Tensor =>
  noGrad(() => scope(() => stack([loss, norm, found].filter((t) => t !== null).map((t) => reshape(t, [])))));

/** A part of the step's valid items; a 0-dim tensor where only the device knows it. */
export type Share = number | Tensor;

/**
 * `shares[i]` is micro-batch i's part of the step's valid items: sums to 1 over all ranks. A mean over valid items
 * times that share, added up, is the mean over the global batch, whatever the split.
 */
export function takeStep(
  t: StepParts,
  watch: StepWatch,
  batches: readonly MicroBatch[],
  shares: readonly Share[],
  learningRate: number,
  wantNorm: boolean,
  step: number,
  passes: number,
): StepTaken {
  const { pass: { seeds }, gradients, optimizer, scaler, clipNorm, account } = t;
  return scope(() => {
    if (seeds) seeds.step = step;
    gradients.zero();
    const part = gradients.forwardBackward(batches.map(finished), shares, watch, passes);
    watch.pauses.rest();
    const loss = gradients.reduce(part);
    account.lap(COMPUTE);
    const found = scaler && gradients.unscale(scaler);
    if (t.inspect?.due(step + 1)) t.inspect.look(step + 1, gradients.updated.gradients);
    const norm = wantNorm || clipNorm > 0 ? gradients.norm() : null;
    // Only an optimizer that can't leave a step out by itself waits for the finding, and a guard that reads the loss.
    const alone = found === null || optimizer.onDevice !== undefined && !t.guard.reads;
    const finite = alone || found.item() === 0;
    const refused = finite ? t.guard.refuse(loss, step + 1) : null;
    const update = finite && refused === null;
    const clips = norm !== null && clipNorm > 0 ? { norm, limit: clipNorm } : null;
    if (clips && update && !optimizer.clips) clip(gradients.updated.memory, clips.norm, clipNorm);
    account.lap(OPTIMIZER);
    t.saver.hold(); // a save may still be copying what the update changes
    account.lap(SAVE);
    if (update) optimizer.step(learningRate, alone ? found : null, clips);
    if (scaler) scaler.queueUpdate(found!);
    t.ema?.update();
    account.lap(OPTIMIZER);
    return {
      loss: keep(loss),
      norm: norm && keep(norm),
      found: found && keep(detach(found)),
      counted: update,
      refused,
    };
  });
}

/**
 * Follows what the device did with the last step, now that the finding is known; returns why its update was left
 * out, or null.
 */
export function followStep(
  { scaler, optimizer, gradients }: Pick<StepParts, "scaler" | "optimizer" | "gradients">,
  { counted, refused }: Pick<StepTaken, "counted" | "refused">,
  finite: boolean,
  step: number,
): string | null {
  if (!finite && counted) optimizer.onDevice?.takeBack();
  return scaler?.follow(finite, gradients.arena, step) ?? refused;
}

const WHOLE = [1];

/** Each micro-batch's share of the step's valid items. Where nothing counts, the first has all of nothing. */
export function sharesOf(batches: readonly MicroBatch[], loss: Loss): readonly number[] {
  if (batches.length === 1) return WHOLE;
  const counts = batches.map((b) => itemsOf(b, loss));
  const all = counts.reduce((sum, count) => sum + count, 0);
  return all === 0 ? counts.map((_, i) => i === 0 ? 1 : 0) : counts.map((count) => count / all);
}
