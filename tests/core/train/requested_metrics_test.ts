// What --metrics asks for, against torchmetrics, scikit-learn and scipy in live Python, in whichever batches and on ranks.
import { assertAlmostEquals, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { memorySource } from "../../../core/data/source/memory.ts";
import { UserError } from "../../../core/base/errors.ts";
import { createLoss } from "../../../core/models/losses.ts";
import type { Facts } from "../../../core/models/model.ts";
import { modeOf } from "../../../core/run/best.ts";
import { requestedIn } from "../../../core/train/requested_metrics.ts";
import { measureOf } from "../../../core/train/metrics.ts";
import { refuseMetrics } from "../../../core/train/monitor.ts";
import { openRanking } from "../../../core/train/ranking.ts";
import { RunningMetrics } from "../../../core/train/running_metrics.ts";
import { tensor, toNumbers } from "../../../ffi/make.ts";
import { floor, narrow, randint, randn, zerosLike } from "../../../ffi/ops.ts";
import { add } from "../../../ffi/make.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { peer } from "./peer.ts";
import { open, settings } from "./rig.ts";

open();
manualSeed(17n);

const COUNT = 97;
const SPLITS = [[COUNT], [40, 40, 17], [1, 90, 6]];
const OF_COUNTS = ["precision", "recall", "f1", "f_beta(2)", "iou", "dice"].flatMap((name) =>
  ["macro", "micro", "weighted"].map((average) =>
    name.includes("(") ? name.replace(")", `, average=${average})`) : `${name}(average=${average})`
  )
);
const PIXELS = [
  ...["accuracy", "balanced_accuracy", "top2", "top_k(k=3)", "specificity", "specificity(average=micro)"],
  ...["ece", "ece(bins=10)", "kappa", "mcc"],
  ...OF_COUNTS,
];
const CURVES = [
  "auroc",
  "auroc(average=weighted)",
  "average_precision",
  "average_precision(average=weighted)",
];
const NUMBERS = [
  "mse",
  "mae",
  "rmse",
  "r2",
  "explained_variance",
  "bias",
  "mape",
  "smape",
  "pearson",
  "spearman",
];

interface Case {
  readonly task: Facts["task"];
  readonly outputs: number;
  readonly requested: readonly string[];
  readonly output: Tensor;
  readonly target: Tensor;
  readonly ignored?: number;
}

const labels = (classes: number, shape: readonly number[]) => randint(0, classes, shape, "i64");

/** Some points are missing. */
function holey(shape: readonly number[]): Tensor {
  const values = toNumbers(randn(shape));
  return tensor(Float32Array.from(values, (one, i) => i % 5 === 0 ? NaN : one), shape);
}

const truth = randn([COUNT, 2]);
const CASES: Record<string, Case> = {
  "seven classes": {
    ...{ task: "classification", outputs: 7, requested: [...PIXELS, ...CURVES] },
    ...{ output: randn([COUNT, 7]), target: labels(7, [COUNT]) },
  },
  "seven classes, of which one is ignored and one nobody's": {
    ...{
      task: "classification",
      outputs: 7,
      requested: PIXELS.filter((one) => !/specificity|top/.test(one)),
      ignored: 2,
    },
    ...{ output: randn([COUNT, 7]), target: labels(6, [COUNT]) },
  },
  "two classes with equal scores": {
    ...{ task: "classification", outputs: 2, requested: ["kappa", "mcc", "f1", ...CURVES] },
    ...{ output: floor(randn([COUNT, 2])), target: labels(2, [COUNT]) },
  },
  "a class for each pixel": {
    ...{ task: "segmentation", outputs: 4, requested: PIXELS },
    ...{ output: randn([COUNT, 4, 5, 3]), target: labels(4, [COUNT, 5, 3]) },
  },
  "tokens": {
    ...{ task: "language", outputs: 9, requested: ["accuracy", "top2", "top3"] },
    ...{ output: randn([COUNT, 6, 9]), target: labels(9, [COUNT, 6]) },
  },
  "two numbers": {
    ...{
      task: "regression",
      outputs: 2,
      requested: NUMBERS,
      output: add(truth, randn([COUNT, 2])),
      target: truth,
    },
  },
  "one number with equal ones": {
    ...{ task: "regression", outputs: 1, requested: NUMBERS },
    ...{ output: floor(randn([COUNT, 1])), target: floor(randn([COUNT, 1])) },
  },
  "maps with missing points": {
    ...{ task: "regression", outputs: 2, requested: NUMBERS },
    ...{ output: randn([COUNT, 2, 4, 3]), target: holey([COUNT, 2, 4, 3]) },
  },
};

const theirs = await peer<Record<string, Record<string, number | string>>>(
  "requested_metrics.py",
  Object.fromEntries(
    Object.entries(CASES).map(([name, { output, target, task, ignored = -100 }]) => {
      const list = (t: Tensor) => ({
        shape: t.shape,
        values: Array.from(toNumbers(t), (one) => Number.isNaN(one) ? "nan" : one),
      });
      return [name, { task, ignored, output: list(output), target: list(target) }];
    }),
  ),
);

function found(name: string, split: readonly number[], world: number): Record<string, number> {
  const { task, outputs, output, target, ignored = -100, requested: texts } = CASES[name];
  const missing = name.includes("missing"), requested = requestedIn({ metrics: texts.join(", ") })!;
  const facts: Facts = { task, outputs, input: { shape: [1], dtype: "f32" }, missing };
  const loss = createLoss({ ...settings().training, loss: "auto", ignore_index: ignored }, facts);
  const made = memorySource({
    name,
    task,
    outputs,
    description: "",
    input: zerosLike(target),
    target: zerosLike(target),
  });
  const source = { ...made, facts: { ...made.facts, missing } };
  const measure = measureOf(source, { loss, full: true, requested });
  const ranks = Array.from({ length: world }, () => new RunningMetrics(measure));
  const ranking = openRanking(source, loss, "cpu", requested.list);
  let from = 0;
  split.forEach((count, i) => {
    scope(() => {
      const [x, y] = [output, target].map((t) => narrow(t, 0, from, count));
      ranks[i % world].observe({ output: x, target: y, loss: loss.apply(x, y), items: loss.validCount(y) });
      ranking?.observe(from, x, y);
    });
    from += count;
  });
  const whole = new RunningMetrics(measure);
  whole.restore(ranks.map((rank) => rank.sums()).reduce((a, b) => a.map((value, i) => value + b[i])));
  const metrics = { ...whole.result().metrics, ...ranking?.metrics(null) };
  ranking?.close();
  return metrics;
}

for (const name of Object.keys(CASES)) {
  Deno.test(`--metrics of ${name} are torchmetrics', scikit-learn's and scipy's`, () => {
    const requested = requestedIn({ metrics: CASES[name].requested.join(", ") })!;
    for (const split of SPLITS) {
      for (const world of [1, 2]) {
        const ours = found(name, split, world);
        const wanted = Object.entries(theirs[name]).filter(([key]) =>
          requested.keys.includes(key.split("/")[0])
        );
        assertEquals(
          wanted.filter(([key]) => !key.includes("/")).map(([key]) => key).sort(),
          [...requested.keys].sort(),
        );
        for (const [key, value] of wanted) {
          const most = 2e-6 * Math.max(1, Math.abs(Number(value)));
          assertAlmostEquals(ours[key], Number(value), most, `${key} of ${split} on ${world}`);
        }
      }
    }
  });
}

Deno.test("what is better is known of each metric", () => {
  const most = [
    "top3",
    "f2",
    "f1_weighted",
    "kappa",
    "mcc",
    "pearson",
    "average_precision",
    "mean_iou_micro",
  ];
  assertEquals(most.map(modeOf), most.map(() => "max"));
  const least = [
    "mape",
    "ece_10",
    "loss/dice",
    "rmse",
    "bias",
    "dice_loss",
    "top1_error",
    "val_iou_err",
    "acceleration_mae",
  ];
  assertEquals(least.map(modeOf), least.map(() => "min"));
  assertEquals(["r2/error", "dice/loss", "acc", "acc"].map(modeOf), Array<string>(4).fill("max"));
});

Deno.test("metrics that these targets can't have are refused before the first step, with those that they can", () => {
  const refusal = (metrics: string, c: Case, { loss = "auto", val = true } = {}) => {
    const { task, outputs, target } = c;
    const source = memorySource({
      name: "m",
      task,
      outputs,
      description: "",
      input: zerosLike(target),
      target,
    });
    const chosen = createLoss({ ...settings().training, loss: loss as "auto" }, source.facts);
    const pass = { loss: chosen, requested: requestedIn({ metrics }) };
    return assertThrows(
      () => refuseMetrics({ data: { train: source, val: val ? source : null }, pass } as never),
      UserError,
    ).message;
  };
  const seven = CASES["seven classes"], number = CASES["two numbers"];
  assertStringIncludes(refusal("pearson", seven), "balanced_accuracy");
  assertStringIncludes(refusal("f1", number), "explained_variance");
  assertStringIncludes(refusal("top_k(7)", seven), "7");
  assertStringIncludes(refusal("auroc", CASES["a class for each pixel"]), "each of its points");
  assertStringIncludes(refusal("f1", seven, { val: false }), "--validation-split");
  assertStringIncludes(refusal("r2", number, { loss: "soft_margin" }), "soft_margin");
});
