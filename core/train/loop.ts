// The training loop, in the order of events: epochs of steps; between two steps the stops, evaluations and saves that are due;
// at an epoch's end evaluation, report and save.
import { withoutKernelSearch } from "../../ffi/cuda.ts";
import { freeing } from "../../ffi/tensor.ts";
import { spentBetween } from "../run/account.ts";
import { isUnfinished } from "./batches.ts";
import { beginEpoch, goBack, type Loop, openLoop, save, settleEpoch, stop } from "./epoch.ts";
import {
  averageStatistics,
  evaluateEpoch,
  evaluateWithin,
  EvaluationAborted,
  judgeEvaluation,
  refuseNonFinite,
  reportEpoch,
  savesHere,
} from "./epoch_end.ts";
import { sharesOf } from "./micro_batch.ts";
import { StepAborted } from "./pauses.ts";
import type { StepTaken } from "./step.ts";
import { ended, type Ending, stoppedFor } from "./stop.ts";
import type { Trainer } from "./trainer.ts";
import type { Run } from "./launch.ts";

/** Signals and requests wait at most so long for data. */
const WAIT_MS = 50;

/** The last checkpoint is in place afterwards. */
export async function trainLoop(trainer: Trainer): Promise<Ending> {
  const { cursor, saver, events, times } = trainer;
  events.emit(times.since(cursor.step, cursor.samples));
  const loop = openLoop(trainer), ending = await trainEpochs(loop);
  await trainer.profile?.finish();
  loop.at.saving();
  await saver.settle();
  loop.at.saved();
  if (!ending.stopped) refuseNonFinite(cursor);
  return ending;
}

async function trainEpochs(loop: Loop): Promise<Ending> {
  const { trainer, turn, pace } = loop, { cursor, ranks, requests, config: { training } } = trainer;
  await turn.take(); // signals that came while the trainer was opened
  if (!isUnfinished(training, cursor)) {
    ranks?.request(requests, false);
    return ended("Nothing to do (the run is finished)");
  }
  if (ranks) ranks.request(requests, false); // ranks stop at the same place, in a step
  else {
    const reason = requests.stop();
    if (reason !== null) return await stop(loop, reason);
  }
  while (isUnfinished(training, cursor)) {
    beginEpoch(loop);
    const ending = await trainSteps(loop) ?? await endEpoch(loop);
    if (ending !== null) return ending;
    pace.resume();
  }
  return ended(enough(trainer) ? `Reached --max-steps ${training.max_steps}` : "Finished");
}

/** Returns how the run ends where it stops here. */
export async function trainSteps(loop: Loop): Promise<Ending | null> {
  const { trainer, at, supply, pauses, turn, metrics } = loop, { cursor, plan, guard } = trainer;
  const early = await evaluateWithin(loop); // a run that goes on may have been stopped in it
  if (early !== null) return early;
  while (cursor.stepInEpoch < plan.stepsPerEpoch) {
    const held = at.waiting(cursor.step);
    if (held) await held;
    const ready = supply.ready(WAIT_MS);
    const between = ready || pauses.endsNow(); // a step is due, or all ranks abort it
    if (between) {
      const aborted = trainStep(loop, ready);
      if (aborted !== null) return await abortStep(loop, aborted);
    }
    if (guard.pending !== null) await goBack(loop);
    if (between) at.over();
    if (!between || turn.due()) await turn.take();
    const due = loop.due(between);
    if (due.stop !== null || due.save !== null || due.evaluate || enough(trainer)) {
      await settleEpoch(loop);
      metrics.keep();
      if (due.stop !== null) return await stop(loop, due.stop);
      if (enough(trainer)) break;
      const early = await evaluateWithin(loop);
      if (early !== null) return early;
      if (due.save !== null && loop.savedAt !== cursor.step) await save(loop, due.save, false);
    }
  }
  return null;
}

/** Hot: only the numbers of the step before are read from the device. Returns where the step was aborted. */
function trainStep(loop: Loop, ready: boolean): StepAborted | null {
  const { trainer, at, supply, metrics, request } = loop;
  const { cursor, plan, ranks, pass: { loss }, schedule, optimizer } = trainer;
  const samples = Math.min(plan.global, trainer.data.train.length - cursor.stepInEpoch * plan.global);
  request.step = cursor.step;
  request.rate = schedule.rate(cursor);
  if (schedule.moves) optimizer.move!(schedule.moved(cursor.step)!);
  request.wantNorm = loop.logged(cursor.step + 1);
  request.passes = Math.ceil(Math.ceil(samples / (ranks?.team.world ?? 1)) / plan.micro);
  at.stepping(cursor.step, request.wantNorm);
  let taken: StepTaken;
  try {
    taken = freeing(() => {
      const batches = request.batches = ready ? supply.take()! : []; // none where all ranks abort this step
      at.fed(batches[0]?.input.shape[0] ?? 0);
      request.shares = ranks ? ranks.shares(batches, loss, loop.warnEmpty) : sharesOf(batches, loss);
      metrics.running.mark();
      loop.pauses.begin();
      return samples < plan.global ? withoutKernelSearch(loop.step) : loop.step();
    });
  } catch (thrown) {
    if (thrown instanceof StepAborted) return thrown;
    throw thrown;
  }
  cursor.step++;
  cursor.stepInEpoch++;
  cursor.samples += samples;
  at.stepped(cursor.step);
  if (cursor.stepInEpoch >= plan.stepsPerEpoch) trainer.swa?.endEpoch(cursor.epoch + 1);
  supply.queued();
  loop.told.push(taken, request, samples); // waits for the step before, so that the feed need not
  at.told();
  supply.ahead();
  at.ahead();
  loop.pace.step(samples);
  return null;
}

/** The step is undone, as if it had not begun. */
async function abortStep(loop: Loop, { reason, begun }: StepAborted): Promise<Ending> {
  const { cursor, console } = loop.trainer;
  loop.at.aborted();
  if (begun) console.line(`Step ${cursor.step + 1} is left in the middle, and will be done again.`);
  loop.pauses.undo();
  loop.metrics.running.undo();
  await settleEpoch(loop);
  loop.metrics.keep();
  return await stop(loop, reason);
}

async function endEpoch(loop: Loop): Promise<Ending | null> {
  const { trainer, at, pace, turn, metrics, epoch, evaluations } = loop;
  const { config: { training }, cursor, plan, account, schedule } = trainer;
  await settleEpoch(loop);
  pace.pause();
  metrics.keep(); // resuming after a stop in the evaluation begins with it
  const trained = metrics.result();
  at.evaluating();
  const isLast = enough(trainer) || epoch + 1 >= training.epochs, saves = isLast || savesHere(trainer);
  const evaluation = await averageStatistics(trainer, epoch, turn) ??
    await evaluateEpoch(trainer, epoch, turn, isLast || evaluations.isDue());
  at.evaluated();
  if (evaluation instanceof EvaluationAborted) return await stop(loop, evaluation.reason);
  evaluations.done();
  if (cursor.stepInEpoch >= plan.stepsPerEpoch) {
    Object.assign(cursor, { epoch: epoch + 1, stepInEpoch: 0, sums: [] });
  }
  const rate = schedule.rate({ ...cursor, step: Math.max(0, cursor.step - 1) });
  const { kept, stop: early } = judgeEvaluation(trainer, epoch, evaluation);
  const time = spentBetween(loop.began, account.markTime());
  reportEpoch(trainer, epoch, trained, evaluation, { rate, pace: pace.epochRate() }, time);
  const isDue = saves || kept || early !== null;
  const mayWait = isDue && !isLast && early === null && trainer.ranks === null; // ranks' clocks differ
  const waits = mayWait && await trainer.saver.putOff(kept);
  if (isDue && !waits) await save(loop, saves || early !== null ? "epoch" : "best", kept);
  if (early !== null) return ended(early);
  const due = loop.due(true);
  if (due.save === "request") await save(loop, due.save, false); // it came while the epoch's own was made
  if (due.stop === null || !isUnfinished(training, cursor)) return null;
  // Not every epoch has a save of its own, and one may have been put off.
  return waits || loop.savedAt !== cursor.step ? await stop(loop, due.stop) : stoppedFor(due.stop);
}

export const enough = ({ config: { training }, cursor }: Pick<Run, "config" | "cursor">): boolean =>
  training.max_steps > 0 && cursor.step >= training.max_steps;
