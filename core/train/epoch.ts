// The loop works with these from epoch to epoch: the supply of batches, the epoch's metrics, the ways in which a step is
// taken, told and left, and who watches.
import { loggedSteps, placeInEpoch } from "./batches.ts";
import { openTakeStep } from "./captured_step.ts";
import { openDeferredMetrics } from "./deferred_metrics.ts";
import { EpochMetrics } from "./epoch_metrics.ts";
import { partsOfEpoch } from "./feed.ts";
import { rewind } from "./guards/spikes.ts";
import { beforeSecondStep } from "./memory.ts";
import { accounting, momentsFor, phases } from "./moments.ts";
import { openBoundaryRequests, openEventLoopTurn, openPauses } from "./pauses.ts";
import { openRunNoise } from "./finders/noise.ts";
import { setSteps } from "./schedule.ts";
import type { StepRequest } from "./step.ts";
import { openThroughput } from "./throughput.ts";
import type { Trainer } from "./trainer.ts";

export type Loop = ReturnType<typeof openLoop>;

export function openLoop(trainer: Trainer) {
  const { cursor, plan, config, account, pass, ranks, profile, gradients: { shards } } = trainer;
  const pauses = openPauses(trainer), pace = openThroughput(), noise = openRunNoise();
  Object.assign(cursor, placeInEpoch(cursor, plan, trainer.data.train.length));
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
    ...{ trainer, at, pace, pauses, metrics, request, tell },
    warnEmpty: () => metrics.warnEmpty(),
    supply: trainer.feed.of(trainer.data.train),
    turn: openEventLoopTurn(),
    /** The argument is false while data is waited for. */
    due: openBoundaryRequests(trainer, pauses),
    logged: loggedSteps(config.training, plan),
    /** Takes the step that is requested. */
    step: () => takeStep(request),
    /** The epoch under way, from 0. */
    epoch,
    told: tell(epoch),
    began: account.markTime(),
  };
}

export function beginEpoch(loop: Loop): void {
  const { trainer, supply, pace, metrics } = loop, { cursor } = trainer;
  loop.epoch = cursor.epoch;
  if (trainer.thaw?.(loop.epoch)) {
    trainer.console.line("What --freeze names is trained from here on, too (--freeze-until).");
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
