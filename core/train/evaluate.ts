// Evaluation: every sample exactly once, the last batch as short as it is. May import ffi, models, data,
// its siblings.
import { autocast } from "../../ffi/autocast.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { plainPart, type Source } from "../data/source.ts";
import { forward } from "../models/model.ts";
import type { Pass } from "./blocks.ts";
import type { Feed } from "./feed.ts";
import { type Metrics, runningMetrics } from "./metrics.ts";
import { itemsOf } from "./step.ts";

export interface Evaluation {
  readonly valLoss: number;
  readonly metrics: Metrics;
  readonly samples: number;
  readonly seconds: number;
}

/** Longest wait for data before `poll` is called. */
const WAIT_MS = 50;

/** `poll` is called between batches, so that signals and the live line work in a long evaluation. */
export async function evaluate(
  pass: Pass,
  source: Source,
  feed: Feed,
  batchSize: number,
  poll: (done: number, of: number) => Promise<void> | void,
): Promise<Evaluation> {
  const began = performance.now();
  const running = runningMetrics(source.facts, pass.loss, true);
  pass.model.root.train(false);
  try {
    const supply = feed.of(source);
    let asked = 0;
    supply.begin(() => {
      const from = asked, count = Math.min(batchSize, source.length - from);
      asked += count;
      return count === 0 ? null : [plainPart(Int32Array.from({ length: count }, (_, i) => from + i))];
    });
    for (let done = 0; done < source.length;) {
      while (!supply.ready(WAIT_MS)) await poll(done, source.length);
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
      done = Math.min(done + batchSize, source.length);
      await poll(done, source.length);
    }
  } finally {
    pass.model.root.train(true);
  }
  const { loss, metrics } = running.result();
  return { valLoss: loss, metrics, samples: source.length, seconds: (performance.now() - began) / 1000 };
}
