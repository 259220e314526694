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
import { type Loop, save, stop } from "./epoch.ts";
import { monitorOf } from "../run/best.ts";
import { judge, monitorField, valueIn } from "./monitor.ts";
import type { Pass } from "./blocks.ts";
import { termKey } from "./term_metrics.ts";
import { every, openEventLoopTurn, savesWholeEpochs } from "./pauses.ts";
import type { Trainer } from "./trainer.ts";
import { ended, type Ending } from "./stop.ts";
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

/** Null without validation data, and where none is due. The ends of all epochs have rank 0's running statistics. */
export async function evaluateEpoch(
  trainer: Trainer,
  epoch: number,
  turn: EventLoopTurn,
  isDue: boolean,
): Promise<Evaluation | null | EvaluationAborted> {
  if (trainer.data.val === null) return null;
  trainer.ranks?.shareBuffers();
  return isDue ? await evaluateNow(trainer, trainer.data.val, epoch, turn, false) : null;
}

async function evaluateNow(
  trainer: Trainer,
  val: Source,
  epoch: number,
  turn: EventLoopTurn,
  within: boolean,
): Promise<Evaluation | EvaluationAborted> {
  const { config: { training }, cursor, console, events, ranks } = trainer;
  const size = judgedAtOnce(training, trainer.pass.patches, val);
  const poll = openPoll(trainer, epoch, turn, "evaluating", size * (ranks?.team.world ?? 1));
  trainer.saver.hold();
  trainer.ema?.swap();
  const { rollout } = trainer.pass, rolled = rollout?.steps ?? 0;
  if (rollout) rollout.steps = rollout.most;
  try {
    const asked = { diagnoses: true, batches: training.eval_batches, compiled: trainer.evaluation };
    const evaluation = await evaluate(trainer.pass, val, trainer.feed, size, poll, ranks?.team, asked);
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
      ...monitorField(monitorOf(trainer.config), evaluation),
      samples,
      seconds,
    });
    trainer.pictures?.(trainer.pass, cursor.step);
    const number = epoch + 1, { better } = verdictOf(trainer, epoch, evaluation);
    if (better) trainer.confusion?.(cursor.step, sums);
    trainer.diagnose?.judged(trainer.pass, {
      ...{ step: cursor.step, epoch: number, samples, metrics, sums, better },
      last: !within && number >= training.epochs,
    });
    return evaluation;
  } catch (error) {
    if (error instanceof EvaluationAborted) return error;
    throw error;
  } finally {
    trainer.ema?.swap();
    if (rollout) rollout.steps = rolled;
  }
}

/**
 * Between two steps, where one is due: the steps that follow have the bits that they have without it. Returns how the run ends
 * where it stops here.
 */
export async function evaluateWithin(loop: Loop): Promise<Ending | null> {
  const { trainer, at, pace, turn, epoch, evaluations } = loop,
    { data: { val }, cursor, plan, ranks } = trainer;
  const isWithin = cursor.stepInEpoch > 0 && cursor.stepInEpoch < plan.stepsPerEpoch;
  if (val === null || !isWithin || !evaluations.isDue()) return null;
  pace.pause();
  at.evaluating();
  const giveBack = ranks?.lendBuffers();
  const evaluation = await evaluateNow(trainer, val, epoch, turn, true);
  giveBack?.();
  at.evaluated();
  if (evaluation instanceof EvaluationAborted) return await stop(loop, evaluation.reason);
  evaluations.done();
  const { kept, stop: early } = judgeEvaluation(trainer, epoch, evaluation);
  if (kept || early !== null) await save(loop, early === null ? "best" : "stop", kept);
  pace.resume();
  return early === null ? null : ended(early);
}

/** An interval of whole epochs leaves the ends of the others out. */
export const savesHere = ({ config: { training }, cursor, plan }: Trainer): boolean =>
  !savesWholeEpochs(training) || every(training.save_interval, plan)(cursor);

export function reportEpoch(
  trainer: Trainer,
  epoch: number,
  trained: { loss: number; metrics: Metrics; worst: Evaluation["worst"] },
  evaluation: Evaluation | null,
  { rate: lr, pace }: { readonly rate: number; readonly pace: number | null },
  time: { readonly seconds: number; readonly spent: Spent },
): void {
  const { cursor, config: { training }, data: { train } } = trainer;
  const bad = badSamples(trainer);
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
    samples_per_s: pace ?? undefined,
    memory_bytes: memory,
    bad_samples: bad || undefined,
    seconds: time.seconds,
    ...time.spent,
  });
  const samples = formatPlural(bad, "sample");
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
    beside: besideOf(trainer.pass, trained.metrics, evaluation?.metrics),
    worst: evaluation ? evaluation.worst : trained.worst,
    learningRate: lr,
    samplesPerSecond: pace,
    memoryBytes: memory,
  });
}

/** Those that were passed over so far. Each rank reads samples of its own, and all ranks call it. */
function badSamples({ feed, ranks, config: { data } }: Trainer): number {
  const own = feed.skipped();
  return ranks && data.bad_samples === "skip" ? ranks.team.reduce([own], "sum", "bad samples")[0] : own;
}

/** A user asked for these by name: a sum's terms, and metrics. */
function besideOf({ loss, metrics: own, requested }: Pass, trained: Metrics, evaluated: Metrics = {}) {
  const names = [
    ...(loss.terms ?? []).map(({ name }) => termKey(name)),
    ...own?.names ?? [],
    ...requested?.keys ?? [],
  ];
  return names.map((name) => ({ name, value: trained[name], valValue: evaluated[name] }))
    .filter(({ value, valValue }) => value !== undefined || valValue !== undefined);
}

const verdictOf = ({ cursor, config, plan }: Trainer, epoch: number, evaluation: Evaluation) => {
  const monitor = monitorOf(config), { valLoss } = evaluation, { step, stepInEpoch } = cursor;
  const within = stepInEpoch > 0 && stepInEpoch < plan.stepsPerEpoch;
  const now = { step, epoch: epoch + 1, within, value: valueIn(monitor, evaluation), valLoss };
  const { output: { keep_best: keep }, training: { early_stopping_patience: patience } } = config;
  return judge(cursor, monitor, now, { keep, patience });
};

/** Puts the best evaluations into the cursor. `kept`: it is one of them; `stop`: why the run ends early. */
export function judgeEvaluation(
  trainer: Trainer,
  epoch: number,
  evaluation: Evaluation | null,
): { kept: boolean; stop: string | null } {
  if (evaluation === null) return { kept: false, stop: null };
  const { cursor, cursor: { step }, config, warn } = trainer,
    { valLoss } = evaluation,
    { name } = monitorOf(config);
  const { best, judged, kept, stop } = verdictOf(trainer, epoch, evaluation);
  Object.assign(cursor, { best, judged, valLoss });
  const value = valueIn(monitorOf(config), evaluation), plateau = trainer.schedule.judged(cursor, value);
  if (plateau) cursor.plateau = plateau;
  const what = name === "val_loss" ? "validation loss" : name;
  if (!Number.isFinite(value)) { // the next steps may come to a number again
    warn(`The ${what} is ${value} after step ${step}, which is never the best.`, step);
  }
  const { early_stopping_patience: patience, eval_interval } = config.training;
  const of = eval_interval === "1ep" ? "epochs" : "evaluations";
  return { kept, stop: stop ? `Stopped early (no better ${what} for ${patience} ${of})` : null };
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
