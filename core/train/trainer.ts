// The training loop takes the next batch, a training step, requests and saves, step by step; each epoch ends
// with evaluation, report and save.
import { withoutKernelSearch } from "../../ffi/cuda.ts";
import { scope } from "../../ffi/tensor.ts";
import { COPY, EVALUATION, REST, SAVE, spentBetween } from "../run/account.ts";
import { isUnfinished } from "./batches.ts";
import { abortStep, beginEpoch, goBack, type Loop, openLoop, settle, sumsOf, wholeOf } from "./epoch.ts";
import {
  averageStatistics,
  earlyStop,
  evaluateEpoch,
  EvaluationAborted,
  judgeEpoch,
  refuseNonFinite,
  reportEpoch,
  warnNonFinite,
} from "./evaluate.ts";
import { ended, enough, save, StepAborted, stopped, stoppedFor } from "./pauses.ts";
import type { Ending, Trainer } from "./prepare.ts";
import { learningRate } from "./schedule.ts";
import { sharesOf, type StepTaken } from "./step.ts";

/** Signals and requests wait at most so long for data. */
const WAIT_MS = 50;

/** The last checkpoint is in place afterwards. */
export async function trainLoop(trainer: Trainer): Promise<Ending> {
  const { account, cursor, saver } = trainer;
  trainer.events.emit(trainer.times.since(cursor.step, cursor.samples));
  const ending = await trainEpochs(trainer);
  await trainer.profile?.finish();
  trainer.ranks?.control.phase("save");
  account.lap(REST);
  await saver.settle();
  account.lap(SAVE);
  if (!ending.stopped) refuseNonFinite(cursor);
  return ending;
}

async function trainEpochs(trainer: Trainer): Promise<Ending> {
  const { cursor, config: { training } } = trainer;
  const loop = openLoop(trainer);
  await loop.turn.take(); // signals that came while the trainer was opened
  if (trainer.ranks) trainer.ranks.wish(trainer.requests, false); // ranks stop at the same place, in a step
  else if (isUnfinished(training, cursor)) {
    const stop = trainer.requests.stop();
    if (stop !== null) return await stopped(trainer, stop);
  }
  if (!isUnfinished(training, cursor)) {
    return ended("Nothing to do (the run is finished)");
  }
  while (isUnfinished(training, cursor)) {
    beginEpoch(loop);
    const ending = await trainSteps(loop) ?? await endEpoch(loop);
    if (ending !== null) return ending;
    loop.pace.resume();
  }
  return ended(enough(trainer) ? `Reached --max-steps ${training.max_steps}` : "Finished");
}

/** Returns how the run ends where it stops here. */
export async function trainSteps(loop: Loop): Promise<Ending | null> {
  const { trainer, supply, pauses } = loop;
  const { cursor, plan, ranks, account, guard, profile } = trainer;
  while (cursor.stepInEpoch < plan.stepsPerEpoch) {
    ranks?.control.phase("data.next");
    account.lap(REST);
    if (profile?.at(cursor.step)) await profile.finish();
    const ready = supply.ready(WAIT_MS);
    const between = ready || pauses.endsHere(); // a step is due, or all ranks abort it
    if (between) {
      loop.beforeStep();
      const aborted = trainStep(loop, ready);
      if (aborted !== null) return await abortStep(loop, aborted);
    }
    if (guard.pending !== null) await goBack(loop);
    if (between) ranks?.stepped(trainer);
    if (!between || loop.turn.due()) await loop.turn.take();
    const due = loop.due(between);
    if (due.stop !== null || due.save !== null || enough(trainer)) {
      await settle(loop);
      cursor.sums = sumsOf(trainer, loop.running);
      if (due.stop !== null) return await stopped(trainer, due.stop);
      if (enough(trainer)) break;
      if (due.save !== null) await save(trainer, due.save, false);
    }
  }
  return null;
}

/** Hot: only deferred metrics read from the device. Returns where the step was aborted. */
function trainStep(loop: Loop, ready: boolean): StepAborted | null {
  const { trainer, supply, pauses, deferred, pace } = loop;
  const { cursor, plan, ranks, account } = trainer;
  ranks?.control.phase("forward");
  const rate = learningRate(trainer.schedule, cursor.step);
  const log = loop.logged(cursor.step + 1);
  const samples = Math.min(plan.global, trainer.data.train.length - cursor.stepInEpoch * plan.global);
  const passes = Math.ceil(Math.ceil(samples / (ranks?.team.world ?? 1)) / plan.micro);
  let taken: StepTaken;
  try {
    taken = scope(() => {
      const batches = ready ? supply.take()! : []; // none where all ranks abort this step
      account.lap(COPY);
      trainer.flops.before(batches[0]?.input.shape[0] ?? 0);
      const { loss } = trainer.pass;
      const shares = ranks ? ranks.shares(batches, loss, loop.warnEmpty) : sharesOf(batches, loss);
      loop.running.mark();
      pauses.begin();
      loop.noise.begin(cursor.step, log);
      const take = () => loop.takeStep(batches, shares, rate, log, cursor.step, passes);
      return samples < plan.global ? withoutKernelSearch(take) : take();
    });
  } catch (thrown) {
    if (thrown instanceof StepAborted) return thrown;
    throw thrown;
  }
  cursor.step++;
  ranks?.control.step(cursor.step);
  cursor.stepInEpoch++;
  cursor.samples += samples;
  if (cursor.stepInEpoch >= plan.stepsPerEpoch) trainer.swa?.endEpoch(cursor.epoch + 1);
  supply.queued();
  deferred.push(taken, rate, log, loop.noise.taken(samples)); // waits for the step before, so that the feed need not
  account.lap(REST);
  supply.ahead();
  account.lap(COPY);
  pace.step(samples);
  return null;
}

async function endEpoch(loop: Loop): Promise<Ending | null> {
  const { trainer, number, pace } = loop;
  const { config: { training }, cursor, plan, account } = trainer;
  await settle(loop);
  pace.pause();
  cursor.sums = sumsOf(trainer, loop.running); // resuming after a stop in the evaluation begins with it
  const trained = wholeOf(trainer, loop.running, cursor.sums).result();
  account.lap(REST);
  const evaluation = await averageStatistics(trainer, number, loop.turn) ??
    await evaluateEpoch(trainer, number, loop.turn);
  account.lap(EVALUATION);
  if (evaluation instanceof EvaluationAborted) return await stopped(trainer, evaluation.reason);
  if (cursor.stepInEpoch >= plan.stepsPerEpoch) {
    Object.assign(cursor, { epoch: number + 1, stepInEpoch: 0, sums: [] });
  }
  const verdict = evaluation &&
    judgeEpoch(
      cursor.best,
      { epoch: number + 1, valLoss: evaluation.valLoss },
      training.early_stopping_patience,
    );
  if (verdict) {
    Object.assign(cursor, { best: verdict.best, valLoss: evaluation.valLoss });
    warnNonFinite(trainer, evaluation.valLoss);
  }
  const time = spentBetween(loop.began, account.look());
  reportEpoch(trainer, number, trained, evaluation, pace.epochRate(), time);
  await save(trainer, "epoch", verdict?.better ?? false);
  if (verdict?.stop) return ended(earlyStop(training.early_stopping_patience));
  const due = loop.due(true);
  if (due.save === "request") await save(trainer, due.save, false); // it came while the epoch's own was made
  return due.stop !== null && isUnfinished(training, cursor) ? stoppedFor(due.stop) : null;
}
