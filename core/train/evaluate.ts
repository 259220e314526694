// Evaluates every sample of a source once; and the area under the ROC curve, for which an evaluation's scores are held
// all at once.
import { autocast } from "../../ffi/context.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { withoutKernelSearch } from "../../ffi/cuda.ts";
import { NativeError } from "../../ffi/errors.ts";
import { argmax, cat, copy_, narrow, reshape, toDtype } from "../../ffi/ops.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { toNumbers, zeros } from "../../ffi/make.ts";
import type { Loss } from "../models/losses.ts";
import { isSoft } from "../models/targets.ts";
import { type Batch, ownTargets, plainPart, type Source } from "../data/source/source.ts";
import { lackNote } from "../data/source/climate.ts";
import type { Team } from "../ranks/team.ts";
import { answersTo, outputOf, type Pass } from "./blocks.ts";
import type { Feed } from "./feed.ts";
import { ANOMALY_R2, measureOf, shiftedParts } from "./metrics.ts";
import type { Measure, Measured, Metrics } from "./measure.ts";
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
  { diagnoses = false, batches: atMost = 0 }: { readonly diagnoses?: boolean; readonly batches?: number } =
    {},
): Promise<Evaluation> {
  const began = performance.now();
  const source = atMost > 0 ? firstOf(all, atMost * batchSize) : all;
  const measure = measureOf(source, { loss: pass.loss, full: true, own: pass.metrics });
  const { rank, world } = team ?? { rank: 0, world: 1 };
  const stride = batchSize * world, batches = Math.ceil(source.length / batchSize);
  const parts = team ? batches : 1; // ranks keep each batch's sums apart
  const mine = Math.ceil(batches / world), running = new RunningMetrics(measure, parts, mine);
  const ofAnomalies = source.anomalies ? measureOf(source, { loss: pass.loss, full: false }) : null;
  const anomalies = ofAnomalies && new RunningMetrics(ofAnomalies, parts, mine);
  const tally = diagnoses ? openTally(source, pass.loss, team === null) : null;
  const ranking = openRanking(source, pass.loss, deviceOf(pass));
  const judges = { running, tally, ranking, anomalies };
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
    if (failed) [tally, ranking].forEach((one) => one?.close());
    pass.model.root.train(true);
    if (most < fitted) fitting.set(source, most);
  }
  const { loss, metrics, worst } = ofAllRanks(running, team).result();
  const anomalyMetrics = anomalies && ofAllRanks(anomalies, team).result();
  const sums = tally?.sums(team) ?? null;
  tally?.close();
  const curves = ranking?.metrics(team) ?? {};
  ranking?.close();
  const seconds = (performance.now() - began) / 1000;
  return {
    valLoss: loss,
    metrics: {
      ...metrics,
      ...(anomalyMetrics && { [ANOMALY_R2]: anomalyMetrics.metrics[ANOMALY_R2] }),
      ...curves,
    },
    worst: anomalyMetrics ? anomalyMetrics.worst : worst,
    samples: source.length,
    sums,
    seconds,
    halvedTo: most < fitted ? most : null,
  };
}

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
  const ranking = openRanking(source, pass.loss, "cpu");
  ranking?.close();
  return [
    ...namesIn(measureOf(source, { loss: pass.loss, full: true, own: pass.metrics })),
    ...(source.anomalies ? [ANOMALY_R2] : []),
    ...(ranking ? ["auroc"] : []),
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
  { running, tally, ranking, anomalies }: {
    readonly running: RunningMetrics;
    readonly tally: Tally | null;
    readonly ranking: Ranking | null;
    /** Anomalies are judged beside the values. */
    readonly anomalies: RunningMetrics | null;
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

/** All scores of an evaluation. */
interface Ranking {
  /** `first` is the number of the first sample. */
  observe(first: number, output: Tensor, target: Tensor): void;
  /** All ranks call it. Empty where no class can be told from the others. */
  metrics(team: Team | null): Record<string, number>;
  close(): void;
}

/** Scores and labels that are held at once, 16 MiB of them. */
const MOST_HELD = 2 ** 21;

type RankedLoss = Pick<Loss, "name" | "like" | "ignored">;

/** Null where a sample has no class, or where there are too many scores to hold. */
export function openRanking({ facts, length }: Source, loss: RankedLoss, device: Device): Ranking | null {
  const name = loss.like ?? loss.name, oneLogit = name === "bce";
  if (facts.task !== "classification" || facts.targetless || !(oneLogit || name === "cross_entropy")) {
    return null;
  }
  const width = oneLogit ? 1 : facts.outputs, row = width + 1;
  if (length * row > MOST_HELD || facts.outputs < 2 && !oneLogit) return null;
  const buffer = keep(zeros([length, row], { dtype: "f64", device }));
  let odd = false;
  return {
    observe(first, output, target) {
      const count = target.shape[0];
      odd ||= output.numel !== count * width;
      if (odd) return;
      scope(() => {
        const labels = isSoft(target) && target.shape[1] > 1 ? argmax(target, 1) : target;
        const parts = [reshape(output, [count, width]), reshape(labels, [count, 1])];
        copy_(narrow(buffer, 0, first, count), cat(parts.map((t) => toDtype(t, "f64")), 1));
      });
    },
    metrics(team) {
      const [strange] = team ? team.reduce([odd ? 1 : 0], "max", "evaluation") : [odd ? 1 : 0];
      if (strange > 0) return {};
      // Rows that are other ranks' are zeros, which change no bit.
      if (team && team.world > 1) {
        team.collectives.wait(team.collectives.allReduce(buffer, "sum", "evaluation"));
      }
      const auroc = areaUnderCurves(toNumbers(buffer), width, loss.ignored ?? -1);
      const metrics: Record<string, number> = {};
      if (auroc !== null) metrics.auroc = auroc;
      return metrics;
    },
    close: () => buffer.free(),
  };
}

/**
 * The mean over classes of how often a sample of the class has a higher probability of it than a sample of
 * another; equal ones count half. Rows are `width` scores and a label. Null where there are no two classes.
 */
export function areaUnderCurves(rows: ArrayLike<number>, width: number, ignored: number): number | null {
  const row = width + 1, classes = Math.max(2, width), known: number[] = [];
  for (let at = 0; at < rows.length; at += row) {
    const label = rows[at + width];
    const inRange = width === 1 ? !Number.isNaN(label) : label >= 0 && label < classes;
    if (inRange && label !== ignored) known.push(at);
  }
  const labels = known.map((at) => width === 1 ? Number(rows[at + 1] !== 0) : rows[at + width]);
  const chances = width === 1 ? Float64Array.from(known, (at) => rows[at]) : softmaxOf(rows, known, width);
  // Both of two classes have the same area.
  const judged = classes === 2 ? [1] : Array.from({ length: classes }, (_, k) => k);
  const areas = judged.flatMap((k) => {
    const of = (own: boolean) =>
      Float64Array.from(
        labels.flatMap((label, i) =>
          (label === k) === own ? [chances[i * width + (width === 1 ? 0 : k)]] : []
        ),
      );
    const area = areaOf(of(true), of(false));
    return area === null ? [] : [area];
  });
  return areas.length === 0 ? null : areas.reduce((sum, area) => sum + area, 0) / areas.length;
}

function softmaxOf(rows: ArrayLike<number>, known: readonly number[], width: number): Float64Array {
  const made = new Float64Array(known.length * width);
  known.forEach((at, i) => {
    let most = -Infinity, sum = 0;
    for (let k = 0; k < width; k++) most = Math.max(most, rows[at + k]);
    for (let k = 0; k < width; k++) sum += made[i * width + k] = Math.exp(rows[at + k] - most);
    for (let k = 0; k < width; k++) made[i * width + k] /= sum;
  });
  return made;
}

/** Mann and Whitney's U, as a share of the pairs. NaN where a score is no number. */
function areaOf(own: Float64Array, others: Float64Array): number | null {
  if (own.length === 0 || others.length === 0) return null;
  if (own.some(Number.isNaN) || others.some(Number.isNaN)) return NaN;
  own.sort();
  others.sort();
  let below = 0, upTo = 0, pairs = 0;
  for (const score of own) {
    while (below < others.length && others[below] < score) below++;
    while (upTo < others.length && others[upTo] <= score) upTo++;
    pairs += (below + upTo) / 2;
  }
  return pairs / (own.length * others.length);
}
