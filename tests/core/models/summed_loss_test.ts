// Sums of losses with weights and losses of single targets: their values, gradients, shares and terms, and what --loss refuses.
import { assert, assertAlmostEquals, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { createLoss, type Loss } from "../../../core/models/losses.ts";
import type { Facts } from "../../../core/models/model.ts";
import { requestedMetrics } from "../../../core/settings/metrics.ts";
import { isOfAnyScale, isOfClasses, isOfNumbers, lossOfOwnValues } from "../../../core/settings/losses.ts";
import { resolveSettings } from "../../../core/settings/resolve.ts";
import { UserError } from "../../../core/base/errors.ts";
import { backward, boundary, gradOf } from "../../../ffi/autograd.ts";
import { tensor, toNumbers } from "../../../ffi/make.ts";
import { narrow, randint, randn } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { open } from "./native.ts";

open();
manualSeed(5n);

type Settings = Parameters<typeof createLoss>[0];

const lossOf = (
  text: string,
  task: Facts["task"],
  outputs: number,
  more: Partial<Facts & { targets: string[]; settings: Partial<Settings> }> = {},
): Loss => {
  const { targets = [], settings = {}, ...facts } = more;
  const own = { label_smoothing: 0, ignore_index: -100, huber_delta: 1, ...settings };
  return createLoss(
    { ...own, loss: text as Settings["loss"] },
    { task, input: { shape: [], dtype: "f32" }, outputs, ...facts },
    null,
    targets,
  );
};

function judged(loss: Loss, output: Tensor, target: Tensor): number[] {
  const own = boundary(output), value = scope(() => loss.apply(own, target));
  backward(value);
  return [value.item(), ...toNumbers(gradOf(own)!)];
}

const near = (found: readonly number[], wanted: readonly number[]) =>
  found.forEach((one, i) => assertAlmostEquals(one, wanted[i], 1e-6));

Deno.test("a sum is its terms' values and gradients with their weights, and names them", () => {
  const output = randn([4, 5, 6, 7]), target = randint(0, 5, [4, 6, 7], "i64");
  const both = lossOf("cross_entropy(label_smoothing=0.1) + 0.5*dice", "segmentation", 5);
  const one = judged(lossOf("cross_entropy(label_smoothing=0.1)", "segmentation", 5), output, target);
  const other = judged(lossOf("dice", "segmentation", 5), output, target);
  near(judged(both, output, target), one.map((value, i) => value + 0.5 * other[i]));
  assertEquals(both.terms!.map(({ name, weight }) => [name, weight]), [["cross_entropy", 1], ["dice", 0.5]]);
  assertEquals([both.like, both.outputs], ["cross_entropy", 5]);
});

Deno.test("terms that count alike are shared out exactly over parts, and terms that don't where all items count", () => {
  for (const text of ["cross_entropy + 2*focal", "cross_entropy + dice"]) {
    const output = randn([4, 3, 5, 5]),
      target = randint(0, 3, [4, 5, 5], "i64"),
      loss = lossOf(text, "segmentation", 3);
    scope(() => {
      loss.refuseUneven?.(target);
      const all = loss.validCount(target);
      const part = (from: number, count: number) => {
        const [x, y] = [output, target].map((t) => narrow(t, 0, from, count));
        return loss.apply(x, y).item() * loss.validCount(y) / all;
      };
      assertAlmostEquals(part(0, 1) + part(1, 3), loss.apply(output, target).item(), 1e-5);
    });
  }
});

Deno.test("shares of terms that count different items are refused where some items don't count", () => {
  const loss = lossOf("cross_entropy + dice", "segmentation", 3);
  const holey = tensor(BigInt64Array.from({ length: 8 }, (_, i) => i === 3 ? -100n : 1n), [2, 2, 2]);
  const error = assertThrows(() => loss.refuseUneven!(holey), UserError);
  assertStringIncludes(error.message, "dice: samples");
  assertEquals(lossOf("mse + l1", "regression", 2).refuseUneven, undefined);
});

Deno.test("each target has a loss of its own channels", () => {
  const output = randn([6, 3]), target = tensor(Float32Array.from({ length: 18 }, (_, i) => i % 2), [6, 3]);
  const loss = lossOf("a: mse, (b, c): 0.5*bce + l1", "regression", 3, { targets: ["a", "b", "c"] });
  const slice = (t: Tensor, from: number, count: number) => narrow(t, 1, from, count);
  const part = (text: string, from: number, count: number) =>
    scope(() =>
      lossOf(text, "regression", count).apply(slice(output, from, count), slice(target, from, count)).item()
    );
  scope(() =>
    assertAlmostEquals(
      loss.apply(output, target).item(),
      part("mse", 0, 1) + 0.5 * part("bce", 1, 2) + part("l1", 1, 2),
      1e-6,
    )
  );
  assertEquals(loss.terms!.map(({ name }) => name), ["a_mse", "b_c_bce", "b_c_l1"]);
  assertEquals(loss.validCount(target), 6);
});

Deno.test("targets that are not side by side are picked out", () => {
  const output = randn([6, 3]), target = randn([6, 3]);
  const loss = lossOf("b: l1, (a, c): mse", "regression", 3, { targets: ["a", "b", "c"] });
  const numbers = (t: Tensor, columns: number[]) => {
    const all = toNumbers(t);
    return Array.from({ length: 6 }, (_, i) => columns.map((k) => all[3 * i + k])).flat();
  };
  const misses = (columns: number[]) => {
    const [a, b] = [numbers(output, columns), numbers(target, columns)];
    return a.map((one, i) => one - b[i]);
  };
  const mean = (values: number[]) => values.reduce((a, b) => a + b) / values.length;
  const wanted = mean(misses([1]).map(Math.abs)) + mean(misses([0, 2]).map((e) => e * e));
  scope(() => assertAlmostEquals(loss.apply(output, target).item(), wanted, 1e-5));
});

Deno.test("class weights of the settings are for the terms that know them, and a term's own come first", () => {
  const settings = { class_weights: ["1", "3"] }, target = tensor(BigInt64Array.of(0n, 1n));
  scope(() => {
    assertEquals(lossOf("cross_entropy + focal", "classification", 2, { settings }).validCount(target), 4);
    assertEquals(
      lossOf("cross_entropy(weight=(2, 5))", "classification", 2, { settings }).validCount(target),
      7,
    );
  });
});

Deno.test("a sum with bce has one of probabilities, for graphs that end in sigmoid", () => {
  const target = tensor([0, 1, 1, 0], [2, 2]), shares = tensor([0.2, 0.7, 0.6, 0.1], [2, 2]);
  const sum = lossOf("bce + 0.5*l1", "regression", 2), plain = lossOf("bce(logits=false)", "regression", 2);
  scope(() => {
    const wanted = plain.apply(shares, target).item() +
      0.5 * lossOf("l1", "regression", 2).apply(shares, target).item();
    assertAlmostEquals(sum.ofProbabilities!.apply(shares, target).item(), wanted, 1e-6);
  });
  assertEquals(lossOf("mse + l1", "regression", 2).ofProbabilities, undefined);
});

Deno.test("what a loss compares tells data what its targets are", () => {
  assertEquals([isOfClasses("0.5*cross_entropy + dice"), isOfNumbers("cross_entropy + focal")], [
    true,
    false,
  ]);
  assertEquals([isOfClasses("mse + l1"), isOfNumbers("mse + l1")], [false, true]);
  assertEquals([isOfNumbers("my.ts"), isOfNumbers("bce"), isOfNumbers("auto")], [true, false, false]);
  assertEquals([isOfAnyScale("mse + huber(0.5)"), isOfAnyScale("mse + poisson_nll")], [true, false]);
  assertEquals(lossOfOwnValues("gaussian_nll(log_variance=false)"), "gaussian_nll(log_variance=false)");
  assertEquals(lossOfOwnValues("gaussian_nll(full=true)"), null);
});

for (
  const [text, task, ...words] of [
    ["crossentropy + dice", "segmentation", "no loss crossentropy", '"cross_entropy"'],
    ["huber(gamma=2)", "regression", "no argument gamma", "delta"],
    ["huber(delta=0)", "regression", "above 0", "but got 0"],
    ["smooth_l1(beta=-1)", "regression", "0 or more"],
    ["multi_margin(p=3)", "classification", "1 or 2"],
    ["poisson_nll(full=yes)", "regression", "true or false"],
    ["cross_entropy(ignore_index=3)", "classification", "training.ignore_index"],
    ["cross_entropy(label_smoothing=1.5)", "classification", "from 0 to 1"],
    ["-0.5*mse + l1", "regression", "-0.5", "above 0"],
    ["0*mse + l1", "regression", "above 0"],
    ["mse*0.5", "regression", "a number before a loss"],
    ["mse + mse", "regression", "twice"],
    ["mse + ", "regression", "missing beside a +"],
    ["mse, l1", "regression", "TARGET: LOSS"],
    ["mse(1", "regression", "is missing"],
    ["auto + mse", "regression", "stands alone"],
    ["graph + mse", "regression", "stands alone"],
    ["mse + cross_entropy", "regression", "needs classes"],
    ["cross_entropy + l1", "classification", "needs numbers"],
    ["mse + gaussian_nll", "regression", "outputs of the model"],
    ["nll + cross_entropy", "classification", "use cross_entropy"],
    ["triplet_margin(margin=1) + mse", "regression", "an anchor's embedding", "--loss graph"],
    ["bce(pos_weight=(1, 2))", "regression", "pos_weight of bce", "this data has 3"],
    ["bce(pos_weight=-1)", "regression", "0 or more"],
    ["bce(logits=false, pos_weight=2)", "regression", "BCEWithLogitsLoss"],
    ["cross_entropy(weight=(1, 2))", "classification", "3 classes"],
    ["multi_margin + dice", "segmentation", "multi_margin"],
    ["a: mse, d: l1", "regression", "no target d"],
    ["a: mse, b: l1", "regression", "c has no loss"],
    ["a: gaussian_nll, (b, c): mse", "regression", "several numbers for each target"],
    ["a: cross_entropy", "classification", "a loss for each target"],
  ] as [string, Facts["task"], ...string[]][]
) {
  Deno.test(`--loss "${text}" for ${task} is refused`, () => {
    const error = assertThrows(() => lossOf(text, task, 3, { targets: ["a", "b", "c"] }), UserError);
    assertEquals(error.kind, "usage");
    for (const word of words) assertStringIncludes(error.message, word);
  });
}

Deno.test("--loss takes other programs' names, and refuses what no source can carry by name", () => {
  const lossIn = (...argv: string[]) => resolveSettings({ argv, env: {} }).config.training.loss as string;
  assertEquals(lossIn("--loss", "bce_with_logits"), "bce");
  assertEquals(lossIn("--loss", "0.5*mse + l1"), "0.5*mse + l1");
  assertStringIncludes(
    assertThrows(() => lossIn("--loss", "ctc"), UserError).message,
    "lengths of sequences",
  );
  assertStringIncludes(assertThrows(() => lossIn("--loss", "smooth"), UserError).message, "smooth_l1");
});

Deno.test("--metrics reads names with arguments, and refuses what there is not", () => {
  const keys = (text: string) => requestedMetrics(text).map(({ key }) => key);
  assertEquals(
    keys("top3, top_k(10), f1(average=weighted), f_beta(2), ece(bins=10), iou, miou(average=micro)"),
    [
      ...["top3", "top10", "f1_weighted", "f2", "ece_10", "mean_iou", "mean_iou_micro"],
    ],
  );
  assertEquals(keys(""), []);
  for (
    const [text, word] of [
      ["f1, f1", "twice"],
      ["f11(average=macro)", "There are"],
      ["auroc(average=micro)", "macro or weighted"],
      ["top_k(0)", "from 1 on"],
      ["my.ts", "--metric FILE"],
      ["spearmann", '"spearman"'],
    ]
  ) {
    const error = assertThrows(() => requestedMetrics(text), UserError);
    assert(error.message.includes(word), error.message);
  }
});
