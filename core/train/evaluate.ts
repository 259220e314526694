// Evaluation: every sample exactly once, the last batch as short as it is. May import ffi, models, data,
// its siblings.
import { autocast } from "../../ffi/autocast.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { plainPart, type Source } from "../data/source.ts";
import type { Team } from "../dist/team.ts";
import { forward } from "../models/model.ts";
import type { Pass } from "./blocks.ts";
import type { Feed } from "./feed.ts";
import { type Metrics, type RunningMetrics, runningMetrics } from "./metrics.ts";
import { itemsOf } from "./step.ts";

export interface Evaluation {
  readonly valLoss: number;
  readonly metrics: Metrics;
  readonly samples: number;
  readonly seconds: number;
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
  const make = () => runningMetrics(source.facts, pass.loss, true, pass.metrics);
  const { rank, world } = team ?? { rank: 0, world: 1 };
  const stride = batchSize * world, each: RunningMetrics[] = [];
  const all = make();
  pass.model.root.train(false);
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
      const running = team ? make() : all;
      if (team) each.push(running);
      while (!supply.ready(WAIT_MS)) await poll(done, source.length, false);
      scope(() =>
        noGrad(() => {
          const batch = supply.take()![0];
          const { input, target } = batch;
          autocast(pass.cast, pass.onGpu, () => {
            const output = forward(pass.model, input) as Tensor;
            running.observe(output, target, pass.loss.apply(output, target), itemsOf(batch, pass.loss));
          });
        })
      );
      supply.ahead();
      await poll(until, source.length, true);
    }
  } finally {
    pass.model.root.train(true);
  }
  if (team) all.restore(sumsOfBatches(team, each, Math.ceil(source.length / batchSize), all.sums().length));
  const { loss, metrics } = all.result();
  return { valLoss: loss, metrics, samples: source.length, seconds: (performance.now() - began) / 1000 };
}

/** Each batch's sums, in their order: a batch is one rank's, and the others add zeros, which change no bit. */
function sumsOfBatches(
  team: Team,
  mine: readonly RunningMetrics[],
  batches: number,
  size: number,
): readonly number[] {
  const sums = new Float64Array(batches * size);
  mine.forEach((running, i) => sums.set(running.sums(), (i * team.world + team.rank) * size));
  return team.reduce([...sums], "sum", "evaluation");
}
