// `trainStep` of the library: a step of a program's own loop, on one rank.
import type { Tensor } from "../../ffi/tensor.ts";
import type { Arena } from "./arena.ts";
import type { ChangeGradients } from "./clipping.ts";
import { type GradientStrategy, plainGradients, type StepWatch } from "./gradients/strategy.ts";
import type { Outcome, Pass } from "./blocks.ts";
import type { CompiledPass } from "./compiler.ts";
import { unwatched } from "./moments.ts";
import type { Optimizer } from "./optimizers/optimizer.ts";
import type { LossScaler } from "./precision.ts";
import { followStep, type Inspection, type StepParts, takeStep } from "./step.ts";
import type { MicroBatch, Share } from "./micro_batch.ts";

/** The parts of a step. */
export interface StepOptions {
  /** The model, its loss and its precision. */
  readonly pass: Pass;
  /** The memory of parameters and gradients. */
  readonly arena: Arena;
  /** Updates them. */
  readonly optimizer: Optimizer;
  /** Scales the loss in f16; null in other types. */
  readonly scaler: LossScaler | null;
  /** True where blocks are computed a second time instead of being kept. */
  readonly checkpointing: boolean;
  /** @internal */
  readonly compiled?: CompiledPass | null;
  /** Longest gradient; 0 leaves it alone. */
  readonly clipNorm: number;
  /** @internal Behind clipNorm. */
  readonly changeGradients?: ChangeGradients | null;
  /** Gives the reason to leave a step out, which is known from its loss: reading that waits for the device. */
  readonly refuse?: ((loss: Tensor, step: number) => string | null) | null;
  /** Sees each step's gradients when they are whole, before they are clipped. */
  readonly look?: ((step: number, arena: Arena, gradients: readonly Tensor[]) => void) | null;
  /** Is called before the optimizer changes anything. */
  readonly hold?: () => void;
  /** Sees each micro-batch's outcome, in the step's scope: running metrics. */
  readonly observe: ((outcome: Outcome, batch: MicroBatch) => void) | null;
}

const nothing = () => {};

/** The result of a step. */
export interface StepResult {
  /** Mean loss over the global batch, 0-dim, on the device; the caller frees it when it has read it, a step later. */
  readonly loss: Tensor;
  /** 2-norm of the gradient before clipping; null where it is not wanted. */
  readonly norm: Tensor | null;
  /** The reason why the update was skipped, or null. */
  readonly skipped: string | null;
  /** True where the update was skipped because the loss jumped. */
  readonly spike: boolean;
}

/** @internal */
export function openStep(
  o: StepOptions,
  gradients: GradientStrategy = plainGradients(o),
): { parts: StepParts; watch: StepWatch } {
  const { pass, arena, optimizer, scaler, clipNorm, changeGradients, refuse, look, hold, observe } = o;
  const inspect: Inspection | null = look
    ? { due: () => true, inspect: (step, all) => look(step, arena, all) }
    : null;
  return {
    parts: {
      ...{ pass, gradients, optimizer, scaler, clipNorm, changeGradients, inspect },
      at: unwatched,
      guard: { reads: Boolean(refuse), refuse: refuse ?? (() => null) },
      saver: { hold: hold ?? nothing },
    },
    watch: { observe: observe ?? nothing, pauses: { next: nothing, rest: nothing } },
  };
}

const opened = new WeakMap<StepOptions, ReturnType<typeof openStep>>();

/**
 * One optimizer step: forward and backward of each micro-batch, clipping, and the update. `shares[i]` is micro-batch i's
 * part of the step's valid items, as `sharesOf` gives it.
 */
export function trainStep(
  options: StepOptions,
  batches: readonly MicroBatch[],
  shares: readonly Share[],
  learningRate: number,
  wantNorm: boolean,
  step: number,
): StepResult {
  let own = opened.get(options);
  if (!own) opened.set(options, own = openStep(options));
  const { parts, watch } = own;
  const request = { batches, shares, rate: learningRate, wantNorm, step, passes: batches.length };
  const taken = takeStep(parts, watch, request);
  const { loss, norm, found, refused } = taken;
  const finite = found === null || found.item() === 0;
  found?.free();
  const skipped = followStep(parts, taken, finite, step + 1);
  return { loss, norm, skipped, spike: refused !== null };
}
