// Evaluation: every sample exactly once, the last batch as short as it is. May import ffi, models, data,
// its siblings.
import { autocast } from "../../ffi/autocast.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import type { Source } from "../data/source.ts";
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
    for (let from = 0; from < source.length; from += batchSize) {
      const count = Math.min(batchSize, source.length - from);
      const ids = Int32Array.from({ length: count }, (_, i) => from + i);
      scope(() =>
        noGrad(() => {
          const batch = feed.now(source, ids);
          const { input, target } = batch;
          autocast(pass.cast, pass.onGpu, () => {
            const output = forward(pass.model, input) as Tensor;
            running.observe(output, target, pass.loss.apply(output, target), itemsOf(batch, pass.loss));
          });
        })
      );
      await poll(from + count, source.length);
    }
  } finally {
    pass.model.root.train(true);
  }
  const { loss, metrics } = running.result();
  return { valLoss: loss, metrics, samples: source.length, seconds: (performance.now() - began) / 1000 };
}
