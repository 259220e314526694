import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { fittedLink } from "../../../commands/run/bench_prediction.ts";
import {
  allReduceSeconds,
  checkpointInterval,
  type Cluster,
  normalQuantile,
  predictedBuckets,
  predictStep,
  slowestOf,
  suggestCluster,
} from "../../../core/outputs/prediction.ts";
import type { RecordedStep } from "../../../core/outputs/recorded_step.ts";

const recorded: RecordedStep = {
  run: "r",
  ranks: 1,
  parameters: 25e6,
  samples: 32,
  alone: 0.1,
  compute: 0.09,
  data: 0,
  between: 0.01,
  deviation: 0,
  gradientBytes: 100e6,
  blocks: [25e6, 25e6, 25e6, 25e6],
  save: { stall: 2, seconds: 20, bytes: 300e6 },
};
const link = { alpha: 5e-6, beta: 1 / 25e9 };
const cluster: Cluster = {
  ...{ between: link, within: link, ranksPerNode: 1, busy: 0, cores: 1 },
  ...{ mtbf: Infinity, restart: 300, bucketBytes: 2 ** 20, accumulation: 1 },
};

Deno.test("one rank is predicted as it was recorded, and no number of ranks is more efficient", () => {
  const one = predictStep(recorded, 1, cluster);
  assertAlmostEquals(one.step, 0.1, 1e-9);
  assertAlmostEquals(one.efficiency, 1, 1e-9);
  const all = [2, 8, 64, 512, 4096].map((ranks) => predictStep(recorded, ranks, cluster).efficiency);
  all.reduce((before, now) => (assert(now <= before + 1e-3, `${all}`), now), 1);
});

Deno.test("an all-reduce sends nearly every byte twice, and many ranks take the tree's latency for few bytes", () => {
  assertEquals(allReduceSeconds(1e6, 1, link), 0);
  assertAlmostEquals(allReduceSeconds(1e9, 2, link), 1e9 / 25e9 + 2 * 5e-6, 1e-9);
  assertAlmostEquals(allReduceSeconds(1024, 4096, link), 2 * 12 * 5e-6 + 2 * 1024 / 25e9, 1e-9);
});

Deno.test("a fast network hides behind backward but for the last bucket, a slow one is waited for", () => {
  const fast = predictStep(recorded, 2, cluster);
  assertAlmostEquals(fast.exposed, 25e6 / 25e9, 1e-4); // the first block's gradients
  const slow = predictStep(recorded, 2, { ...cluster, between: { alpha: 0, beta: 1 / 125e6 } });
  assertAlmostEquals(slow.communication, 0.8, 1e-9);
  assertAlmostEquals(slow.step, 0.03 + 0.06 / 4 + 0.8 + 0.01, 1e-9); // from the last block's backward on
  const busy = predictStep(recorded, 2, { ...cluster, busy: 0.5, between: { alpha: 0, beta: 1 / 1250e6 } });
  assert(busy.step > predictStep(recorded, 2, { ...cluster, between: { alpha: 0, beta: 1 / 1250e6 } }).step);
});

Deno.test("buckets gather blocks from the last one on until they are long enough", () => {
  const buckets = predictedBuckets([10, 20, 3, 4], 6);
  assertEquals(buckets, [{ bytes: 7, ready: 0.5 }, { bytes: 20, ready: 0.75 }, { bytes: 10, ready: 1 }]);
});

Deno.test("the slowest of N is known from the normal distribution's order statistics", () => {
  assertAlmostEquals(normalQuantile(0.975), 1.959964, 1e-6);
  assertEquals(slowestOf(1), 0);
  assertAlmostEquals(slowestOf(2), 0.5642, 0.03); // exact: 1 / sqrt(pi)
  assertAlmostEquals(slowestOf(100), 2.5076, 0.01);
});

Deno.test("checkpoints come at Young's interval where saves are short against failures", () => {
  const found = checkpointInterval(1, 1e6);
  assert(Math.abs(found / Math.sqrt(2e6) - 1) < 0.01, `${found}`);
  const failing = predictStep(recorded, 4096, { ...cluster, mtbf: 1000 * 86_400 });
  assert(failing.interval! > 200 && failing.interval! < 400, `${failing.interval}`);
  assert(failing.useful > 0.9 && failing.useful < 1 && failing.goodput < failing.samplesPerSecond);
});

Deno.test("the suggestion accumulates where the network is slow, and not where it is fast", () => {
  assertEquals(suggestCluster(recorded, 8, cluster).accumulation, 1);
  const slow = suggestCluster(recorded, 64, { ...cluster, between: { alpha: 1e-5, beta: 1 / 1e9 } });
  assert(slow.accumulation > 1 && slow.predicted.efficiency >= 0.9);
});

Deno.test("a line through measured all-reduces gives their latency and rate back", () => {
  const measured = [1, 2, 4, 8].map((mb) => {
    const bytes = mb * 2 ** 20;
    return { bytes, seconds: allReduceSeconds(bytes, 4, { alpha: 1e-3, beta: 8e-9 }) };
  });
  const { alpha, beta } = fittedLink(measured, 4);
  assertAlmostEquals(alpha, 1e-3, 1e-9);
  assertAlmostEquals(beta, 8e-9, 1e-15);
});
