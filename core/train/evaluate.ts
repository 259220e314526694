// Evaluates every sample of a source once.
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
import { answered, type Pass } from "./blocks.ts";
import type { CompiledEvaluation } from "./compiler.ts";
import type { Feed } from "./feed.ts";
import { ANOMALY_R2, measureOf, nothing, shiftedParts } from "./metrics.ts";
import { termKey, withTerms } from "./term_metrics.ts";
import type { Measure, Measured, Metrics } from "./measure.ts";
import { openRanking, type Ranking } from "./ranking.ts";
import { openTally, type Tally } from "./diagnostics.ts";
import { evaluationOutOfMemory } from "./memory.ts";
import { RunningMetrics } from "./running_metrics.ts";
import { finished, itemsOf, type MicroBatch } from "./micro_batch.ts";

type Worst = NonNullable<Measured["worst"]>;

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
  all: Source,
  feed: Feed,
  batchSize: number,
  poll: (done: number, of: number, between: boolean) => Promise<void> | void,
  team: Team | null = null,
  { diagnoses = false, batches: atMost = 0, compiled = null }: {
    readonly diagnoses?: boolean;
    readonly batches?: number;
    readonly compiled?: CompiledEvaluation | null;
  } = {},
): Promise<Evaluation> {
  const began = performance.now();
  const source = atMost > 0 ? firstOf(all, atMost * batchSize) : all;
  const measure = measureOf(source, {
    loss: pass.loss,
    full: true,
    own: pass.metrics,
    requested: pass.requested,
  });
  const { rank, world } = team ?? { rank: 0, world: 1 };
  const stride = batchSize * world, batches = Math.ceil(source.length / batchSize);
  const parts = team ? batches : 1; // ranks keep each batch's sums apart
  const mine = Math.ceil(batches / world), running = new RunningMetrics(measure, parts, mine);
  const ofAnomalies = source.anomalies ? measureOf(source, { loss: pass.loss, full: false }) : null;
  const anomalies = ofAnomalies && new RunningMetrics(ofAnomalies, parts, mine);
  const terms = pass.loss.terms ? new RunningMetrics(withTerms(nothing, pass.loss.terms), parts, mine) : null;
  const tally = diagnoses ? openTally(source, pass.loss, team === null) : null;
  const ranking = openRanking(source, pass.loss, deviceOf(pass), pass.requested?.list);
  const judges = { running, tally, ranking, anomalies, terms, compiled };
  compiled?.begin();
  pass.model.root.train(false);
  const fitted = fitting.get(source) ?? batchSize;
  let most = fitted, failed = true;
  try {
    const supply = feed.of(all);
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
      const place = { source, first, part, most };
      const judge = () => judgeInParts(pass, finished(supply.take()![0]), judges, place);
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
    terms?.close();
    if (failed) [tally, ranking].forEach((one) => one?.close());
    pass.model.root.train(true);
    if (most < fitted) fitting.set(source, most);
  }
  const { loss, metrics, worst } = ofAllRanks(running, team).result();
  const anomalyMetrics = anomalies && ofAllRanks(anomalies, team).result();
  const ofTerms = terms ? ofAllRanks(terms, team).result().metrics : {};
  const sums = tally?.sums(team) ?? null;
  tally?.close();
  const curves = ranking?.metrics(team) ?? {};
  ranking?.close();
  const seconds = (performance.now() - began) / 1000;
  return {
    valLoss: wholeLoss(pass.loss, ofTerms) ?? loss,
    metrics: {
      ...metrics,
      ...(anomalyMetrics && { [ANOMALY_R2]: anomalyMetrics.metrics[ANOMALY_R2] }),
      ...curves,
      ...ofTerms,
    },
    worst: anomalyMetrics ? anomalyMetrics.worst : worst,
    samples: source.length,
    sums,
    seconds,
    halvedTo: most < fitted ? most : null,
  };
}

/** Terms that count different items have means of their own; null where all count the same. */
const wholeLoss = ({ terms, refuseUneven }: Loss, values: Metrics): number | null =>
  terms && refuseUneven
    ? terms.reduce((sum, { name, weight }) => sum + weight * values[termKey(name)], 0)
    : null;

const firsts = new WeakMap<Source, Source>();

/** Baselines are of all samples, so that there is no skill among the metrics of a part. */
function firstOf(source: Source, samples: number): Source {
  if (samples >= source.length) return source;
  const known = firsts.get(source);
  if (known?.length === samples) return known;
  const first: Source = { ...source, length: samples, baselines: undefined };
  firsts.set(source, first);
  return first;
}

/** All that an evaluation can tell, before there is one. */
export function metricNames(pass: Pass, source: Source): string[] {
  const namesIn = (measure: Measure) =>
    Object.keys(measure.finish(new Float64Array(measure.size).fill(1), 1).metrics);
  const ranking = openRanking(source, pass.loss, "cpu", pass.requested?.list);
  ranking?.close();
  return [
    ...namesIn(
      measureOf(source, { loss: pass.loss, full: true, own: pass.metrics, requested: pass.requested }),
    ),
    ...(source.anomalies ? [ANOMALY_R2] : []),
    ...(ranking?.names ?? []),
    ...(pass.loss.terms?.map(({ name }) => termKey(name)) ?? []),
  ];
}

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

const deviceOf = ({ model: { root }, onGpu }: Pass): Device =>
  onGpu ? root.namedParameters()[0]?.[1].device ?? "cpu" : "cpu";

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
  { running, tally, ranking, anomalies, terms, compiled }: {
    readonly running: RunningMetrics;
    readonly tally: Tally | null;
    readonly ranking: Ranking | null;
    /** Anomalies are judged beside the values. */
    readonly anomalies: RunningMetrics | null;
    /** A sum's terms see what the loss sees. */
    readonly terms: RunningMetrics | null;
    readonly compiled: CompiledEvaluation | null;
  },
  { source, first, part, most }: Record<"first" | "part" | "most", number> & { readonly source: Source },
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
          const { input, target } = own;
          const { output, loss } = compiled?.judge(pass, input, target) ?? answered(pass, input, target);
          const whole = restored(source, pass.loss, output, own, first + from);
          const items = itemsOf(own, pass.loss);
          running.observe({ ...whole, loss, items, part });
          anomalies?.observe({ output, target, loss, items, part });
          terms?.observe({ output, target, loss, items, part });
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
  output = loss.answer?.(output) ?? output;
  if (!source.restore) return { output, target };
  const ids = Int32Array.from({ length: target.shape[0] }, (_, i) => first + i);
  return { output: source.restore(output, ids, shiftedParts(loss)), target: ownTargets(source, batch, ids) };
}
