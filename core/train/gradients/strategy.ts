// The strategy by which a step gets the gradient of its global batch: the loop over micro-batches, and one
// rank's strategy. Ranks: overlapped.ts and zero.ts. The same bits on any number of ranks: virtual_shards.ts.
import { add, scalar, zero_ } from "../../../ffi/make.ts";
import { detach, mul } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { type BlockDone, checkpointed, type Outcome, type Pass, straight, type Weight } from "../blocks.ts";
import type { CompiledPass } from "../compiler.ts";
import type { LossScaler } from "../precision.ts";
import type { MicroBatch, Shards, Share } from "../micro_batch.ts";
import { type Arena, gradientNorm, takeGradients } from "../arena.ts";

/** A step can be left in its middle at these. They may throw; nothing that lasts has changed then. */
export interface Places {
  /** A micro-batch is done. */
  next(): void;
  /** Ranks meet now: a rank with fewer micro-batches passes its other places. */
  rest(): void;
}

export interface StepWatch {
  /** The outcome lives in the step's scope. */
  observe(outcome: Outcome, batch: MicroBatch): void;
  readonly pauses: Places;
  /** Behind the first of several micro-batches: the arena has its gradient, weighted with its share. Not in fp16, nor compiled on a GPU. */
  readonly first?: ((arena: Arena, share: Share) => void) | null;
}

/** The calls come in this order, and tensors are made in the step's scope. */
export interface GradientStrategy {
  readonly arena: Arena;
  /** The arena, or this rank's part of it under --zero 1. */
  readonly updated: Arena;
  readonly shards: Shards | null;
  zero(): void;
  /**
   * Returns this rank's part of the loss; null where nothing counts. `passes` is the most micro-batches of
   * any rank.
   */
  forwardBackward(
    batches: readonly MicroBatch[],
    shares: readonly Share[],
    watch: StepWatch,
    passes: number,
  ): Tensor | null;
  /** Returns the loss of the global batch. */
  reduce(loss: Tensor | null): Tensor;
  /** The result is 1 where a gradient is not finite on any rank, else 0, on the device. */
  unscale(scaler: LossScaler): Tensor;
  norm(): Tensor;
  /** The first rank's, on all of them; absent where a rank is alone. */
  ofFirst?(number: Tensor): Tensor;
}

export interface MicroBatchOptions {
  readonly pass: Pass;
  readonly arena: Arena;
  /** Null in types other than f16. */
  readonly scaler: LossScaler | null;
  /** Blocks are computed a second time instead of being kept. */
  readonly checkpointing: boolean;
  /** Null or absent where micro-batches run op by op. */
  readonly compiled?: CompiledPass | null;
  /** In place of gradientNorm. */
  readonly norm?: (() => Tensor) | null;
}

interface Micro extends MicroBatchOptions {
  run(pass: Pass, input: Tensor, target: Tensor, weight: Weight, done: BlockDone | null): Outcome;
  /** Called in the last backward pass, for each block. */
  readonly done: BlockDone | null;
  /** A rank takes part without samples; null where ranks don't meet within a pass. */
  readonly empty: ((done: BlockDone | null) => void) | null;
}

export function accumulate(
  m: Micro,
  batches: readonly MicroBatch[],
  shares: readonly Share[],
  watch: StepWatch,
  passes: number,
): Tensor | null {
  const { seeds } = m.pass;
  const apart = m.scaler !== null || m.pass.onGpu && m.compiled;
  const last = m.empty ? passes - 1 : shares.findLastIndex((share) => share !== 0);
  let loss: Tensor | null = null;
  for (let i = 0; i <= last; i++) {
    const counts = i < batches.length && shares[i] !== 0; // the mean over nothing is NaN
    if (!counts && m.empty === null) continue;
    const done = i === last ? m.done : null;
    if (i === last) watch.pauses.rest(); // ranks wait for each other's gradients after this
    if (counts) {
      if (seeds) seeds.micro = i;
      const part = forwardBackward(m, batches[i], shares[i], watch, done);
      loss = loss === null ? part : add(loss, part);
    } else {
      m.compiled?.settle();
      m.empty!(done);
    }
    if (i === 0 && last > 0 && counts && !apart) watch.first?.(m.arena, shares[0]);
    if (i < last) watch.pauses.next();
  }
  m.compiled?.settle();
  return loss;
}

function forwardBackward(
  m: Micro,
  batch: MicroBatch,
  share: Share,
  watch: StepWatch,
  done: BlockDone | null,
): Tensor {
  return scope(() => {
    const number = typeof share === "number";
    const { dtype, device } = m.arena.flat;
    const part = share === 1 ? null : number ? scalar(share, dtype, device) : share;
    const outcome = m.run(m.pass, batch.input, batch.target, weightOf(m.scaler, part), done);
    watch.observe(outcome, batch);
    const loss = detach(outcome.loss);
    return part === null ? loss : mul(loss, part);
  });
}

/** Share x loss scale; null stands for 1 and costs nothing. */
function weightOf(scaler: LossScaler | null, part: Tensor | null): Weight {
  if (scaler === null) return part;
  return part === null ? scaler.gradient : mul(scaler.gradient, part);
}

export function plainGradients(options: MicroBatchOptions): GradientStrategy {
  const { arena, checkpointing, compiled } = options;
  const plain = checkpointing ? checkpointed : straight, run = compiled?.over(plain) ?? plain;
  const micro: Micro = { ...options, run, done: null, empty: null };
  return {
    arena,
    updated: arena,
    shards: null,
    zero() {
      if (compiled) compiled.begin();
      else if (!arena.direct) zero_(arena.gradient);
    },
    forwardBackward: (batches, shares, watch, passes) => accumulate(micro, batches, shares, watch, passes),
    reduce(loss) {
      if (arena.direct) takeGradients(arena);
      return loss!;
    },
    unscale: (scaler) => scaler.unscale(arena),
    norm: options.norm ?? (() => gradientNorm(arena)),
  };
}
