// The places within and between steps where a stop or a save is taken.
import { currentStream, newEvent, recordEvent, synchroniseEvent } from "../../ffi/cuda.ts";
import { clone, copy_ } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Cursor } from "../checkpoint/training_state.ts";
import type { BatchPlan } from "./batches.ts";
import type { RankGroup } from "./rank_group.ts";
import type { GradientStrategy, Places } from "./gradients/strategy.ts";
import type { Shards } from "./micro_batch.ts";
import { checkedDuration } from "../settings/setting.ts";
import type { Run } from "./launch.ts";

// A request to stop is looked for after each micro-batch but the last. The run that goes on begins the
// abandoned step anew. Every rank has the same number of places, all before gradients meet.

export class StepAborted {
  /** `begun`: micro-batches of it were done. */
  constructor(readonly reason: string, readonly begun: boolean) {}
}

/** @internal */
interface Pauses extends Places {
  begin(): void;
  /** Puts the model's running statistics back to where the step began. */
  undo(): void;
  /** True where all ranks abort the next step. */
  endsNow(): boolean;
  /** The save is made after the step. */
  takeSave(): string | null;
  /** So is the evaluation. */
  takeEvaluation(): boolean;
}

export function pausesIn(plan: BatchPlan, shards: Shards | null): number {
  if (!shards) return plan.accumulation - 1;
  const { count, own: { from, to } } = shards;
  return (to - from) * Math.ceil(Math.ceil(plan.global / count) / plan.micro) - 1;
}

export function openPauses(
  { plan, requests, ranks, pass, gradients }: Pick<Run, "plan" | "requests" | "pass"> & {
    readonly ranks: RankGroup | null;
    readonly gradients: Pick<GradientStrategy, "shards">;
  },
): Pauses {
  const { model, onGpu } = pass;
  const count = pausesIn(plan, gradients.shards);
  const undoing = count > 0 ? openUndo(model.root.namedBuffers().map(([, t]) => t)) : null;
  const pace = onGpu && count > 0 ? openPace() : null;
  let left = 0;
  let save: string | null = null;
  let evaluate = false;

  const poll = () => {
    const stop = ranks ? agreed(ranks) : requests.stop();
    if (stop !== null) throw new StepAborted(stop, left < count);
  };
  const agreed = ({ control, request }: RankGroup): string | null => {
    request(requests, false);
    const now = control.agreed();
    if (now?.what === "save") save = now.reason;
    if (now?.what === "evaluate") evaluate = true;
    return now?.what === "stop" ? now.reason : null;
  };
  return {
    begin() {
      left = count;
      undoing?.note();
      if (ranks) poll(); // a rank that waits for its data is not this far
    },
    next() {
      if (left === 0) return;
      left--;
      pace?.wait();
      poll();
    },
    rest() {
      for (; left > 0; left--) poll();
    },
    undo: () => undoing?.undo(),
    endsNow() {
      const ahead = ranks?.control.ahead() ?? null;
      return ahead !== null && ahead.what === "stop" && ahead.places <= count + 1;
    },
    takeSave() {
      const reason = save;
      save = null;
      return reason;
    },
    takeEvaluation() {
      const due = evaluate;
      evaluate = false;
      return due;
    },
  };
}

function openUndo(buffers: readonly Tensor[]): { note(): void; undo(): void } {
  let before: readonly Tensor[] = [];
  let noted = false;
  return {
    note() {
      if (before.length === 0) before = buffers.map((t) => keep(clone(t)));
      else before.forEach((t, i) => scope(() => copy_(t, buffers[i])));
      noted = true;
    },
    undo() {
      if (noted) buffers.forEach((t, i) => scope(() => copy_(t, before[i])));
      noted = false;
    },
  };
}

/** Work for a GPU is only queued: a whole step would be queued before the first place. */
function openPace(): { wait(): void } {
  const done = newEvent();
  return {
    wait() {
      synchroniseEvent(done); // the micro-batch before this one: this one keeps the device busy
      recordEvent(done, currentStream());
    },
  };
}

/** Reasons; null where nothing is due. */
interface BoundaryRequests {
  readonly stop: string | null;
  readonly save: string | null;
  /** An evaluation within the epoch is due: one at its end is the end's. */
  readonly evaluate: boolean;
}

/** `here`: a step or an epoch is done; else data is waited for. All ranks get the same. */
export function openBoundaryRequests(
  { config: { training }, cursor, plan, requests, ranks }:
    & Pick<Run, "config" | "cursor" | "plan" | "requests">
    & { readonly ranks: RankGroup | null },
  pauses: Pauses,
  evaluations: Evaluations,
): (isBoundary: boolean) => BoundaryRequests {
  const isWithin = () => cursor.stepInEpoch < plan.stepsPerEpoch;
  const saves = every(training.save_interval, plan), timed = isTimed(training.save_interval);
  const saveDue = () => saves(cursor) && (isWithin() || !savesWholeEpochs(training));
  return (isBoundary) => {
    const due = isBoundary && !(ranks && timed) && saveDue() ? "interval" : null;
    if (!ranks) {
      if (isBoundary && evaluations.hasPassed()) evaluations.call();
      const save = requests.takeSave() ? "request" : due;
      return { stop: requests.stop(), save, evaluate: isBoundary && isWithin() && evaluations.isDue() };
    }
    const first = ranks.team.rank === 0;
    ranks.request(requests, timed && first && saveDue(), first && evaluations.hasPassed());
    const agreed = isBoundary ? ranks.control.agreed() : null;
    const within = isBoundary ? pauses.takeSave() : null;
    if (agreed?.what === "evaluate" || isBoundary && pauses.takeEvaluation()) evaluations.call();
    if (agreed?.what === "stop") return { stop: agreed.reason, save: null, evaluate: false };
    const save = agreed?.what === "save" ? agreed.reason : within ?? due;
    return { stop: null, save, evaluate: isBoundary && isWithin() && evaluations.isDue() };
  };
}

/** The ends of other epochs have no save of their own. */
export const savesWholeEpochs = ({ save_interval }: { readonly save_interval: string }): boolean => {
  const { count, unit } = checkedDuration(save_interval);
  return count > 0 && unit === "epochs";
};

/** A place in the run: steps are counted in all and in the epoch under way. */
type Place = Pick<Cursor, "step" | "epoch" | "stepInEpoch">;

/** When to evaluate. Steps and epochs are known to all ranks; by the clock it is the first one that calls. */
interface Evaluations {
  /** The clock has passed the interval, which begins anew. */
  hasPassed(): boolean;
  call(): void;
  isDue(): boolean;
  /** One was made here. */
  done(): void;
}

export function openEvaluations(
  { config: { training }, cursor, plan }: Pick<Run, "config" | "cursor" | "plan">,
): Evaluations {
  const passed = every(training.eval_interval, plan), timed = isTimed(training.eval_interval);
  let called = false;
  return {
    hasPassed: () => timed && passed(cursor),
    call: () => void (called = true),
    // A run that goes on from a save after its evaluation does not make it again.
    isDue: () => timed ? called : passed(cursor) && cursor.judged?.step !== cursor.step,
    done: () => void (called = false),
  };
}

/** An interval that is empty or zero never passes. One of epochs counts from the beginning of the first. */
export function every(
  text: string,
  { stepsPerEpoch }: Pick<BatchPlan, "stepsPerEpoch">,
): (at: Place) => boolean {
  const { count, unit } = checkedDuration(text);
  if (count === 0) return () => false;
  if (unit === "seconds") {
    let last = performance.now();
    return () => {
      const passed = performance.now() - last >= count * 1000;
      if (passed) last = performance.now();
      return passed;
    };
  }
  const steps = Math.max(1, Math.round(unit === "epochs" ? count * stepsPerEpoch : count));
  if (unit === "epochs") {
    return ({ epoch, stepInEpoch }) => (epoch * stepsPerEpoch + stepInEpoch) % steps === 0;
  }
  return ({ step }) => step % steps === 0;
}

/** The clock differs from rank to rank. */
const isTimed = (text: string): boolean => checkedDuration(text).unit === "seconds";

// The event loop sees signals and timers, although training never waits.

/** A Ctrl-C goes unnoticed for at most so long. */
const EVERY_MS = 50;

export function openEventLoopTurn() {
  let last = performance.now();
  return {
    due: (): boolean => performance.now() - last > EVERY_MS,
    async take(): Promise<void> {
      await new Promise((resolve) => setTimeout(resolve, 0));
      last = performance.now();
    },
  };
}
