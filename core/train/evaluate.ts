// Evaluates every validation sample once, and reports an epoch.
import { autocast } from "../../ffi/context.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { withoutKernelSearch } from "../../ffi/cuda.ts";
import { NativeError } from "../../ffi/errors.ts";
import { narrow } from "../../ffi/ops.ts";
import { type Device, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Loss } from "../models/losses.ts";
import { type Batch, ownTargets, plainPart, type Source } from "../data/source/source.ts";
import { lackNote } from "../data/source/climate.ts";
import type { Team } from "../ranks/team.ts";
import { judgedAtOnce } from "./batches.ts";
import { answersTo, outputOf, type Pass } from "./blocks.ts";
import type { Feed } from "./feed.ts";
import { openRanking, type Ranking } from "./ranking.ts";
import { ANOMALY_R2, measureOf, type Metrics, shiftedParts } from "./metrics.ts";
import { openTally, type Tally } from "./diagnostics.ts";
import { evaluationOutOfMemory } from "./memory.ts";
import { RunningMetrics, type Worst } from "./running_metrics.ts";
import { finished, itemsOf, type MicroBatch } from "./step.ts";
import { UserError } from "../base/errors.ts";
import { formatPlural } from "../base/format.ts";
import type { Spent } from "../run/account.ts";
import type { EventLoopTurn } from "./pauses.ts";
import type { Trainer } from "./prepare.ts";
import { learningRate } from "./schedule.ts";
import { partsOfEpoch } from "./epoch.ts";
import { hasStatistics, measureStatistics } from "./weight_average.ts";

export interface Evaluation {
  readonly valLoss: number;
  readonly metrics: Metrics;
  readonly worst: Worst | null;
  readonly samples: number;
  /** For diagnostics, where they are asked for. */
  readonly sums: Float64Array | null;
  readonly seconds: number;
  /** The most samples at once from here on; null where memory did not run short. */
  readonly halvedTo: number | null;
}

/** Longest wait for data before `poll` is called. */
const WAIT_MS = 50;

/**
 * `poll` is called as often on every rank between batches, and while data is waited for. Ranks take turns at
 * the batches, whose sums are added up in order, so that the result is that of one rank, to the bit.
 */
export async function evaluate(
  pass: Pass,
  source: Source,
  feed: Feed,
  batchSize: number,
  poll: (done: number, of: number, between: boolean) => Promise<void> | void,
  team: Team | null = null,
  diagnoses = false,
): Promise<Evaluation> {
  const began = performance.now();
  const measure = measureOf(source, { loss: pass.loss, full: true, own: pass.metrics });
  const { rank, world } = team ?? { rank: 0, world: 1 };
  const stride = batchSize * world, batches = Math.ceil(source.length / batchSize);
  const parts = team ? batches : 1; // ranks keep each batch's sums apart
  const running = new RunningMetrics(measure, parts);
  const ofAnomalies = source.anomalies ? measureOf(source, { loss: pass.loss, full: false }) : null;
  const anomalies = ofAnomalies && new RunningMetrics(ofAnomalies, parts);
  const tally = diagnoses ? openTally(source, pass.loss, team === null) : null;
  const ranking = openRanking(source, pass.loss, deviceOf(pass));
  pass.model.root.train(false);
  const fitted = fitting.get(source) ?? batchSize;
  let most = fitted, failed = true;
  try {
    const supply = feed.of(source);
    let next = rank * batchSize;
    supply.begin(() => {
      const from = next, count = Math.min(batchSize, source.length - from);
      next += stride;
      return count <= 0 ? null : [plainPart(Int32Array.from({ length: count }, (_, i) => from + i))];
    });
    for (let done = 0; done < source.length; done += stride) {
      const until = Math.min(done + stride, source.length);
      if (done + rank * batchSize >= source.length) { // the last batches are other ranks'
        await poll(until, source.length, true);
        break;
      }
      const part = team ? done / batchSize + rank : 0, first = done + rank * batchSize;
      while (!supply.ready(WAIT_MS)) await poll(done, source.length, false);
      const judged = { first, part, source, tally, ranking, anomalies };
      const judge = () => judgeInParts(pass, finished(supply.take()![0]), running, judged, most);
      scope(() => noGrad(() => most = withoutKernelSearch(judge)));
      supply.queued();
      supply.ahead();
      await poll(until, source.length, true);
    }
    failed = false;
  } catch (error) {
    throw evaluationOutOfMemory(error, batchSize);
  } finally {
    running.close();
    anomalies?.close();
    if (failed) [tally, ranking].forEach((one) => one?.close());
    pass.model.root.train(true);
    if (most < fitted) fitting.set(source, most);
  }
  const { loss, metrics, worst } = ofAllRanks(running, team).result();
  const apart = anomalies && ofAllRanks(anomalies, team).result();
  const sums = tally?.sums(team) ?? null;
  tally?.close();
  const curves = ranking?.metrics(team) ?? {};
  ranking?.close();
  const seconds = (performance.now() - began) / 1000;
  return {
    valLoss: loss,
    metrics: { ...metrics, ...(apart && { [ANOMALY_R2]: apart.metrics[ANOMALY_R2] }), ...curves },
    worst: apart ? apart.worst : worst,
    samples: source.length,
    sums,
    seconds,
    halvedTo: most < fitted ? most : null,
  };
}

/** Sources whose evaluation has said what it can't compare with. */
const noted = new WeakSet<Source>();

/** Why the metrics of a forecast have no skill over climatology, or not for each output; null where they have. */
export function skillNote(source: Source, metrics: Metrics): string | null {
  const baselines = "skill_persistence" in metrics ? source.baselines?.(null) : null; // they are computed already
  return baselines ? lackNote(baselines) : null;
}

/** A batch is one rank's: the others add zeros, which change no bit. */
function ofAllRanks(running: RunningMetrics, team: Team | null): RunningMetrics {
  if (!team) return running;
  const all = new RunningMetrics(running.measure);
  all.restore(team.reduce(running.sums(), "sum", "evaluation"));
  return all;
}

const deviceOf = ({ model: { root } }: Pass): Device => root.namedParameters()[0]?.[1].device ?? "cpu";

export const lessAtOnce = (rows: number, batchSize: number): string =>
  `An evaluation's batch of ${batchSize} did not fit in memory: it goes on with ${rows} samples at a time, to the same ` +
  `figures. --set training.eval_batch_size=${rows} saves the attempt.`;

const fitting = new WeakMap<Source, number>();

/**
 * A batch that does not fit in memory is halved, and so are later ones. Sums over samples have the same
 * result. Returns the size that fitted.
 */
function judgeInParts(
  pass: Pass,
  batch: MicroBatch,
  running: RunningMetrics,
  { first, part, source, tally, ranking, anomalies }: {
    readonly first: number;
    readonly part: number;
    readonly source: Source;
    readonly tally: Tally | null;
    readonly ranking: Ranking | null;
    /** Anomalies are judged beside the values. */
    readonly anomalies: RunningMetrics | null;
  },
  most: number,
): number {
  const { input, target, unscaled } = batch, length = target.shape[0];
  for (let from = 0; from < length;) {
    const count = Math.min(most, length - from);
    try {
      scope(() => {
        const own = count === length ? batch : {
          input: narrow(input, 0, from, count),
          target: narrow(target, 0, from, count),
          ...(unscaled && { unscaled: narrow(unscaled, 0, from, count) }),
        };
        pass.begin?.(
          first + from,
          Int32Array.from({ length: count }, (_, i) => idOf(source, first + from + i)),
        );
        autocast(pass.cast, pass.onGpu, () => {
          const output = outputOf(answersTo(pass, own.input)), { target } = own;
          const loss = pass.loss.apply(output, target);
          const whole = restored(source, pass.loss, output, own, first + from);
          const items = itemsOf(own, pass.loss);
          running.observe({ ...whole, loss, items, part });
          anomalies?.observe({ output, target, loss, items, part });
          tally?.observe(whole.output, whole.target);
          ranking?.observe(first + from, whole.output, whole.target);
        });
      });
      from += count;
    } catch (error) {
      if (count === 1 || !(error instanceof NativeError && error.outOfMemory)) throw error;
      most = Math.ceil(count / 2);
    }
  }
  return most;
}

const idOf = ({ indices }: Source, place: number): number => indices?.[place] ?? place;

/** Metrics are of the values themselves, and not of anomalies. */
function restored(source: Source, loss: Loss, output: Tensor, batch: Batch, first: number) {
  const { target } = batch;
  if (!source.restore) return { output, target };
  const ids = Int32Array.from({ length: target.shape[0] }, (_, i) => first + i);
  return { output: source.restore(output, ids, shiftedParts(loss)), target: ownTargets(source, batch, ids) };
}

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
    ranks.wish(requests, false);
    const agreed = between ? ranks.control.here() : null; // a save comes at the end in any case
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
  ranks?.control.phase("evaluation");
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
  ranks?.control.phase("evaluation");
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
  warnSkipped(trainer);
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

function warnSkipped({ feed, console, events, cursor }: Trainer): void {
  const skipped = feed.skipped();
  if (skipped === 0) return;
  const message =
    `${formatPlural(skipped, "sample")} that could not be used ${skipped === 1 ? "was" : "were"} ` +
    "replaced so far, each by the one after it (--bad-samples skip).";
  console.warn(message);
  events.emit({ kind: "warning", step: cursor.step, message });
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

export const earlyStop = (patience: number): string =>
  `Stopped early (no better validation loss for ${patience} epochs)`;

/** The next steps may come to a number again. */
export function warnNonFinite({ console, events, cursor: { step } }: Trainer, valLoss: number): void {
  if (Number.isFinite(valLoss)) return;
  const message = `The validation loss is ${valLoss} after step ${step}, which is never the best.`;
  console.warn(message);
  events.emit({ kind: "warning", step, message });
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
