// The places within a step at which a request to stop is heard: after each micro-batch but the last. A step of many long ones
// is left there, as if it had not been begun; the run that goes on begins it anew. Every rank has the same number of
// places, all of them before the ranks' gradients meet. May import ffi, its siblings.
import { currentStream, newEvent, recordEvent, synchroniseEvent } from "../../ffi/cuda.ts";
import { clone, copy_ } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { BatchPlan } from "./batch_math.ts";
import type { Together } from "./parallel/together.ts";
import type { Run } from "./run.ts";
import type { VirtualShards } from "./virtual_shards.ts";

/** Thrown out of a step that is left. */
export class Left {
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
  /** Whether all ranks leave the step that comes next: then it needs no data. */
  endsHere(): boolean;
  /** Why a save was asked for at one of these places; it is made after the step. */
  takeSave(): string | null;
}

/** How many places a step has, on every rank. */
export function pausesIn(plan: BatchPlan, shards: VirtualShards | null | undefined): number {
  if (!shards) return plan.accumulation - 1;
  const { count, own: { from, to } } = shards;
  return (to - from) * Math.ceil(Math.ceil(plan.global / count) / plan.micro) - 1;
}

type Of = Pick<Run, "plan" | "requests" | "together" | "step">;

export function openPauses({ plan, requests, together, step }: Of): Pauses {
  const { pass: { model, onGpu } } = step;
  const count = pausesIn(plan, step.shards);
  const undoing = count > 0 ? openUndo(model.root.namedBuffers().map(([, t]) => t)) : null;
  const pace = onGpu && count > 0 ? openPace() : null;
  let left = 0;
  let save: string | null = null;

  const look = () => {
    const stop = together ? agreed(together) : requests.stop();
    if (stop !== null) throw new Left(stop, left < count);
  };
  const agreed = ({ control, wish }: Together): string | null => {
    wish(requests, false);
    const now = control.here();
    if (now?.what === "save") save = now.reason;
    return now?.what === "stop" ? now.reason : null;
  };
  return {
    begin() {
      left = count;
      undoing?.note();
      if (together) look(); // who still waits for its data has not come so far
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
      const ahead = together?.control.ahead() ?? null;
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
