// The training loop: epochs, evaluation, saves, early stopping.
import { EVALUATION, REST, SAVE, spentBetween } from "../run/account.ts";
import { openThroughput } from "./throughput.ts";
import {
  enough,
  openBoundaryRequests,
  openEventLoopTurn,
  openPauses,
  save,
  stopped,
  stoppedFor,
} from "./pauses.ts";
import { isUnfinished, placeInEpoch } from "./batches.ts";
import {
  beforeSecondStep,
  type Common,
  type Epoch,
  openEpoch,
  settle,
  sumsOf,
  trainSteps,
  wholeOf,
} from "./epoch.ts";
import { Cut, evaluateEpoch, reportEpoch } from "./evaluate.ts";
import type { Ending, Run } from "./run.ts";
import type { RunningMetrics } from "./running_metrics.ts";
import { UserError } from "../base/errors.ts";

// The training loop, epoch by epoch: how it begins, what comes after an epoch's steps, how it ends.

/** Ends when the last checkpoint is in place. */
export async function trainLoop(run: Run): Promise<Ending> {
  run.events.emit(run.times.since(run.cursor.step, run.cursor.samples));
  const ending = await train(run);
  await run.profile?.finish();
  run.together?.control.phase("save");
  run.account.lap(REST);
  await run.saver.settle();
  run.account.lap(SAVE);
  const { valLoss } = run.cursor;
  if (!ending.stopped && valLoss !== null && !Number.isFinite(valLoss)) {
    throw endsInNoNumber({ ...run.cursor, valLoss });
  }
  return ending;
}

async function train(run: Run): Promise<Ending> {
  const common = begin(run);
  const early = await askedBefore(common);
  if (early !== null) return await stopped(run, early);
  if (!unfinished(run)) {
    return { outcome: "Nothing to do (the run is finished)", stopped: false };
  }
  while (unfinished(run)) {
    const epoch = openEpoch(common);
    const ending = await trainSteps(epoch) ?? await endEpoch(epoch);
    if (ending !== null) return ending;
    common.pace.resume();
  }
  const outcome = enough(run) ? `Reached --max-steps ${run.config.training.max_steps}` : "Finished";
  return { outcome, stopped: false };
}

function begin(run: Run): Common {
  const supply = run.feed.of(run.train);
  const pace = openThroughput(), breath = openEventLoopTurn(), pauses = openPauses(run);
  const asked = openBoundaryRequests(run, pauses);
  Object.assign(run.cursor, placeInEpoch(run.cursor, run.plan, run.train.length));
  return { run, supply, pace, breath, pauses, asked, beforeStep: beforeSecondStep(run) };
}

const unfinished = ({ config, cursor }: Run): boolean => isUnfinished(config.training, cursor);

/** Why to stop before the first step. Ranks only pass on what they were asked for: they stop together, in a step. */
async function askedBefore({ run, breath }: Common): Promise<string | null> {
  await breath.take(); // what came while the run was put together
  if (!run.together) return unfinished(run) ? run.requests.stop() : null;
  run.together.wish(run.requests, false);
  return null;
}

/** Evaluation, report and save after an epoch's steps, or after the last of --max-steps. */
async function endEpoch(epoch: Epoch): Promise<Ending | null> {
  const { run, number, pace, breath, asked } = epoch;
  const { config: { training }, cursor, plan } = run;
  const trained = await cameTo(epoch);
  const evaluation = await evaluateEpoch(run, number, breath);
  run.account.lap(EVALUATION);
  if (evaluation instanceof Cut) return await stopped(run, evaluation.reason);
  if (cursor.stepInEpoch >= plan.stepsPerEpoch) {
    Object.assign(cursor, { epoch: number + 1, stepInEpoch: 0, sums: [] });
  }
  const now = evaluation && { epoch: number + 1, valLoss: evaluation.valLoss };
  const verdict = now && judgeEpoch(cursor.best, now, training.early_stopping_patience);
  if (verdict) {
    Object.assign(cursor, { best: verdict.best, valLoss: now.valLoss });
    if (!Number.isFinite(now.valLoss)) tellNoNumber(run, now.valLoss);
  }
  reportEpoch(
    run,
    number,
    trained,
    evaluation,
    pace.epochRate(),
    spentBetween(epoch.began, run.account.look()),
  );
  await save(run, "epoch", verdict?.better ?? false);
  if (verdict?.stop) return { outcome: earlyStop(training.early_stopping_patience), stopped: false };
  const { stop, save: due } = asked(true);
  if (due === "request") await save(run, due, false); // it came while the epoch's own was made
  return stop !== null && unfinished(run) ? stoppedFor(stop) : null;
}

function tellNoNumber({ console, events, cursor: { step } }: Run, valLoss: number): void {
  const message = noNumber(valLoss, step);
  console.warn(message);
  events.emit({ kind: "warning", step, message });
}

/** What an epoch's steps came to, over all ranks. */
async function cameTo(epoch: Epoch): Promise<ReturnType<RunningMetrics["result"]>> {
  const { run } = epoch;
  await settle(epoch);
  epoch.pace.pause();
  run.cursor.sums = sumsOf(run, epoch.running); // a stop during the evaluation: resuming begins with it
  const whole = wholeOf(run, epoch.running, run.cursor.sums);
  const result = whole.result();
  run.account.lap(REST);
  return result;
}

const earlyStop = (patience: number) => `Stopped early (no better validation loss for ${patience} epochs)`;

// Best validation loss so far, and whether patience has run out. What is not finite is never the best.

export interface Best {
  epoch: number;
  valLoss: number;
}

/** `patience` epochs without a better validation loss end the run; 0 never does. */
export function judgeEpoch(
  best: Best | null,
  now: Best,
  patience: number,
): { best: Best | null; better: boolean; stop: boolean } {
  const better = Number.isFinite(now.valLoss) && (best === null || now.valLoss < best.valLoss);
  if (better) return { best: now, better, stop: false };
  return { best, better, stop: patience > 0 && now.epoch - (best?.epoch ?? 0) >= patience };
}

/** What is said of an evaluation that came to no number while training goes on: its next steps may tell more. */
const noNumber = (valLoss: number, step: number): string =>
  `The validation loss is ${valLoss} after step ${step}, which is never the best.`;

/** A run that ends with such an evaluation has come to nothing, although its weights may still be finite. */
function endsInNoNumber({ valLoss, step, best }: {
  readonly valLoss: number;
  readonly step: number;
  readonly best: Best | null;
}): UserError {
  const kept = best === null
    ? "No epoch had a finite one, so there is no best checkpoint."
    : `The best checkpoint is still that of epoch ${best.epoch}.`;
  return new UserError(
    "numerics",
    `The validation loss is ${valLoss} after the last step (${step}): with the weights of now the model gives no ` +
      `number. ${kept} Try a lower --lr, --clip-norm 1, a longer --warmup, or look at the data.`,
  );
}
