// Metrics against scikit-learn and numpy in live Python, however the samples are cut into batches.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { createLoss, type Loss } from "../../../core/models/losses.ts";
import type { Facts } from "../../../core/models/model.ts";
import { type Metrics, runningMetrics } from "../../../core/train/metrics.ts";
import { tensor, toNumbers } from "../../../ffi/make.ts";
import { narrow, randint, randn } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/random.ts";
import { keep, liveTensors, scope, type Tensor } from "../../../ffi/tensor.ts";
import { peer } from "./peer.ts";
import { open, settings } from "./rig.ts";

open();
manualSeed(11n);

const COUNT = 103;
const SPLITS = [[COUNT], [50, 50, 3], [1, 99, 2, 1], [7, 13, 31, 52]];

interface Case {
  facts: Facts;
  lossName: "auto" | "l1" | "gaussian_nll";
  ignored?: number;
  output: Tensor;
  target: Tensor;
}
const input = { shape: [1], dtype: "f32" } as const;
const regression = (outputs: number): Facts => ({ task: "regression", input, outputs });

/** Tokens, of which some don't count. */
function holey(): Tensor {
  const ids = toNumbers(randint(0, 20, [COUNT, 6], "i64"));
  return tensor(BigInt64Array.from(ids, (id) => BigInt(id > 16 ? -100 : id)), [COUNT, 6]);
}
const CASES: Record<string, Case> = {
  classification: {
    facts: { task: "classification", input, outputs: 12 },
    lossName: "auto",
    output: randn([COUNT, 12]),
    target: randint(0, 12, [COUNT], "i64"),
  },
  segmentation: {
    facts: { task: "segmentation", input, outputs: 3 },
    lossName: "auto",
    output: randn([COUNT, 3, 4, 4]),
    target: randint(0, 3, [COUNT, 4, 4], "i64"),
  },
  "classification without its class 3": {
    facts: { task: "classification", input, outputs: 12 },
    lossName: "auto",
    ignored: 3,
    output: randn([COUNT, 12]),
    target: randint(0, 12, [COUNT], "i64"),
  },
  "regression of three": {
    facts: regression(3),
    lossName: "auto",
    output: randn([COUNT, 3]),
    target: randn([COUNT, 3]),
  },
  "regression of one, with targets [N],": {
    facts: regression(1),
    lossName: "l1",
    output: randn([COUNT, 1]),
    target: randn([COUNT]),
  },
  "regression by Gaussian likelihood": {
    facts: regression(2),
    lossName: "gaussian_nll",
    output: randn([COUNT, 4]),
    target: randn([COUNT, 2]),
  },
  language: {
    facts: { task: "language", input, outputs: 20 },
    lossName: "auto",
    output: randn([COUNT, 6, 20]),
    target: holey(),
  },
};

function lossOf({ facts, lossName, ignored = -100 }: Case): Loss {
  return createLoss({ ...settings().training, loss: lossName, ignore_index: ignored }, facts);
}

function measured(c: Case, split: number[], interrupt = false): Metrics {
  const loss = lossOf(c);
  let running = runningMetrics(c.facts, loss, true);
  let from = 0;
  for (const count of split) {
    scope(() => {
      const output = narrow(c.output, 0, from, count), target = narrow(c.target, 0, from, count);
      running.observe(output, target, loss.apply(output, target), loss.validCount(target));
    });
    from += count;
    if (interrupt) {
      const sums = running.sums();
      running = runningMetrics(c.facts, loss, true);
      running.restore(JSON.parse(JSON.stringify(sums)));
    }
  }
  const { metrics, loss: mean } = running.result();
  return { ...metrics, loss: mean };
}

const theirs = await peer<Record<string, Metrics>>(
  "metrics.py",
  Object.fromEntries(
    Object.entries(CASES).map(([name, { output, target, facts, lossName, ignored = -100 }]) => {
      const list = (t: Tensor) => ({ shape: t.shape, values: Array.from(toNumbers(t)) });
      return [name, {
        task: facts.task,
        loss: lossName,
        ignored,
        output: list(output),
        target: list(target),
      }];
    }),
  ),
);

for (const [name, c] of Object.entries(CASES)) {
  Deno.test(`metrics of ${name} are scikit-learn's, in whichever batches`, () => {
    for (const split of SPLITS) {
      const ours = measured(c, split);
      assertEquals(Object.keys(ours).sort(), Object.keys(theirs[name]).sort());
      for (const [metric, value] of Object.entries(theirs[name])) {
        assertAlmostEquals(ours[metric], value, 1e-6 * Math.max(1, Math.abs(value)), `${metric} of ${split}`);
      }
    }
  });
}

Deno.test("a run that was saved between any two batches has the same metrics to the last bit", () => {
  for (const c of Object.values(CASES)) {
    for (const split of SPLITS) assertEquals(measured(c, split, true), measured(c, split));
  }
});

Deno.test("R2 survives targets far from zero", () => {
  const { facts } = CASES["regression of three"];
  const far = Float32Array.from({ length: 300 }, (_, i) => 4096 + Math.sin(i) / 4);
  const near = far.map((x, i) => x + Math.cos(i) / 64);
  const ours = measured({
    facts,
    lossName: "auto",
    output: tensor(near, [100, 3]),
    target: tensor(far, [100, 3]),
  }, [
    60,
    40,
  ]);
  const column = (values: Float32Array, k: number) => Array.from(values).filter((_, i) => i % 3 === k);
  const r2 = [0, 1, 2].map((k) => {
    const t = column(far, k), y = column(near, k), mean = t.reduce((a, b) => a + b) / t.length;
    const squares = (values: number[]) => values.reduce((sum, x) => sum + x * x, 0);
    return 1 - squares(t.map((x, i) => x - y[i])) / squares(t.map((x) => x - mean));
  });
  assertAlmostEquals(ours.r2, (r2[0] + r2[1] + r2[2]) / 3, 1e-6);
});

Deno.test("top-5 is measured in evaluation and where there are more than five classes", () => {
  const c = CASES.classification;
  const names = (facts: Facts, full: boolean) => {
    const running = runningMetrics(facts, { name: "cross_entropy" }, full);
    scope(() => running.observe(c.output, c.target, randn([]), COUNT));
    return Object.keys(running.result().metrics);
  };
  assertEquals(names(c.facts, true), ["accuracy", "top5"]);
  assertEquals(names(c.facts, false), ["accuracy"]);
  assertEquals(names({ ...c.facts, outputs: 5 }, true), ["accuracy"]);
});

Deno.test("shares of classes are met by the class with the largest one", () => {
  const labels = [2, 0, 1, 1, 0, 2, 2, 1], output = randn([8, 3]);
  const shares = tensor(
    Float32Array.from({ length: 24 }, (_, i) => i % 3 === labels[Math.floor(i / 3)] ? 0.4 : 0.3),
    [8, 3],
  );
  const accuracy = (target: Tensor, output: Tensor, lossName: "bce" | "cross_entropy", outputs: number) => {
    const running = runningMetrics({ task: "classification", input, outputs }, { name: lossName }, false);
    scope(() => running.observe(output, target, randn([]), output.shape[0]));
    return running.result().metrics.accuracy;
  };
  const ofNumbers = tensor(BigInt64Array.from(labels, BigInt));
  assertEquals(
    accuracy(shares, output, "cross_entropy", 3),
    accuracy(ofNumbers, output, "cross_entropy", 3),
  );
  const two = tensor([0.8, 0.2, 0.3, 0.7, 0.45, 0.55, 1, 0], [4, 2]);
  const logits = tensor([-1, 2, -0.5, 3], [4, 1]);
  assertEquals(accuracy(two, logits, "bce", 2), 0.5);
});

Deno.test("a batch in which nothing counts changes no mean", () => {
  const c = CASES.language, loss = lossOf(c);
  const none = tensor(new BigInt64Array(12).fill(-100n), [2, 6]);
  const running = runningMetrics(c.facts, loss, true);
  for (const target of [narrow(c.target, 0, 0, 2), none]) {
    scope(() => {
      const output = narrow(c.output, 0, 0, 2);
      running.observe(output, target, loss.apply(output, target), loss.validCount(target));
    });
  }
  assert(Number.isFinite(running.result().loss));
});

Deno.test("metrics keep at most one batch's sums alive", () => {
  const c = { ...CASES.classification, output: keep(CASES.classification.output) };
  measured(c, [COUNT]);
  const before = liveTensors();
  for (let i = 0; i < 5; i++) measured(c, SPLITS[3]);
  assertEquals(liveTensors(), before);
});
