// The state of the training loop from epoch to epoch, and what waits for the second step.
import { partsOf, partsOfShards } from "../data/source/order.ts";
import { ofSteps, rolloutOf, stepsAt } from "../data/source/rollout.ts";
import type { Part } from "../data/source/source.ts";
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
import { openTakeStep, type TakeStep } from "./captured_step.ts";
import type { Supply } from "./feed.ts";
import { loggedSteps, placeInEpoch } from "./batches.ts";
import { rewind } from "./guards/spikes.ts";
import { type DeferredMetrics, openDeferredMetrics } from "./deferred_metrics.ts";
import { RunningMetrics } from "./running_metrics.ts";
import type { Ending, Trainer } from "./prepare.ts";
import { itemsOf, type MicroBatch } from "./step.ts";
import { openRunNoise, type RunNoise } from "./run_noise.ts";
import { measureOf } from "./metrics.ts";
import type { VirtualShards } from "./gradients/virtual_shards.ts";
import { keepAllFreedMemory } from "../../ffi/library.ts";
import { freeMemory } from "../base/memory.ts";

export interface Loop {
  readonly trainer: Trainer;
  readonly supply: Supply;
  readonly pace: Throughput;
  readonly turn: EventLoopTurn;
  readonly pauses: Pauses;
  /** `between` is false while data is waited for. */
  readonly due: (between: boolean) => BoundaryRequests;
  readonly beforeStep: () => void;
  readonly logged: (step: number) => boolean;
  observe(outcome: Outcome, batch: MicroBatch): void;
  /** A batch without any that counts is told once. */
  itemsOf(batch: MicroBatch): number;
  /** A step without any target that counts is told once. */
  readonly warnEmpty: () => void;
  readonly takeStep: TakeStep;
  readonly noise: RunNoise;
  readonly first: RunNoise["first"] | null;
  /** The epoch under way, from 0. */
  number: number;
  running: RunningMetrics;
  deferred: DeferredMetrics;
  began: TimeMark;
}

export function openLoop(trainer: Trainer): Loop {
  const { cursor, plan, config, pass: { loss } } = trainer;
  const pauses = openPauses(trainer), pace = openThroughput(), noise = openRunNoise();
  Object.assign(cursor, placeInEpoch(cursor, plan, trainer.data.train.length));
  const loop = { trainer } as Loop; // beginEpoch sets the rest
  return Object.assign(loop, {
    supply: trainer.feed.of(trainer.data.train),
    pace,
    turn: openEventLoopTurn(),
    pauses,
    due: openBoundaryRequests(trainer, pauses),
    beforeStep: beforeSecondStep(trainer),
    logged: loggedSteps(config.training, plan),
    warnEmpty: () => warnEmpty(trainer),
    observe({ output, loss: mean }: Outcome, b: MicroBatch) {
      const items = loop.itemsOf(b);
      loop.running.observe({ output, target: b.target, loss: mean, items, part: b.shard });
    },
    itemsOf(b: MicroBatch) {
      const items = itemsOf(b, loss);
      if (items === 0) loop.warnEmpty();
      return items;
    },
    noise,
    first: trainer.gradients.shards ? null : noise.first, // a shard is no part of the step's gradient by itself
    takeStep: openTakeStep(trainer, loop),
  });
}

const warned = new WeakSet<Trainer>();

/** A micro-batch without valid items is computed only where the whole step has none. */
function warnEmpty(trainer: Trainer): void {
  const { console, events, cursor } = trainer, step = cursor.step + 1;
  if (warned.has(trainer)) return;
  warned.add(trainer);
  const message =
    `Step ${step} has no target that counts: all are missing or of the ignored class, so its gradient is ` +
    "zero. Later ones are not reported.";
  console.warn(message);
  events.emit({ kind: "warning", step, message });
}

export function beginEpoch(loop: Loop): void {
  const { trainer, supply, pace } = loop;
  const { cursor } = trainer;
  loop.number = cursor.epoch;
  if (trainer.thaw?.(loop.number)) {
    trainer.console.line("What --freeze names is trained from here on, too (--freeze-until).");
  }
  setSteps(trainer, loop.number);
  loop.running = sumsSoFar(trainer);
  loop.deferred = openDeferredMetrics(trainer, loop.number, pace);
  loop.began = trainer.account.look();
  pace.startEpoch();
  supply.begin(partsOfEpoch(trainer, loop.number, trainer.cursor.stepInEpoch)); // the feed knows the samples of these steps
}

/** A rollout may begin with fewer steps. */
export function setSteps(
  { pass: { rollout }, config: { data, training } }: Pick<Trainer, "pass" | "config">,
  epoch: number,
): void {
  const steps = rollout && rolloutOf(data);
  if (steps) rollout.steps = stepsAt(steps, epoch, training.epochs);
}

/** This rank's parts of the epoch's steps, from step `first` on. */
export function partsOfEpoch(trainer: Trainer, epoch: number, first: number): () => readonly Part[] | null {
  const { config: { data }, plan, gradients: { shards }, ranks } = trainer,
    samples = trainer.sampling.of(epoch);
  const { rank, world } = ranks?.team ?? { rank: 0, world: 1 };
  const mixing = data.mixup > 0 || data.cutmix > 0;
  let fed = first;
  return () => {
    if (fed >= plan.stepsPerEpoch) return null;
    const step = fed++;
    return shards
      ? partsOfShards(samples, step, plan, epoch, mixing, shards.own, shards.count)
      : partsOf(samples, step, plan, epoch, mixing, rank, world);
  };
}

/** The step is undone, as if it had not begun. */
export async function abortStep(loop: Loop, { reason, begun }: StepAborted): Promise<Ending> {
  const { trainer, running, pauses, noise } = loop;
  noise.begin(trainer.cursor.step, false); // what it saw of this step is let go
  if (begun) {
    trainer.console.line(`Step ${trainer.cursor.step + 1} is left in the middle, and will be done again.`);
  }
  pauses.undo();
  running.undo();
  await settle(loop);
  trainer.cursor.sums = sumsOf(trainer, loop.running);
  return await stopped(trainer, reason);
}

/** A save or report of the epoch needs the last step's loss. */
export async function settle(loop: Loop): Promise<void> {
  loop.deferred.settle();
  if (loop.trainer.guard.pending !== null) await goBack(loop);
}

export async function goBack(loop: Loop): Promise<void> {
  loop.deferred.settle();
  await rewind(loop.trainer);
  loop.running.close();
  loop.running = emptySums(loop.trainer); // the weights that had learnt from it are gone
}

/** With --deterministic=world each virtual shard has its own sums, which are added in the tree's order. */
export const emptySums = ({ data: { train }, gradients: { shards }, pass }: Trainer): RunningMetrics =>
  new RunningMetrics(
    measureOf(pass.rollout ? ofSteps(train, pass.rollout.steps, pass.rollout.most) : train, {
      loss: pass.loss,
      full: false,
      own: pass.metrics,
    }),
    shards?.count ?? 1,
  );

export function sumsSoFar(trainer: Trainer): RunningMetrics {
  const { cursor, gradients: { shards }, ranks } = trainer;
  const running = emptySums(trainer);
  if (cursor.stepInEpoch === 0) return running;
  const all = cursor.sums, rank = ranks?.team.rank ?? 0;
  const same = shards && all.length === running.sums().length; // the run may have had other shards
  running.restore(same ? ownPart(all, shards) : rank === 0 ? all : []);
  return running;
}

/** Every rank calls it. */
export const sumsOf = ({ ranks }: Trainer, running: RunningMetrics): number[] =>
  ranks?.sumsOf(running) ?? running.sums();

/** `sums` are those of all ranks. */
export function wholeOf(trainer: Trainer, running: RunningMetrics, sums: readonly number[]): RunningMetrics {
  if (!trainer.ranks) return running;
  const whole = emptySums(trainer);
  whole.restore(sums);
  return whole;
}

function ownPart(
  sums: readonly number[],
  { count, own: { from, to } }: Pick<VirtualShards, "count" | "own">,
): readonly number[] {
  const size = sums.length / count;
  return sums.map((value, i) => i >= from * size && i < to * size ? value : 0);
}

/** These would delay the first step, or depend on the memory that it takes. */
export function beforeSecondStep({ saver, pass, ranksHere }: Trainer): () => void {
  let steps = 0;
  return () => {
    if (++steps !== 2) return;
    saver.ready();
    if (!pass.onGpu && isRoomy(mostMemory(), ranksHere)) keepAllFreedMemory();
  };
}

/** Kept memory is fragmented: a process was seen to grow by up to a third. */
export const isRoomy = (taken: number, ranks: number, free = freeMemory()): boolean => ranks * taken <= free;

/** NaN where the kernel does not report it. */
function mostMemory(): number {
  return 1024 * Number(/^VmHWM:\s*(\d+) kB$/m.exec(Deno.readTextFileSync("/proc/self/status"))?.[1]);
}
