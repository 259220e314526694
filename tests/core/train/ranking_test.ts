// The area under the ROC curve against scikit-learn and torchmetrics in live Python; the sums of the other metrics of classes are
// tested in metrics_test.ts.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { memorySource } from "../../../core/data/source/memory.ts";
import { evaluate } from "../../../core/train/evaluate.ts";
import { areaUnderCurves, openRanking } from "../../../core/train/ranking.ts";
import { openFeed } from "../../../core/train/feed.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { floor, narrow, randint, randn, zerosLike } from "../../../ffi/ops.ts";
import { liveTensors, scope, type Tensor } from "../../../ffi/tensor.ts";
import { peer } from "./peer.ts";
import { open, rig } from "./rig.ts";

open();
manualSeed(3n);

const COUNT = 211;
const labels = (classes: number) => randint(0, classes, [COUNT], "i64");
const CASES: Record<string, { output: Tensor; target: Tensor; loss?: "bce"; ignored?: number }> = {
  "nine classes": { output: randn([COUNT, 9]), target: labels(9) },
  "nine classes, one of which is ignored": { output: randn([COUNT, 9]), target: labels(9), ignored: 4 },
  "nine classes, two of which nobody has": { output: randn([COUNT, 9]), target: labels(7) },
  "two classes": { output: randn([COUNT, 2]), target: labels(2) },
  "two classes with many equal scores": { output: floor(randn([COUNT, 2])), target: labels(2) },
  "one logit": { output: randn([COUNT, 1]), target: labels(2), loss: "bce" },
};

const theirs = await peer<Record<string, { auroc: number }>>(
  "metrics.py",
  Object.fromEntries(
    Object.entries(CASES).map(([name, { output, target, loss = "auto", ignored = -100 }]) => {
      const list = (t: Tensor) => ({ shape: t.shape, values: Array.from(toNumbers(t)) });
      return [name, {
        ...{ task: "classification", areas: true, mask: null, loss, ignored },
        output: list(output),
        target: list(target),
      }];
    }),
  ),
);

Deno.test("AUROC is scikit-learn's and torchmetrics', in whichever batches, and in whichever order they come", () => {
  for (const [name, { output, target, loss = "cross_entropy", ignored }] of Object.entries(CASES)) {
    const outputs = Math.max(2, output.shape[1]);
    const source = memorySource({
      ...{ name, task: "classification", outputs, description: "", input: zerosLike(target), target },
    });
    for (const batches of [[[0, COUNT]], [[100, 111], [0, 1], [1, 99]]]) {
      const ranking = openRanking(source, { name: loss, ignored }, "cpu")!;
      for (const [from, count] of batches) {
        scope(() => ranking.observe(from, narrow(output, 0, from, count), narrow(target, 0, from, count)));
      }
      assertAlmostEquals(ranking.metrics(null).auroc, theirs[name].auroc, 1e-9, name);
      ranking.close();
    }
  }
});

Deno.test("where all samples are of one class there is no curve, and a score that is no number gives none", () => {
  assertEquals(areaUnderCurves([0.1, 1, 0.7, 1], 1, -1), null);
  assertEquals(areaUnderCurves([0.1, 1, NaN, 0], 1, -1), NaN);
  assertEquals(areaUnderCurves([0.1, 0, 0.7, 1, 0.7, 0], 1, -1), 0.75);
});

Deno.test("an evaluation has it, and leaves no tensor behind", async () => {
  const source = memorySource({
    ...{ name: "made", task: "classification", outputs: 4, description: "" },
    input: randn([53, 4]),
    target: randint(0, 4, [53], "i64"),
  });
  const model = mlp({ inputs: 4, hidden: 8, layers: 1, outputs: 4 });
  const { step: { pass } } = rig(model, source.facts);
  const evaluated = async (batchSize: number) => {
    const feed = openFeed({ device: "cpu", channelsLast: false, loss: pass.loss });
    const { metrics } = await evaluate(pass, source, feed, batchSize, () => {});
    feed.close();
    return metrics;
  };
  const metrics = await evaluated(20);
  assert(metrics.auroc > 0.2 && metrics.auroc < 0.8);
  const before = liveTensors(), again = await evaluated(7);
  assertEquals(Object.keys(again), Object.keys(metrics));
  // A processor may round products of seven rows otherwise than those of twenty.
  for (const name in metrics) assertAlmostEquals(again[name], metrics[name], 1e-6, name);
  assertEquals(liveTensors(), before);
});
