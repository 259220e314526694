// The steps of one epoch, its running sums over ranks, and what waits for the second step.
import { scope } from "../../ffi/tensor.ts";
import { type Order, order, partsOf, partsOfShards } from "../data/order.ts";
import type { Part } from "../data/source.ts";
import { COPY, REST, type TimeMark } from "../run/account.ts";
import type { Throughput } from "./throughput.ts";
import {
  type BoundaryRequests,
  enough,
  type EventLoopTurn,
  type Pauses,
  save,
  StepAborted,
  stopped,
} from "./pauses.ts";
import type { Outcome } from "./blocks.ts";
import type { Supply } from "./feed.ts";
import { loggedSteps } from "./batches.ts";
import { rewind } from "./guards/spikes.ts";
import { type DeferredMetrics, openDeferredMetrics } from "./deferred_metrics.ts";
import { type RunningMetrics, runningMetrics } from "./running_metrics.ts";
import type { Ending, Run } from "./run.ts";
import { learningRate } from "./schedule.ts";
import { itemsOf, type MicroBatch, sharesOf, type StepResult, takeStep } from "./step.ts";
import { measureOf } from "./metrics.ts";
import type { VirtualShards } from "./gradients/virtual_shards.ts";
import { keepAllFreedMemory } from "../../ffi/library.ts";
import { freeMemory } from "../base/memory.ts";

// The steps of one epoch: data is waited for, a step is made, and what is due after it is done.

/** Longest wait for data before signals and requests are looked at. */
const WAIT_MS = 50;

/** What all epochs of a run have in common. */
export interface Common {
  readonly run: Run;
  readonly supply: Supply;
  readonly pace: Throughput;
  readonly breath: EventLoopTurn;
  readonly pauses: Pauses;
  readonly asked: (here: boolean) => BoundaryRequests;
  readonly beforeStep: () => void;
}

export interface Epoch extends Common {
  /** From 0. */
  readonly number: number;
  /** Whether this step is written down. */
  readonly logged: (step: number) => boolean;
  readonly observe: (outcome: Outcome, batch: MicroBatch) => void;
  readonly late: DeferredMetrics;
  /** Where the run's account was when it began. */
  readonly began: TimeMark;
  /** Others after training has gone back. */
  running: RunningMetrics;
}

export function openEpoch(common: Common): Epoch {
  const { run, supply, pace } = common;
  const { config: { training, data }, pass: { loss } } = run;
  const number = run.cursor.epoch;
  const samples = order(run.train.length, training.seed, number, data.shuffle);
  const observe = ({ output, loss: mean }: Outcome, b: MicroBatch) =>
    epoch.running.observe({
      output,
      target: b.target,
      loss: mean,
      items: itemsOf(b, loss),
      part: b.shard,
    });
  const epoch: Epoch = {
    ...common,
    number,
    logged: loggedSteps(training, run.plan),
    running: sumsSoFar(run),
    observe,
    late: openDeferredMetrics(run, number, pace),
    began: run.account.look(),
  };
  pace.startEpoch();
  supply.begin(partsToCome(run, number, samples));
  return epoch;
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

/** All steps that the epoch still has, or those up to --max-steps. Gives the run's ending where it stops among them. */
export async function trainSteps(e: Epoch): Promise<Ending | null> {
  const { run, supply, breath, pauses, asked, beforeStep } = e;
  const { cursor, plan, together, account, guard } = run;
  while (cursor.stepInEpoch < plan.stepsPerEpoch) {
    together?.control.phase("data.next");
    account.lap(REST);
    if (run.profile?.at(cursor.step)) await run.profile.finish();
    const ready = supply.ready(WAIT_MS);
    const here = ready || pauses.endsHere();
    if (here) {
      beforeStep();
      const left = oneStep(e, ready);
      if (left !== null) return await leave(e, left);
    }
    if (guard.pending !== null) await goBack(e);
    if (here) together?.stepped(run);
    if (!here || breath.due()) await breath.take();
    const { stop, save: due } = asked(here);
    if (stop !== null || due !== null || enough(run)) {
      await settle(e);
      cursor.sums = sumsOf(run, e.running);
      if (stop !== null) return await stopped(run, stop);
      if (enough(run)) break;
      await save(run, due!, false);
    }
  }
  return null;
}

/** Hot: nothing is read from the device but through `late`, nothing is logged. Gives where the step was left, if it was. */
function oneStep(e: Epoch, ready: boolean): StepAborted | null {
  const { run, late, logged } = e;
  const { cursor, plan, together, account } = run;
  together?.control.phase("forward");
  const rate = learningRate(run.schedule, cursor.step);
  const log = logged(cursor.step + 1);
  const count = Math.min(plan.global, run.train.length - cursor.stepInEpoch * plan.global);
  const world = together?.team.world ?? 1;
  const passes = Math.ceil(Math.ceil(count / world) / plan.micro);
  const result = computed(e, ready, rate, log, passes);
  if (result instanceof StepAborted) return result;
  run.ema?.update();
  cursor.step++;
  together?.control.step(cursor.step);
  cursor.stepInEpoch++;
  cursor.samples += count;
  e.supply.ahead();
  account.lap(COPY);
  late.push(result, rate, log);
  e.pace.step(count);
  return null;
}

/** Hot too. A step that is left between two micro-batches has changed nothing that lasts, but for what is undone. */
function computed(
  e: Epoch,
  ready: boolean,
  rate: number,
  log: boolean,
  passes: number,
): StepResult | StepAborted {
  const { run, supply, running, pauses } = e;
  const { cursor, together, account, pass: { loss } } = run;
  try {
    return scope(() => {
      const batches = ready ? supply.take()! : []; // none where all ranks leave this step
      account.lap(COPY);
      run.flops.before(batches[0]?.input.shape[0] ?? 0);
      const shares = together ? together.shares(batches, loss) : sharesOf(batches, loss);
      running.mark();
      pauses.begin();
      return takeStep(run, e, batches, shares, rate, log, cursor.step, passes);
    });
  } catch (thrown) {
    if (thrown instanceof StepAborted) return thrown;
    throw thrown;
  }
}

/** The run stops within a step: it is as if that had not been begun. */
async function leave(e: Epoch, left: StepAborted): Promise<Ending> {
  const { run, running, pauses } = e;
  if (left.begun) run.console.line(`Step ${run.cursor.step + 1} is left in its midst, to be begun anew.`);
  pauses.undo();
  running.undo();
  await settle(e);
  run.cursor.sums = sumsOf(run, e.running);
  return await stopped(run, left.reason);
}

/** The last step's loss is heard, and what follows from it is done: before anything is saved or told of the epoch. */
export async function settle(e: Epoch): Promise<void> {
  e.late.settle();
  if (e.run.guard.pending !== null) await goBack(e);
}

async function goBack(e: Epoch): Promise<void> {
  e.late.settle();
  await rewind(e.run);
  e.running.close();
  e.running = emptySums(e.run); // what was seen before is not what these weights have learnt
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
