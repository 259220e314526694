// One optimizer step: zero, forward, backward, reduce, unscale, clip, update. The hot path allocates nothing but tensors
// and reads nothing back from the device.
import { noGrad } from "../../ffi/autograd.ts";
import { add } from "../../ffi/make.ts";
import { clone, detach, reshape, stack } from "../../ffi/ops.ts";
import type { Readback } from "../../ffi/readback.ts";
import { freeing, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { type ChangeGradients, clip } from "./clipping.ts";
import { finished, type MicroBatch, type Share } from "./micro_batch.ts";
import type { Turns } from "../models/model.ts";
import type { Outcome, Pass } from "./blocks.ts";
import type { GradientStrategy, StepWatch } from "./gradients/strategy.ts";
import type { Guard } from "./guards/spikes.ts";
import type { Moments } from "./moments.ts";
import type { Closure, Ema, Optimizer } from "./optimizers/optimizer.ts";
import type { LossScaler } from "./precision.ts";

/** Sees the gradients that this rank updates, whole and before they are clipped. */
export interface Inspection {
  due(step: number): boolean;
  inspect(step: number, gradients: readonly Tensor[]): void;
}

/** The parts that a step works with. */
export interface StepParts {
  readonly pass: Pass;
  readonly gradients: GradientStrategy;
  readonly optimizer: Optimizer;
  readonly scaler: LossScaler | null;
  /** Longest gradient; 0 leaves it alone. */
  readonly clipNorm: number;
  /** Changes gradients before the update, behind clipping. */
  readonly changeGradients?: ChangeGradients | null;
  readonly at: Pick<Moments, "reduced" | "clipped" | "held" | "updated">;
  readonly guard: Pick<Guard, "refuse" | "reads">;
  /** `hold` waits until a save has copied what the update changes. */
  readonly saver: { hold(): void };
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
  /** Those of turns, of which `loss` is the sum. */
  readonly losses?: readonly Tensor[];
  /** The reason why the guard refused the update, because the loss jumped; or null. */
  readonly refused: string | null;
  /** Reads the result of `stepNumbers`, which a graph copies to the host; the three tensors are the graph's own then, and stay. */
  readonly numbers?: () => Readback;
}

/** Loss, norm and finding, as far as there are such, in one tensor for one copy to the host. */
export const stepNumbers = ({ loss, norm, found }: Pick<StepTaken, "loss" | "norm" | "found">): Tensor =>
  noGrad(() => scope(() => stack([loss, norm, found].filter((t) => t !== null).map((t) => reshape(t, [])))));

/** One object serves all steps of a run. */
export interface StepRequest {
  batches: readonly MicroBatch[];
  /**
   * `shares[i]` is micro-batch i's part of the step's valid items: sums to 1 over all ranks. A mean over valid items
   * times that share, added up, is the mean over the global batch, whatever the split.
   */
  shares: readonly Share[];
  rate: number;
  wantNorm: boolean;
  /** Counted from 0. */
  step: number;
  /** The most micro-batches of any rank. */
  passes: number;
}

export type TakeStep = (request: StepRequest) => StepTaken;

/** Losses that take turns are a step of several updates; what follows the weights comes at the end. */
export function takeStep(t: StepParts, watch: StepWatch, request: StepRequest): StepTaken {
  const { model } = t.pass;
  const taken = model.turns ? takeTurns(model.turns, t, watch, request) : takeUpdate(t, watch, request);
  if (taken.counted) model.afterStep?.();
  return taken;
}

/** In each turn a loss trains its own parameters, with what the turns before have come to. */
function takeTurns(turns: Turns, t: StepParts, watch: StepWatch, request: StepRequest): StepTaken {
  const { optimizer: { groups }, pass: { seeds } } = t, outcomes: Outcome[] = [];
  const own = { ...t, guard: UNGUARDED, inspect: null, ema: null };
  return freeing(() => {
    const once = { ...request, batches: request.batches.map(finished), wantNorm: false };
    const losses = turns.names.map((_, turn) => {
      turns.begin(turn);
      groups!.turn(turn);
      if (seeds) seeds.turn = turn;
      const pauses = turn === 0 ? watch.pauses : UNPAUSED; // the first update can't be taken back
      return takeUpdate(own, { pauses, observe: (one) => outcomes.push(one) }, once).loss;
    });
    groups!.turn(null);
    t.ema?.update();
    const loss = keep(losses.reduce((sum, one) => add(sum, one)));
    if (outcomes.length > 0) watch.observe({ output: outcomes[0].output, loss }, request.batches[0]);
    return { loss, norm: null, found: null, counted: true, refused: null, losses };
  });
}

const UNPAUSED: StepWatch["pauses"] = { next() {}, rest() {} };
const UNGUARDED: StepParts["guard"] = { reads: false, refuse: () => null };

function takeUpdate(t: StepParts, watch: StepWatch, request: StepRequest): StepTaken {
  const { pass: { seeds }, gradients, optimizer, scaler, guard, clipNorm, changeGradients, at } = t;
  const { batches, shares, rate, wantNorm, step, passes } = request;
  return freeing(() => {
    if (seeds) seeds.step = step;
    gradients.zero();
    const own = batches.map(finished);
    const part = gradients.forwardBackward(own, shares, watch, passes);
    watch.pauses.rest();
    const made = gradients.reduce(part), loss = optimizer.evaluates ? clone(made) : made;
    at.reduced();
    const found = scaler && gradients.unscale(scaler);
    if (t.inspect?.due(step + 1)) t.inspect.inspect(step + 1, gradients.updated.gradients);
    const norm = wantNorm || clipNorm > 0 ? gradients.norm() : null;
    // Only an optimizer that can't leave a step out by itself waits for the finding, and a guard that reads the loss.
    const alone = found === null || optimizer.onDevice !== undefined && !guard.reads;
    const finite = alone || found.item() === 0;
    const refused = finite ? guard.refuse(loss, step + 1) : null;
    const counted = finite && refused === null;
    const clips = norm !== null && clipNorm > 0 ? { norm, limit: clipNorm } : null;
    const inUpdate = optimizer.clips && !changeGradients;
    if (clips && counted && !inUpdate) clip(gradients.updated.memory, clips.norm, clipNorm);
    if (counted) changeGradients?.(step);
    at.clipped();
    t.saver.hold(); // a save may still be copying what the update changes
    at.held();
    if (counted) {
      const closure = optimizer.evaluates ? closureOf(gradients, loss, { ...request, batches: own }) : null;
      optimizer.step(rate, alone ? found : null, inUpdate ? clips : null, closure);
    }
    if (scaler) scaler.queueUpdate(found!);
    t.ema?.update();
    at.updated();
    return {
      loss: keep(loss),
      norm: norm && keep(norm),
      found: found && keep(detach(found)),
      counted,
      refused,
    };
  });
}

/** Random draws have the step's keys in each evaluation, and only the first is watched and may be aborted. */
function closureOf(
  gradients: GradientStrategy,
  loss: Tensor,
  { batches, shares, passes }: Pick<StepRequest, "batches" | "shares" | "passes">,
): Closure {
  return {
    loss: loss.item(),
    again() {
      gradients.zero();
      return gradients.reduce(gradients.forwardBackward(batches, shares, UNWATCHED, passes)).item();
    },
    read: (number) => (gradients.ofFirst?.(number) ?? number).item(),
  };
}

const UNWATCHED: StepWatch = { pauses: UNPAUSED, observe() {} };

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
