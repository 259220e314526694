// Evaluation: every sample exactly once, the last batch as short as it is. May import ffi, models, data,
// its siblings.
import { autocast } from "../../ffi/autocast.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { NativeError } from "../../ffi/errors.ts";
import { narrow } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { plainPart, type Source } from "../data/source.ts";
import type { Team } from "../dist/team.ts";
import { forward } from "../models/model.ts";
import type { Pass } from "./blocks.ts";
import type { Feed } from "./feed.ts";
import { measureOf, type Metrics } from "./metrics.ts";
import { evaluationOutOfMemory } from "./out_of_memory.ts";
import { type RunningMetrics, runningMetrics, type Worst } from "./running_metrics.ts";
import { itemsOf, type MicroBatch } from "./step.ts";

export interface Evaluation {
  readonly valLoss: number;
  readonly metrics: Metrics;
  /** Of several numbers the one that is predicted worst. */
  readonly worst: Worst | null;
  readonly samples: number;
  readonly seconds: number;
  /** The most samples at once from here on, where memory ran short in this evaluation; null where it did not. */
  readonly halvedTo: number | null;
}

/** Longest wait for data before `poll` is called. */
const WAIT_MS = 50;

/**
 * `poll` is called between batches, and while data is waited for, so that signals and the live line work in a long
 * evaluation; between batches it is called as often on every rank. Ranks take turns at the
 * batches; what each batch gives is added up in the batches' order, so that the result is that of one rank, to the bit.
 */
export async function evaluate(
  pass: Pass,
  source: Source,
  feed: Feed,
  batchSize: number,
  poll: (done: number, of: number, between: boolean) => Promise<void> | void,
  team: Team | null = null,
): Promise<Evaluation> {
  const began = performance.now();
  const measure = measureOf(source, { loss: pass.loss, full: true, own: pass.metrics });
  const { rank, world } = team ?? { rank: 0, world: 1 };
  const stride = batchSize * world, batches = Math.ceil(source.length / batchSize);
  const running = runningMetrics(measure, team ? batches : 1); // each batch's apart, where other ranks have others
  pass.model.root.train(false);
  const fitted = fitting.get(source) ?? batchSize;
  let most = fitted;
  try {
    const supply = feed.of(source);
    let asked = rank * batchSize;
    supply.begin(() => {
      const from = asked, count = Math.min(batchSize, source.length - from);
      asked += stride;
      return count <= 0 ? null : [plainPart(Int32Array.from({ length: count }, (_, i) => from + i))];
    });
    for (let done = 0; done < source.length; done += stride) {
      const until = Math.min(done + stride, source.length);
      if (done + rank * batchSize >= source.length) { // the last batches are other ranks'
        await poll(until, source.length, true);
        break;
      }
      const part = team ? done / batchSize + rank : 0;
      while (!supply.ready(WAIT_MS)) await poll(done, source.length, false);
      scope(() => noGrad(() => most = judgeInParts(pass, supply.take()![0], running, part, most)));
      supply.ahead();
      await poll(until, source.length, true);
    }
  } catch (error) {
    throw evaluationOutOfMemory(error, batchSize);
  } finally {
    running.close();
    pass.model.root.train(true);
    if (most < fitted) fitting.set(source, most);
  }
  let all = running;
  if (team) { // a batch is one rank's, and the others add zeros, which change no bit; then they are added in their order
    all = runningMetrics(measure);
    all.restore(team.reduce(running.sums(), "sum", "evaluation"));
  }
  const { loss, metrics, worst } = all.result();
  const seconds = (performance.now() - began) / 1000;
  return {
    valLoss: loss,
    metrics,
    worst,
    samples: source.length,
    seconds,
    halvedTo: most < fitted ? most : null,
  };
}

/** What a person is told where memory ran short. */
export const lessAtOnce = (rows: number, batchSize: number): string =>
  `An evaluation's batch of ${batchSize} did not fit in memory: it goes on with ${rows} samples at a time, to the same ` +
  `figures. --set training.eval_batch_size=${rows} saves the attempt.`;

/** The most samples that fitted in memory at once, of each source whose batches did not. */
const fitting = new WeakMap<Source, number>();

/**
 * Judges a batch in parts of at most `most` samples: one that does not fit in memory is halved, and so are those that
 * follow. Only sums over samples are kept, so the result is the same. Returns the size that fitted.
 */
function judgeInParts(
  pass: Pass,
  batch: MicroBatch,
  running: RunningMetrics,
  part: number,
  most: number,
): number {
  const { input, target } = batch, length = target.shape[0];
  for (let from = 0; from < length;) {
    const count = Math.min(most, length - from);
    try {
      scope(() => {
        const own = count === length
          ? batch
          : { input: narrow(input, 0, from, count), target: narrow(target, 0, from, count) };
        autocast(pass.cast, pass.onGpu, () => {
          const output = forward(pass.model, own.input) as Tensor, { target } = own;
          const loss = pass.loss.apply(output, target);
          running.observe({ output, target, loss, items: itemsOf(own, pass.loss), part });
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
