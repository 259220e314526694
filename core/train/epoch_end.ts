// The end of an epoch: its evaluation, in which a run may be stopped, the best epoch so far, and the report.
import type { Spent } from "../run/account.ts";
import { formatPlural } from "../base/format.ts";
import { UserError } from "../base/errors.ts";
import type { Source } from "../data/source/source.ts";
import { judgedAtOnce } from "./batches.ts";
import { evaluate, type Evaluation, lessAtOnce, skillNote } from "./evaluate.ts";
import { partsOfEpoch } from "./feed.ts";
import type { Metrics } from "./measure.ts";
import { ANOMALY_R2 } from "./metrics.ts";
import { openEventLoopTurn } from "./pauses.ts";
import { learningRate } from "./schedule.ts";
import type { Trainer } from "./trainer.ts";
import { hasStatistics, measureStatistics } from "./weight_average.ts";

type EventLoopTurn = ReturnType<typeof openEventLoopTurn>;

/** Sources whose evaluation has said what it can't compare with. */
const noted = new WeakSet<Source>();

/** A save does not wait for a long evaluation. */
export class EvaluationAborted {
  constructor(readonly reason: string) {}
}

type Poll = (done: number, of: number, between: boolean) => Promise<void>;

/** Shows how far it is, and throws `EvaluationAborted` where the run stops. A rank does `stride` of the work at once. */
function openPoll(trainer: Trainer, epoch: number, turn: EventLoopTurn, phase: string, stride: number): Poll {
  const { config: { training }, console, requests, ranks } = trainer;
  const stop = (between: boolean): string | null => {
    if (!ranks) return requests.stop();
    ranks.request(requests, false);
    const agreed = between ? ranks.control.agreed() : null; // a save comes at the end in any case
    return agreed?.what === "stop" ? agreed.reason : null;
  };
  /** The result is of no use where all ranks stop within the evaluation. */
  const given = (places: number): string | null => {
    const ahead = ranks?.control.ahead();
    return ahead?.what === "stop" && ahead.places <= places ? ahead.reason : null;
  };
  return async (done, of, between) => {
    console.progress({ epoch: epoch + 1, epochs: training.epochs, step: done, steps: of, phase });
    if (turn.due()) await turn.take();
    const reason = stop(between) ?? (between ? null : given(Math.ceil((of - done) / stride)));
    // Several ranks also meet after the last batch.
    if (reason !== null && (done < of || ranks)) throw new EvaluationAborted(reason);
  };
}

/** Averaged weights need statistics of their own: a pass over the training data. */
export async function averageStatistics(
  trainer: Trainer,
  epoch: number,
  turn: EventLoopTurn,
): Promise<null | EvaluationAborted> {
  const { swa, pass, ranks, plan, feed, gradients: { shards }, data: { train } } = trainer;
  if (!swa || swa.averaged === 0 || !hasStatistics(pass.model.root)) return null;
  const poll = openPoll(trainer, epoch, turn, "averaging", 1);
  trainer.saver.hold();
  swa.swap();
  try {
    const parts = partsOfEpoch(trainer, epoch, 0);
    await measureStatistics(
      pass,
      feed.of(train),
      parts,
      ranks?.team ?? null,
      shards?.count ?? 1,
      (done, between) => poll(done, plan.stepsPerEpoch, between),
    );
    return null;
  } catch (error) {
    if (error instanceof EvaluationAborted) return error;
    throw error;
  } finally {
    swa.swap();
  }
}

/** Null without validation data. */
export async function evaluateEpoch(
  trainer: Trainer,
  epoch: number,
  turn: EventLoopTurn,
): Promise<Evaluation | null | EvaluationAborted> {
  const { data: { val }, config: { training }, cursor, console, events, ranks } = trainer;
  if (val === null) return null;
  const size = judgedAtOnce(training, trainer.pass.patches, val);
  const poll = openPoll(trainer, epoch, turn, "evaluating", size * (ranks?.team.world ?? 1));
  ranks?.shareBuffers();
  trainer.saver.hold();
  trainer.ema?.swap();
  const { rollout } = trainer.pass;
  if (rollout) rollout.steps = rollout.most; // the next epoch sets its own
  try {
    const evaluation = await evaluate(trainer.pass, val, trainer.feed, size, poll, ranks?.team, true);
    const { valLoss, metrics, samples, sums, seconds, halvedTo } = evaluation;
    if (halvedTo !== null) console.warn(lessAtOnce(halvedTo, size));
    const note = skillNote(val, metrics);
    if (note !== null && !noted.has(val)) console.line(note);
    noted.add(val);
    events.emit({
      kind: "eval",
      step: cursor.step,
      epoch: epoch + 1,
      val_loss: valLoss,
      metrics,
      samples,
      seconds,
    });
    trainer.pictures?.(trainer.pass, cursor.step);
    const number = epoch + 1, better = valLoss < (cursor.best?.valLoss ?? Infinity);
    if (better) trainer.confusion?.(cursor.step, sums);
    trainer.diagnose?.(trainer.pass, {
      ...{ step: cursor.step, epoch: number, samples, metrics, sums, better },
      last: number >= training.epochs,
    });
    return evaluation;
  } catch (error) {
    if (error instanceof EvaluationAborted) return error;
    throw error;
  } finally {
    trainer.ema?.swap();
  }
}

export function reportEpoch(
  trainer: Trainer,
  epoch: number,
  trained: { loss: number; metrics: Metrics; worst: Evaluation["worst"] },
  evaluation: Evaluation | null,
  rate: number | null,
  time: { readonly seconds: number; readonly spent: Spent },
): void {
  const { cursor, config: { training }, data: { train } } = trainer;
  const lr = learningRate(trainer.schedule, Math.max(0, cursor.step - 1));
  const memory = trainer.memory();
  trainer.losses.epoch = { epoch: epoch + 1, loss: trained.loss };
  trainer.events.emit({
    kind: "epoch",
    step: cursor.step,
    epoch: epoch + 1,
    loss: trained.loss,
    metrics: trained.metrics,
    val_loss: evaluation?.valLoss,
    val_metrics: evaluation?.metrics,
    lr,
    samples_per_s: rate ?? undefined,
    memory_bytes: memory,
    bad_samples: trainer.feed.skipped() || undefined,
    seconds: time.seconds,
    ...time.spent,
  });
  const bad = trainer.feed.skipped(), samples = formatPlural(bad, "sample");
  const were = `${samples} that could not be used ${bad === 1 ? "was" : "were"} replaced so far`;
  if (bad > 0) trainer.warn(`${were}, each by the one after it (--bad-samples skip).`, cursor.step);
  const task = train.facts.task === "segmentation" ? "classification" : train.facts.task;
  const score = (metrics: Metrics | undefined) =>
    metrics?.accuracy ?? metrics?.[train.anomalies ? ANOMALY_R2 : "r2"] ?? metrics?.perplexity;
  trainer.console.epoch({
    epoch: epoch + 1,
    epochs: training.epochs,
    task,
    anomalies: train.anomalies,
    scaled: train.targetScale !== undefined,
    loss: trained.loss,
    score: score(trained.metrics),
    valLoss: evaluation?.valLoss,
    valScore: score(evaluation?.metrics),
    worst: evaluation ? evaluation.worst : trained.worst,
    learningRate: lr,
    samplesPerSecond: rate,
    memoryBytes: memory,
  });
}

/** A loss that is not finite never is the best. */
export interface Best {
  epoch: number;
  valLoss: number;
}

/** 0 never ends the run. */
export function judgeEpoch(
  best: Best | null,
  now: Best,
  patience: number,
): { best: Best | null; better: boolean; stop: boolean } {
  const better = Number.isFinite(now.valLoss) && (best === null || now.valLoss < best.valLoss);
  if (better) return { best: now, better, stop: false };
  return { best, better, stop: patience > 0 && now.epoch - (best?.epoch ?? 0) >= patience };
}

/** Puts the best epoch into the cursor. `better`: it is this one; `stop`: why the run ends early. */
export function judgeEvaluation(
  { cursor, config: { training: { early_stopping_patience: patience } }, warn }: Trainer,
  epoch: number,
  evaluation: Evaluation | null,
): { better: boolean; stop: string | null } {
  if (evaluation === null) return { better: false, stop: null };
  const { valLoss } = evaluation, { step } = cursor;
  const { best, better, stop } = judgeEpoch(cursor.best, { epoch: epoch + 1, valLoss }, patience);
  Object.assign(cursor, { best, valLoss });
  if (!Number.isFinite(valLoss)) { // the next steps may come to a number again
    warn(`The validation loss is ${valLoss} after step ${step}, which is never the best.`, step);
  }
  return { better, stop: stop ? `Stopped early (no better validation loss for ${patience} epochs)` : null };
}

/** The run has come to nothing, although its weights may be finite. */
export function refuseNonFinite({ valLoss, step, best }: Trainer["cursor"]): void {
  if (valLoss === null || Number.isFinite(valLoss)) return;
  const kept = best === null
    ? "No epoch had a finite one, so there is no best checkpoint."
    : `The best checkpoint is still that of epoch ${best.epoch}.`;
  throw new UserError(
    "numerics",
    `The validation loss is ${valLoss} after the last step (${step}): with the weights of now the model gives no ` +
      `number. ${kept} Try a lower --lr, --clip-norm 1, a longer --warmup, or look at the data.`,
  );
}
