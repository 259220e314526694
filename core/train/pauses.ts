// The places within and between steps where a stop or a save is taken.
import { currentStream, newEvent, recordEvent, synchroniseEvent } from "../../ffi/cuda.ts";
import { clone, copy_ } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { BatchPlan } from "./batches.ts";
import type { RankGroup } from "./rank_group.ts";
import type { Ending, Trainer } from "./prepare.ts";
import type { VirtualShards } from "./gradients/virtual_shards.ts";
import { isByHand } from "./stop.ts";
import { REST, SAVE } from "../run/account.ts";
import { parseDuration } from "../settings/setting.ts";

// The places within a step at which a request to stop is looked for: after each micro-batch but the last. A step of many
// long ones is left there, as if it had not been begun; the run that goes on begins it anew. Every rank has the same
// number of places, all of them before the ranks' gradients meet.

/** Thrown out of a step that is left. */
export class StepAborted {
  /** `begun`: micro-batches of it were done. */
  constructor(readonly reason: string, readonly begun: boolean) {}
}

/** @internal */
export interface Pauses {
  /** A step begins. */
  begin(): void;
  /** A micro-batch is done. */
  next(): void;
  /** Ranks meet now: what has no micro-batch here has its place all the same. */
  rest(): void;
  /** Puts the model's running statistics back to where the step began. */
  undo(): void;
  /** True where all ranks abort the step that comes next: then it needs no data. */
  endsHere(): boolean;
  /** The reason of a save that was requested at one of these places; it is made after the step. */
  takeSave(): string | null;
}

/** How many places a step has, on every rank. */
export function pausesIn(plan: BatchPlan, shards: Pick<VirtualShards, "count" | "own"> | null): number {
  if (!shards) return plan.accumulation - 1;
  const { count, own: { from, to } } = shards;
  return (to - from) * Math.ceil(Math.ceil(plan.global / count) / plan.micro) - 1;
}

export function openPauses({ plan, requests, ranks, pass, gradients }: Trainer): Pauses {
  const { model, onGpu } = pass;
  const count = pausesIn(plan, gradients.shards);
  const undoing = count > 0 ? openUndo(model.root.namedBuffers().map(([, t]) => t)) : null;
  const pace = onGpu && count > 0 ? openPace() : null;
  let left = 0;
  let save: string | null = null;

  const look = () => {
    const stop = ranks ? agreed(ranks) : requests.stop();
    if (stop !== null) throw new StepAborted(stop, left < count);
  };
  const agreed = ({ control, wish }: RankGroup): string | null => {
    wish(requests, false);
    const now = control.here();
    if (now?.what === "save") save = now.reason;
    return now?.what === "stop" ? now.reason : null;
  };
  return {
    begin() {
      left = count;
      undoing?.note();
      if (ranks) look(); // who still waits for its data has not come so far
    },
    next() {
      if (left === 0) return;
      left--;
      pace?.wait();
      look();
    },
    rest() {
      for (; left > 0; left--) look();
    },
    undo: () => undoing?.undo(),
    endsHere() {
      const ahead = ranks?.control.ahead() ?? null;
      return ahead !== null && ahead.what === "stop" && ahead.places <= count + 1;
    },
    takeSave() {
      const reason = save;
      save = null;
      return reason;
    },
  };
}

/** Forward passes change these, whatever becomes of the step. */
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

/** Work for a GPU is only queued: without a wait, all of a step would be before the first place is passed. */
function openPace(): { wait(): void } {
  const done = newEvent();
  return {
    wait() {
      synchroniseEvent(done); // of the micro-batch before this one, which keeps the device busy meanwhile
      recordEvent(done, currentStream());
    },
  };
}

// Between two steps a stop, a save or the end of --max-steps may be due.

/** Reasons; null where nothing is due. */
export interface BoundaryRequests {
  readonly stop: string | null;
  readonly save: string | null;
}

/**
 * `here`: a step is done, or an epoch; else data is waited for. With other ranks it gives what all of them do, at the same
 * step.
 */
export function openBoundaryRequests(trainer: Trainer, pauses: Pauses): (here: boolean) => BoundaryRequests {
  const { config: { training }, cursor, plan, requests, ranks } = trainer;
  const saveDue = every(training.save_interval, plan.stepsPerEpoch);
  const timed = isTimed(training.save_interval);
  return (here) => {
    const due = here && !(ranks && timed) && saveDue(cursor.step) ? "interval" : null;
    if (!ranks) return { stop: requests.stop(), save: requests.takeSave() ? "request" : due };
    ranks.wish(requests, timed && ranks.team.rank === 0 && saveDue(cursor.step));
    const agreed = here ? ranks.control.here() : null;
    const within = here ? pauses.takeSave() : null;
    if (agreed?.what === "stop") return { stop: agreed.reason, save: null };
    return { stop: null, save: agreed?.reason ?? within ?? due };
  };
}

/** True when --max-steps are done. */
export const enough = ({ config: { training }, cursor }: Trainer): boolean =>
  training.max_steps > 0 && cursor.step >= training.max_steps;

export async function save(trainer: Trainer, reason: string, better: boolean): Promise<void> {
  trainer.ranks?.control.phase("save");
  trainer.account.lap(REST);
  await trainer.saver.save(reason, better);
  trainer.account.lap(SAVE);
}

export async function stopped(trainer: Trainer, reason: string): Promise<Ending> {
  await save(trainer, "stop", false);
  return stoppedFor(reason);
}

/** The ending of a run whose last save has all of it. */
export const stoppedFor = (reason: string): Ending => ({
  outcome: `Stopped on request (${reason})`,
  stopped: true,
  byHand: isByHand(reason),
});

export const ended = (outcome: string): Ending => ({ outcome, stopped: false, byHand: false });

// "500steps", "2ep", "10min" -> is a save due now?

/** Is called after each step; true when the interval has passed since it last was. Empty or zero: never. */
export function every(text: string, stepsPerEpoch: number): (step: number) => boolean {
  const { count, unit } = parseDuration(text)!; // the settings checked it
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
  return (step) => step % steps === 0;
}

/** True where the interval goes by the clock, which differs from rank to rank. */
const isTimed = (text: string): boolean => parseDuration(text)!.unit === "seconds";

// Lets the event loop run now and then, so that signals and timers are seen although training never waits.

/** Longest time a Ctrl-C goes unnoticed between two steps. */
const EVERY_MS = 50;

export interface EventLoopTurn {
  due(): boolean;
  take(): Promise<void>;
}

export function openEventLoopTurn(): EventLoopTurn {
  let last = performance.now();
  return {
    due: () => performance.now() - last > EVERY_MS,
    async take() {
      await new Promise((resolve) => setTimeout(resolve, 0));
      last = performance.now();
    },
  };
}
