// The loop works with these from epoch to epoch: the supply of batches, the epoch's metrics, the ways in which a step is
// taken, told and left, and who watches.
import { keepAllFreedMemory } from "../../ffi/library.ts";
import type { Control } from "../ranks/control/control.ts";
import { type Account, COMPUTE, COPY, EVALUATION, OPTIMIZER, REST, SAVE } from "../run/account.ts";
import { ofSteps } from "../data/source/rollout.ts";
import { freeMemory } from "../base/memory.ts";
import { type BatchPlan, placeInEpoch, stepsInAll } from "./batches.ts";
import { openTakeStep } from "./captured_step.ts";
import { openDeferredMetrics } from "./deferred_metrics.ts";
import { partsOfEpoch } from "./feed.ts";
import type { Guard } from "./guards/spikes.ts";
import { momentsFor, type Observer } from "./moments.ts";
import { openBoundaryRequests, openEvaluations, openEventLoopTurn, openPauses } from "./pauses.ts";
import { openRunNoise } from "./finders/noise.ts";
import { setSteps } from "./schedule.ts";
import { type Ending, stoppedFor } from "./stop.ts";
import type { StepRequest } from "./step.ts";
import { openThroughput } from "./throughput.ts";
import { thawing } from "./trained_parameters.ts";
import type { Trainer } from "./trainer.ts";
import type { Outcome } from "./blocks.ts";
import { itemsOf, type MicroBatch, type Shards } from "./micro_batch.ts";
import { measureOf } from "./metrics.ts";
import { RunningMetrics } from "./running_metrics.ts";
import type { Run } from "./launch.ts";

export type Loop = ReturnType<typeof openLoop>;

export function openLoop(trainer: Trainer) {
  const { cursor, plan, config, account, pass, ranks, profile, gradients: { shards } } = trainer;
  const pauses = openPauses(trainer), pace = openThroughput(), noise = openRunNoise();
  Object.assign(cursor, placeInEpoch(cursor, plan, trainer.data.train.length));
  const evaluations = openEvaluations(trainer);
  const metrics = new EpochMetrics(trainer);
  const at = momentsFor([
    ranks && phases(ranks.control),
    accounting(account, pass.onGpu),
    profile && { waiting: (step) => profile.at(step) ? profile.finish() : null },
    { stepping: beforeSecondStep(trainer), fed: trainer.flops.before },
    { stepping: noise.begin, aborted: () => noise.begin(cursor.step, false) },
    ranks && { over: () => ranks.stepped(trainer) },
  ]);
  const watch = {
    metrics,
    pauses,
    observe: metrics.observe.bind(metrics),
    first: shards ? null : noise.first, // a shard is no part of the step's gradient by itself
  };
  const request: StepRequest = { batches: [], shares: [], rate: 0, wantNorm: false, step: 0, passes: 0 };
  const takeStep = openTakeStep({ ...trainer, at }, watch), { epoch } = cursor;
  const tell = (epoch: number) => openDeferredMetrics(trainer, epoch, { pace, noise, at });
  return {
    ...{ trainer, at, pace, pauses, metrics, request, tell, evaluations },
    warnEmpty: () => metrics.warnEmpty(),
    supply: trainer.feed.of(trainer.data.train),
    turn: openEventLoopTurn(),
    /** The argument is false while data is waited for. */
    due: openBoundaryRequests(trainer, pauses, evaluations),
    logged: loggedSteps(config.training, plan),
    /** Takes the step that is requested. */
    step: () => takeStep(request),
    /** The epoch under way, from 0. */
    epoch,
    told: tell(epoch),
    /** The last save was of this step. An interval's may be left out, or fail, and does not count. */
    savedAt: -1,
    began: account.markTime(),
  };
}

export function beginEpoch(loop: Loop): void {
  const { trainer, supply, pace, metrics } = loop, { cursor } = trainer;
  loop.epoch = cursor.epoch;
  if (trainer.thaw?.(loop.epoch)) {
    const { training } = trainer.config, what = training.unfreeze.length > 0 ? "More of what" : "What";
    trainer.console.line(`${what} --freeze names is trained from here on, too (${thawing(training)}).`);
  }
  setSteps(trainer, loop.epoch);
  metrics.begin();
  loop.told = loop.tell(loop.epoch);
  loop.began = trainer.account.markTime();
  pace.startEpoch();
  supply.begin(partsOfEpoch(trainer, loop.epoch, cursor.stepInEpoch)); // the feed knows the samples of these steps
}

/** A save or report of the epoch needs the last step's loss. */
export async function settleEpoch(loop: Loop): Promise<void> {
  loop.told.settle();
  if (loop.trainer.guard.pending !== null) await goBack(loop);
}

/** To the last checkpoint, after a loss that jumped (--on-spike rewind). */
export async function goBack(loop: Loop): Promise<void> {
  loop.told.settle();
  loop.at.rewinding();
  await rewind(loop.trainer);
  loop.metrics.forget();
}

export async function save(loop: Loop, reason: string, best: boolean): Promise<void> {
  const { trainer, at } = loop;
  at.saving();
  trainer.keepRefusals();
  await trainer.saver.save(reason, best);
  if (reason !== "interval") loop.savedAt = trainer.cursor.step;
  at.saved();
}

export async function stop(loop: Loop, reason: string): Promise<Ending> {
  await save(loop, "stop", false);
  return stoppedFor(reason);
}

/** The account gives the time since the last moment to what it was spent for. */
export function accounting({ lap }: Pick<Account, "lap">, onGpu: boolean): Observer {
  const rest = () => lap(REST), copy = () => lap(COPY), update = () => lap(OPTIMIZER), save = () => lap(SAVE);
  return {
    waiting: rest,
    fed: copy,
    reduced: () => lap(COMPUTE),
    clipped: update,
    held: save,
    updated: update,
    ...(onGpu && { arrived: () => lap(COMPUTE) }),
    told: rest,
    ahead: copy,
    evaluating: rest,
    evaluated: () => lap(EVALUATION),
    saving: rest,
    saved: save,
  };
}

/** The control plane knows what a rank is at, and tells of those that are late. */
export const phases = ({ phase, step }: Pick<Control, "phase" | "step">): Observer => ({
  waiting: () => phase("data.next"),
  stepping: () => phase("forward"),
  stepped: step,
  rewinding: () => phase("starting"),
  evaluating: () => phase("evaluation"),
  saving: () => phase("save"),
});

/** The parts of a run whose metrics they are. */
interface Measured extends Pick<Run, "data" | "pass" | "cursor" | "warn"> {
  readonly gradients: { readonly shards: Shards | null };
  readonly ranks: {
    readonly team: { readonly rank: number };
    sumsOf(running: RunningMetrics): number[];
  } | null;
}

class EpochMetrics {
  readonly #run: Measured;
  #warned = false;
  running: RunningMetrics;

  constructor(run: Measured) {
    this.#run = run;
    this.running = emptySums(run);
  }

  /** An epoch begins, or goes on from a checkpoint. */
  begin(): void {
    this.running = sumsSoFar(this.#run);
  }

  observe({ output, loss }: Outcome, batch: MicroBatch): void {
    const { target, shard: part } = batch;
    this.running.observe({ output, target, loss, items: this.itemsOf(batch), part });
  }

  itemsOf(batch: MicroBatch): number {
    const items = itemsOf(batch, this.#run.pass.loss);
    if (items === 0) this.warnEmpty(); // it is computed only where the whole step has none
    return items;
  }

  /** A step without any target that counts is told once. */
  warnEmpty(): void {
    if (this.#warned) return;
    this.#warned = true;
    const { cursor, warn } = this.#run, step = cursor.step + 1;
    const none = `Step ${step} has no target that counts: all are missing or of the ignored class`;
    warn(`${none}, so its gradient is zero. Later ones are not reported.`, step);
  }

  /** The weights that had learnt from it are gone. */
  forget(): void {
    this.running.close();
    this.running = emptySums(this.#run);
  }

  /** A save has the sums of all ranks. Every rank calls it. */
  keep(): void {
    this.#run.cursor.sums = sumsOf(this.#run, this.running);
  }

  /** From what was kept, of all ranks. */
  result() {
    return wholeMetrics(this.#run, this.running, this.#run.cursor.sums).result();
  }
}

/** With --deterministic=world each virtual shard has its own sums, which are added in the tree's order. */
export const emptySums = (
  { data: { train }, gradients: { shards }, pass }: Pick<Measured, "data" | "gradients" | "pass">,
): RunningMetrics =>
  new RunningMetrics(
    measureOf(pass.rollout ? ofSteps(train, pass.rollout.steps, pass.rollout.most) : train, {
      loss: pass.loss,
      full: false,
      own: pass.metrics,
    }),
    shards?.count ?? 1,
  );

export function sumsSoFar(run: Measured): RunningMetrics {
  const { cursor, gradients: { shards }, ranks } = run, running = emptySums(run);
  if (cursor.stepInEpoch === 0) return running;
  const all = cursor.sums, rank = ranks?.team.rank ?? 0;
  const same = shards && all.length === running.sums().length; // the run may have had other shards
  running.restore(same ? ownPart(all, shards) : rank === 0 ? all : []);
  return running;
}

/** Every rank calls it. */
export const sumsOf = ({ ranks }: Pick<Measured, "ranks">, running: RunningMetrics): number[] =>
  ranks?.sumsOf(running) ?? running.sums();

/** `sums` are those of all ranks. */
export function wholeMetrics(
  run: Measured,
  running: RunningMetrics,
  sums: readonly number[],
): RunningMetrics {
  if (!run.ranks) return running;
  const whole = emptySums(run);
  whole.restore(sums);
  return whole;
}

function ownPart(sums: readonly number[], { count, own: { from, to } }: Shards): readonly number[] {
  const size = sums.length / count;
  return sums.map((value, i) => i >= from * size && i < to * size ? value : 0);
}

/** These would delay the first step, or depend on the memory that it takes. */
export function beforeSecondStep(
  { saver, pass, ranksHere }: Pick<Run, "pass" | "ranksHere"> & { readonly saver: { ready(): void } },
): () => void {
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

/** A short run still logs so many steps. */
const LEAST_LOGGED = 10;

export function loggedSteps(
  training: { readonly epochs: number; readonly max_steps: number; readonly log_interval: number },
  plan: Pick<BatchPlan, "stepsPerEpoch">,
): (step: number) => boolean {
  const steps = stepsInAll(training, plan), { log_interval: set } = training;
  const interval = steps >= set ? set : Math.max(1, Math.floor(steps / LEAST_LOGGED));
  return (step) => step % interval === 0 || step === steps;
}

/** Null without a checkpoint. */
type GoBack = () => { step: number; path: string } | null;

interface Rewound extends Pick<Run, "cursor" | "warn" | "events"> {
  readonly guard: Guard;
  readonly goBack: GoBack;
  readonly saver: { settle(): Promise<void> };
}

async function rewind({ guard, cursor, events, warn, saver, goBack }: Rewound): Promise<void> {
  const spike = guard.pending!;
  await saver.settle().catch(() => {}); // the saver has reported a failure
  const back = goBack();
  if (back === null) {
    guard.pending = null;
    const none = `${spike.message}. There is no checkpoint to go back to yet (--on-spike rewind).`;
    return warn(none, undefined, "spike");
  }
  guard.wentBack(back.step);
  const message = `${spike.message}: going back to the weights of step ${back.step}; the batches of steps ` +
    `${back.step + 1} to ${cursor.step} are left out (--on-spike rewind).`;
  events.emit({
    kind: "rewind",
    step: cursor.step,
    epoch: cursor.epoch + 1,
    to_step: back.step,
    path: back.path,
    reason: spike.message,
  });
  warn(message, spike.step, "spike");
}
