// The state of the training loop from epoch to epoch: running metrics over ranks and shards, aborted steps, and what
// waits for the second step.
import { type Order, order, partsOf, partsOfShards } from "../data/order.ts";
import type { Part } from "../data/source.ts";
import type { TimeMark } from "../run/account.ts";
import { openThroughput, type Throughput } from "./throughput.ts";
import {
  type BoundaryRequests,
  type EventLoopTurn,
  openBoundaryRequests,
  openEventLoopTurn,
  openPauses,
  type Pauses,
  type StepAborted,
  stopped,
} from "./pauses.ts";
import type { Outcome } from "./blocks.ts";
import type { Supply } from "./feed.ts";
import { loggedSteps, placeInEpoch } from "./batches.ts";
import { rewind } from "./guards/spikes.ts";
import { type DeferredMetrics, openDeferredMetrics } from "./deferred_metrics.ts";
import { type RunningMetrics, runningMetrics } from "./running_metrics.ts";
import type { Ending, Run } from "./run.ts";
import { itemsOf, type MicroBatch } from "./step.ts";
import { measureOf } from "./metrics.ts";
import type { VirtualShards } from "./gradients/virtual_shards.ts";
import { keepAllFreedMemory } from "../../ffi/library.ts";
import { freeMemory } from "../base/memory.ts";

export interface Loop {
  readonly run: Run;
  readonly supply: Supply;
  readonly pace: Throughput;
  readonly turn: EventLoopTurn;
  readonly pauses: Pauses;
  /** What is due between two steps, or (`between` false) while data is waited for. */
  readonly due: (between: boolean) => BoundaryRequests;
  readonly beforeStep: () => void;
  /** Whether this step is logged. */
  readonly logged: (step: number) => boolean;
  observe(outcome: Outcome, batch: MicroBatch): void;
  /** The epoch under way, from 0. */
  number: number;
  running: RunningMetrics;
  deferred: DeferredMetrics;
  /** The run's account when the epoch began. */
  began: TimeMark;
}

export function openLoop(run: Run): Loop {
  const { cursor, plan, config, pass: { loss } } = run;
  const pauses = openPauses(run), pace = openThroughput();
  Object.assign(cursor, placeInEpoch(cursor, plan, run.train.length));
  const loop = {
    run,
    supply: run.feed.of(run.train),
    pace,
    turn: openEventLoopTurn(),
    pauses,
    due: openBoundaryRequests(run, pauses),
    beforeStep: beforeSecondStep(run),
    logged: loggedSteps(config.training, plan),
    observe: ({ output, loss: mean }, b) =>
      loop.running.observe({ output, target: b.target, loss: mean, items: itemsOf(b, loss), part: b.shard }),
  } as Loop; // beginEpoch sets the rest
  return loop;
}

export function beginEpoch(loop: Loop): void {
  const { run, supply, pace } = loop;
  const { config: { training, data }, cursor } = run;
  loop.number = cursor.epoch;
  loop.running = sumsSoFar(run);
  loop.deferred = openDeferredMetrics(run, loop.number, pace);
  loop.began = run.account.look();
  pace.startEpoch();
  supply.begin(
    partsToCome(run, loop.number, order(run.train.length, training.seed, loop.number, data.shuffle)),
  );
}

/** The parts of each step that the epoch still has, on this rank. */
function partsToCome(run: Run, epoch: number, samples: Order): () => readonly Part[] | null {
  const { config: { data }, plan, gradients: { shards }, together } = run;
  const { rank, world } = together?.team ?? { rank: 0, world: 1 };
  const mixing = data.mixup > 0 || data.cutmix > 0;
  let fed = run.cursor.stepInEpoch; // steps whose samples the feed knows
  return () => {
    if (fed >= plan.stepsPerEpoch) return null;
    const step = fed++;
    return shards
      ? partsOfShards(samples, step, plan, epoch, mixing, shards.own, shards.count)
      : partsOf(samples, step, plan, epoch, mixing, rank, world);
  };
}

/** The run stops within a step, and it is as if that had not been begun. */
export async function abortStep(loop: Loop, { reason, begun }: StepAborted): Promise<Ending> {
  const { run, running, pauses } = loop;
  if (begun) run.console.line(`Step ${run.cursor.step + 1} is left in its midst, to be begun anew.`);
  pauses.undo();
  running.undo();
  await settle(loop);
  run.cursor.sums = sumsOf(run, loop.running);
  return await stopped(run, reason);
}

/** Reads the last step's loss and does what follows from it, before anything is saved or reported of the epoch. */
export async function settle(loop: Loop): Promise<void> {
  loop.deferred.settle();
  if (loop.run.guard.pending !== null) await goBack(loop);
}

export async function goBack(loop: Loop): Promise<void> {
  loop.deferred.settle();
  await rewind(loop.run);
  loop.running.close();
  loop.running = emptySums(loop.run); // what was seen before is not what these weights have learnt
}

// An epoch's running metrics where virtual shards and ranks keep parts of them: begun, gone on with, put together.

/** With --deterministic=world the sums of each virtual shard are kept apart, and added up in the tree's order. */
export const emptySums = ({ train, gradients: { shards }, pass }: Run): RunningMetrics =>
  runningMetrics(measureOf(train, { loss: pass.loss, full: false, own: pass.metrics }), shards?.count ?? 1);

/** With what a checkpoint says of the epoch, where the run goes on within it. */
export function sumsSoFar(run: Run): RunningMetrics {
  const { cursor, gradients: { shards }, together } = run;
  const running = emptySums(run);
  if (cursor.stepInEpoch === 0) return running;
  const all = cursor.sums, rank = together?.team.rank ?? 0;
  const same = shards && all.length === running.sums().length; // else from a run that was cut into other shards
  running.restore(same ? ownPart(all, shards) : rank === 0 ? all : []);
  return running;
}

/** Of all ranks, each of which has to call it. */
export const sumsOf = ({ together }: Run, running: RunningMetrics): number[] =>
  together?.sumsOf(running) ?? running.sums();

/** The metrics of all ranks; `sums` are theirs. */
export function wholeOf(run: Run, running: RunningMetrics, sums: readonly number[]): RunningMetrics {
  if (!run.together) return running;
  const whole = emptySums(run);
  whole.restore(sums);
  return whole;
}

/** Of the sums of all shards in a checkpoint those of this rank's own. */
function ownPart(
  sums: readonly number[],
  { count, own: { from, to } }: Pick<VirtualShards, "count" | "own">,
): readonly number[] {
  const size = sums.length / count;
  return sums.map((value, i) => i >= from * size && i < to * size ? value : 0);
}

// What waits for a run's first step to be over: what would delay it, and what only it can tell.

/** To be called before each step; does something before the second. */
export function beforeSecondStep({ saver, pass, ranksHere }: Run): () => void {
  let steps = 0;
  return () => {
    if (++steps !== 2) return;
    saver.ready();
    if (!pass.onGpu && isRoomy(mostMemory(), ranksHere)) keepAllFreedMemory();
  };
}

/**
 * Whether each rank of this machine could take as much memory again as a step has taken. What is kept lies in pieces
 * between what is used: up to a third more was seen.
 */
export const isRoomy = (taken: number, ranks: number, free = freeMemory()): boolean => ranks * taken <= free;

/** That this process ever had, in bytes; NaN where the kernel does not say, for which there is never room. */
function mostMemory(): number {
  return 1024 * Number(/^VmHWM:\s*(\d+) kB$/m.exec(Deno.readTextFileSync("/proc/self/status"))?.[1]);
}
