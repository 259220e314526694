// One optimizer step: micro-batches -> gradient arena -> unscale, clip -> update. The hot path: no allocation but
// tensors, no reading back from the device.
import { add, scalar, zero_ } from "../../ffi/make.ts";
import { detach, mul } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Loss } from "../models/losses.ts";
import { type Account, COMMUNICATION, COMPUTE, OPTIMIZER, SAVE } from "../run/account.ts";
import { type Arena, takeGradients } from "./gradients/arena.ts";
import { type BlockDone, checkpointed, type Outcome, type Pass, straight, type Weight } from "./blocks.ts";
import { clip, gradientNorm } from "./gradients/norm.ts";
import type { Optimizer } from "./optimizers.ts";
import { type Reducer, segmented } from "./gradients/overlapped.ts";
import type { SyncNorms } from "./gradients/sync_norms.ts";
import type { Zero } from "./gradients/zero.ts";
import type { Pauses } from "./pauses.ts";
import type { LossScaler } from "./precision.ts";
import { summedOverShards, type VirtualShards } from "./gradients/virtual_shards.ts";

/** Samples of one pass through the model. */
export interface MicroBatch {
  /** What the model is given, on the device. */
  readonly input: Tensor;
  /** What the loss compares with. */
  readonly target: Tensor;
  /** The items that its loss is a mean over, where they were counted before the batch went to a device. */
  readonly items?: number;
  /** The virtual shard that it is a part of, where there are some. */
  readonly shard?: number;
}

export const itemsOf = (b: MicroBatch, loss: Loss): number => b.items ?? loss.validCount(b.target);

/** What a step is made of. */
export interface StepOptions {
  /** The model, its loss and its precision. */
  readonly pass: Pass;
  /** Where parameters and gradients are. */
  readonly arena: Arena;
  /** What updates them. */
  readonly optimizer: Optimizer;
  /** Scales the loss in f16; null in other types. */
  readonly scaler: LossScaler | null;
  /** Whether blocks are computed a second time instead of being kept. */
  readonly checkpointing: boolean;
  /** Longest gradient; 0 leaves it alone. */
  readonly clipNorm: number;
  /** Set for --deterministic=world. */
  readonly shards?: VirtualShards | null;
  /** Set where several ranks add up their gradients, unless virtual shards do it. */
  readonly reducer?: Reducer | null;
  /** Set where each rank updates its own part of the weights. */
  readonly zero?: Zero | null;
  /** Set where batch norm is over the samples of all ranks. */
  readonly norms?: SyncNorms | null;
  /** Told where the step's time goes. */
  readonly account?: Account;
  /** Gives the reason to leave a step out, which is known from its loss: reading that waits for the device. */
  readonly refuse?: ((loss: Tensor, step: number) => string | null) | null;
  /** Sees each step's gradients when they are whole, before they are clipped; null where nobody wants to. */
  readonly look?: ((step: number, arena: Arena, gradients: readonly Tensor[]) => void) | null;
  /** Called before the optimizer changes anything: a save may still be copying. */
  readonly hold?: () => void;
  /** Where the step may be left between two micro-batches, by what is thrown there; nothing has been changed then. */
  readonly pauses?: Pick<Pauses, "next" | "rest"> | null;
  /** Sees each micro-batch's outcome, in the step's scope: running metrics. */
  readonly observe: ((outcome: Outcome, batch: MicroBatch) => void) | null;
}

/** What a step came to. */
export interface StepResult {
  /** Mean loss over the global batch, 0-dim, on the device; the caller frees it after reading it late. */
  readonly loss: Tensor;
  /** 2-norm of the gradient before clipping; null when nobody asked. */
  readonly norm: Tensor | null;
  /** What was skipped and why, or null; and whether that was for a loss that jumped. */
  readonly skipped: string | null;
  /** Whether the step was left out because its loss jumped. */
  readonly spike: boolean;
}

/** A part of the step's valid items; a 0-dim tensor where only the device knows it. */
export type Share = number | Tensor;

/**
 * `shares[i]` is micro-batch i's part of the step's valid items: sums to 1 over all ranks. A mean over valid items
 * times that share, added up, is the mean over the global batch, whatever the split.
 */
export function trainStep(
  o: StepOptions,
  batches: readonly MicroBatch[],
  shares: readonly Share[],
  learningRate: number,
  wantNorm: boolean,
  step: number,
): StepResult {
  return scope(() => {
    if (o.pass.seeds) o.pass.seeds.step = step;
    let loss: Tensor | null;
    if (o.shards) {
      const compute = (shard: number) => ofShard(o, shard, batches, shares);
      loss = summedOverShards(o.shards, compute, o.pauses?.rest);
    } else {
      if (!o.arena.direct) zero_(o.arena.gradient);
      loss = addUp(o, batches, shares);
      o.pauses?.rest();
      if (o.reducer) {
        o.account?.lap(COMPUTE);
        loss = o.reducer.finish(loss);
        o.account?.lap(COMMUNICATION);
      }
    }
    o.account?.lap(COMPUTE);
    const own = o.zero?.owned.arena ?? o.arena;
    let finite = o.scaler?.unscale(own) ?? true;
    if (o.zero && o.scaler) finite = o.zero.all(finite);
    if (own.direct) takeGradients(own);
    // Of a rank that updates a part of the weights, the gradients are a part too.
    o.look?.(step + 1, o.arena, o.zero ? [] : own.gradients);
    const norm = wantNorm || o.clipNorm > 0 ? o.zero?.norm() ?? gradientNorm(own) : null;
    const refused = finite ? o.refuse?.(loss!, step + 1) ?? null : null;
    const update = finite && refused === null;
    if (o.clipNorm > 0 && update) clip(own.memory, norm!, o.clipNorm);
    o.account?.lap(OPTIMIZER);
    o.hold?.();
    o.account?.lap(SAVE);
    if (update) o.optimizer.step(learningRate);
    const skipped = o.scaler?.update(finite, o.arena, step + 1) ?? refused;
    o.account?.lap(OPTIMIZER);
    return { loss: keep(loss!), norm: norm && keep(norm), skipped, spike: refused !== null };
  });
}

/** Adds the micro-batches' gradients to the arena; returns their part of the loss, null where nothing counts. */
function addUp(o: StepOptions, batches: readonly MicroBatch[], shares: readonly Share[]): Tensor | null {
  let loss: Tensor | null = null;
  const { seeds } = o.pass;
  const passes = o.norms?.passes ?? batches.length;
  const last = o.norms ? passes - 1 : shares.findLastIndex((share) => share !== 0);
  for (let i = 0; i < passes; i++) {
    const done = i === last ? o.reducer?.blockDone ?? null : null;
    if (i === last && !o.shards) o.pauses?.rest(); // from here on ranks wait for each other's gradients
    if (i >= batches.length || shares[i] === 0) { // nothing in it counts, and the mean over nothing is NaN
      if (!o.norms) continue;
      o.norms.without(done);
    } else {
      if (seeds) seeds.micro = i;
      const part = accumulate(o, batches[i], shares[i], done);
      loss = loss === null ? part : add(loss, part);
    }
    if (i < last || o.shards) o.pauses?.next();
  }
  return loss;
}

/** The same of one virtual shard. */
export function ofShard(
  o: StepOptions,
  shard: number,
  batches: readonly MicroBatch[],
  shares: readonly Share[],
): Tensor | null {
  const { seeds } = o.pass;
  if (seeds) seeds.share = shard;
  const mine = (_: unknown, i: number) => batches[i].shard === shard;
  return addUp(o, batches.filter(mine), shares.filter(mine));
}

/** Forward and backward of one micro-batch; returns its share of the loss. `done` hears of gradients that are whole. */
function accumulate(o: StepOptions, batch: MicroBatch, share: Share, done: BlockDone | null): Tensor {
  return scope(() => {
    const run = o.checkpointing ? checkpointed : o.reducer ? segmented : straight;
    // Not a constant: there may be as many shares as there are micro-batches.
    const number = typeof share === "number";
    const part = share === 1 ? null : number ? scalar(share, "f32", o.arena.flat.device) : share;
    const outcome = run(o.pass, batch.input, batch.target, weightOf(o, part), done);
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
