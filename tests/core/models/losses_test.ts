// Losses against live PyTorch, value and gradient to the last bit, and what they refuse.
import { assertAlmostEquals, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { createLoss } from "../../../core/models/losses.ts";
import type { Facts } from "../../../core/models/model.ts";
import { UserError } from "../../../core/base/errors.ts";
import { backward, boundary, gradOf } from "../../../ffi/autograd.ts";
import { tensor, toNumbers, zeros } from "../../../ffi/make.ts";
import { narrow, randint, randn, softmax } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { scope } from "../../../ffi/tensor.ts";
import { open, peer, print } from "./native.ts";

type Settings = Parameters<typeof createLoss>[0];
type Made = { shape: readonly number[]; below?: number };
interface Case {
  title: string;
  function: string;
  options: Record<string, number | number[]>;
  task: Facts["task"];
  outputs: number;
  settings: Partial<Settings>;
  output: Made;
  target: Made;
  /** The target's softmax is taken: shares of classes. */
  shares?: boolean;
}

const loss = (settings: Partial<Settings>, task: Facts["task"], outputs: number) =>
  createLoss({ loss: "auto", label_smoothing: 0, ignore_index: -100, huber_delta: 1, ...settings }, {
    task,
    input: { shape: [], dtype: "f32" },
    outputs,
  });

const classes = {
  function: "cross_entropy",
  options: {},
  task: "classification",
  outputs: 5,
  settings: {},
} as const;
const numbers = { options: {}, task: "regression", outputs: 3, output: { shape: [6, 3] } } as const;
const target = { shape: [6, 3] };

const CASES: Case[] = [
  { ...classes, title: "cross_entropy", output: { shape: [6, 5] }, target: { shape: [6], below: 5 } },
  {
    ...classes,
    title: "cross_entropy with label smoothing and an ignored class",
    options: { label_smoothing: 0.1, ignore_index: 2 },
    settings: { label_smoothing: 0.1, ignore_index: 2 },
    output: { shape: [16, 5] },
    target: { shape: [16], below: 5 },
  },
  {
    ...classes,
    title: "cross_entropy of images",
    task: "segmentation",
    output: { shape: [2, 5, 4, 3] },
    target: { shape: [2, 4, 3], below: 5 },
  },
  {
    ...classes,
    title: "cross_entropy of images with scores at a quarter of the labels' size",
    task: "segmentation",
    output: { shape: [2, 5, 4, 3] },
    target: { shape: [2, 16, 12], below: 5 },
  },
  {
    ...classes,
    title: "cross_entropy of sequences",
    task: "language",
    options: { ignore_index: 1 },
    settings: { ignore_index: 1 },
    output: { shape: [2, 7, 5] },
    target: { shape: [2, 7], below: 5 },
  },
  {
    ...classes,
    title: "cross_entropy with shares of classes",
    shares: true,
    output: { shape: [6, 5] },
    target: { shape: [6, 5] },
  },
  {
    ...classes,
    title: "cross_entropy with shares of classes and label smoothing",
    shares: true,
    options: { label_smoothing: 0.1 },
    settings: { label_smoothing: 0.1 },
    output: { shape: [16, 5] },
    target: { shape: [16, 5] },
  },
  {
    ...classes,
    title: "bce with shares of two classes",
    function: "binary_cross_entropy_with_logits",
    outputs: 2,
    settings: { loss: "bce" },
    shares: true,
    output: { shape: [6, 1] },
    target: { shape: [6, 2] },
  },
  { ...numbers, title: "mse", function: "mse_loss", settings: {}, target },
  { ...numbers, title: "l1", function: "l1_loss", settings: { loss: "l1" }, target },
  {
    ...numbers,
    title: "huber",
    function: "huber_loss",
    options: { delta: 0.7 },
    settings: { loss: "huber", huber_delta: 0.7 },
    target,
  },
  {
    ...numbers,
    title: "bce on numbers",
    function: "binary_cross_entropy_with_logits",
    settings: { loss: "bce" },
    target: { shape: [6, 3], below: 2 },
  },
  {
    ...classes,
    title: "bce on two classes",
    function: "binary_cross_entropy_with_logits",
    outputs: 2,
    settings: { loss: "bce" },
    output: { shape: [6, 1] },
    target: { shape: [6], below: 2 },
  },
  {
    ...numbers,
    title: "gaussian_nll",
    function: "gaussian_nll",
    settings: { loss: "gaussian_nll" },
    output: { shape: [6, 6] },
    target,
  },
  {
    ...classes,
    title: "cross_entropy of weighted classes",
    options: { weight: [0.5, 2, 1, 0, 4] },
    settings: { class_weights: ["0.5", "2", "1", "0", "4"] },
    output: { shape: [16, 5] },
    target: { shape: [16], below: 5 },
  },
  {
    ...classes,
    title: "cross_entropy of images of weighted classes, an ignored one and label smoothing",
    task: "segmentation",
    options: { weight: [0.5, 2, 1, 3, 4], ignore_index: 1, label_smoothing: 0.1 },
    settings: { class_weights: ["0.5", "2", "1", "3", "4"], ignore_index: 1, label_smoothing: 0.1 },
    output: { shape: [2, 5, 4, 3] },
    target: { shape: [2, 4, 3], below: 5 },
  },
];

/** Losses that PyTorch has no function for are compared with their formula, to rounding. */
const FORMULAS: Case[] = [
  {
    ...classes,
    title: "focal",
    function: "focal",
    options: { gamma: 2 },
    settings: { loss: "focal" },
    output: { shape: [16, 5] },
    target: { shape: [16], below: 5 },
  },
  {
    ...classes,
    title: "focal of two classes",
    function: "focal",
    options: { gamma: 1.5 },
    settings: { loss: "focal", focal_gamma: 1.5 },
    outputs: 2,
    output: { shape: [16, 2] },
    target: { shape: [16], below: 2 },
  },
  {
    ...classes,
    title: "focal of images of weighted classes and an ignored one, with a gamma below 1",
    function: "focal",
    task: "segmentation",
    options: { gamma: 0.5, ignore_index: 2, weight: [0.5, 2, 1, 3, 4] },
    settings: {
      loss: "focal",
      focal_gamma: 0.5,
      ignore_index: 2,
      class_weights: ["0.5", "2", "1", "3", "4"],
    },
    output: { shape: [2, 5, 4, 3] },
    target: { shape: [2, 4, 3], below: 5 },
  },
  {
    ...classes,
    title: "focal of sequences",
    function: "focal",
    task: "language",
    options: { gamma: 2, ignore_index: 1 },
    settings: { loss: "focal", ignore_index: 1 },
    output: { shape: [2, 7, 5] },
    target: { shape: [2, 7], below: 5 },
  },
  {
    ...classes,
    title: "dice",
    function: "dice",
    task: "segmentation",
    settings: { loss: "dice" },
    output: { shape: [3, 5, 4, 3] },
    target: { shape: [3, 4, 3], below: 5 },
  },
  {
    ...classes,
    title: "dice with an ignored class",
    function: "dice",
    task: "segmentation",
    options: { ignore_index: 0 },
    settings: { loss: "dice", ignore_index: 0 },
    outputs: 2,
    output: { shape: [8, 2, 2, 1] },
    target: { shape: [8, 2, 1], below: 2 },
  },
  {
    ...numbers,
    title: "quantile",
    function: "quantile",
    options: { quantiles: [0.1, 0.5, 0.9] },
    settings: { loss: "quantile" },
    output: { shape: [6, 9] },
    target,
  },
  {
    ...numbers,
    title: "quantile of maps",
    function: "quantile",
    options: { quantiles: [0.05, 0.6] },
    settings: { loss: "quantile", quantiles: ["0.05", "0.6"] },
    output: { shape: [2, 6, 4, 5] },
    target: { shape: [2, 3, 4, 5] },
  },
  {
    ...numbers,
    title: "spectral",
    function: "spectral",
    options: { weight: 0.3 },
    settings: { loss: "spectral", spectral_weight: 0.3 },
    output: { shape: [2, 3, 5, 7] },
    target: { shape: [2, 3, 5, 7] },
  },
  {
    ...numbers,
    title: "crps",
    function: "crps",
    settings: { loss: "crps" },
    output: { shape: [2, 6, 4, 5] },
    target: { shape: [2, 3, 4, 5] },
  },
];

open();
const made = ({ shape, below }: Made) => below === undefined ? randn(shape) : randint(0, below, shape, "i64");
interface Answer {
  loss: string;
  gradient: string;
  count: number;
  /** Of a formula. */
  numbers?: number[];
}
const theirs = await peer<Answer>(
  "losses.py",
  [...CASES, ...FORMULAS].map((c) => ({ shares: false, ...c })),
);

for (const [i, c] of CASES.entries()) {
  Deno.test(`${c.title} has PyTorch's value, gradient and count`, async () => {
    manualSeed(1n);
    const output = boundary(made(c.output)), drawn = made(c.target);
    const target = c.shares ? softmax(drawn, 1) : drawn;
    const ours = loss(c.settings, c.task, c.outputs);
    const value = scope(() => ours.apply(output, target));
    backward(value);
    assertEquals(
      {
        loss: await print(value),
        gradient: await print(gradOf(output)!),
        count: ours.validCount(target),
      },
      theirs[i],
    );
  });
}

for (const [i, c] of FORMULAS.entries()) {
  Deno.test(`${c.title} has its formula's value and gradient in PyTorch, and is exact over parts of a batch`, () => {
    manualSeed(1n);
    const output = boundary(made(c.output)), target = made(c.target);
    const ours = loss(c.settings, c.task, c.outputs);
    const value = scope(() => ours.apply(output, target));
    backward(value);
    const { numbers, count } = theirs[CASES.length + i];
    const found = [value.item(), ...toNumbers(gradOf(output)!)];
    assertEquals(found.length, numbers!.length);
    found.forEach((number, k) => assertAlmostEquals(number, numbers![k], 1e-6));
    const all = ours.validCount(target);
    assertAlmostEquals(all, count, 1e-9);
    scope(() => {
      const at = c.output.shape[0] - 1;
      const part = (from: number, items: number) => {
        const [x, y] = [output, target].map((t) => narrow(t, 0, from, items));
        const share = ours.validCount(y) / all;
        return share === 0 ? 0 : ours.apply(x, y).item() * share;
      };
      assertAlmostEquals(part(0, at) + part(at, 1), value.item(), 1e-6);
    });
  });
}

Deno.test("a batch without a label that counts has no items", () => {
  scope(() => {
    const target = BigInt64Array.from({ length: 8 }, () => -100n), labels = tensor(target, [2, 2, 2]);
    for (const name of ["cross_entropy", "focal", "dice"] as const) {
      assertEquals(loss({ loss: name }, "segmentation", 3).validCount(labels), 0);
    }
    assertEquals(loss({ class_weights: ["1", "2"] }, "segmentation", 2).validCount(labels), 0);
  });
});

Deno.test("--loss auto is cross_entropy, or mse for regression", () => {
  const names = (["classification", "regression", "language", "segmentation"] as const)
    .map((task) => loss({}, task, 3).name);
  assertEquals(names, ["cross_entropy", "mse", "cross_entropy", "cross_entropy"]);
});

Deno.test("gaussian_nll and crps ask for two outputs per target, quantile for each quantile, bce for one", () => {
  assertEquals(loss({ loss: "gaussian_nll" }, "regression", 3).outputs, 6);
  assertEquals(loss({ loss: "crps" }, "regression", 3).outputs, 6);
  const quantile = loss({ loss: "quantile", quantiles: ["0.25", "0.4", "0.75"] }, "regression", 3);
  assertEquals([quantile.outputs, quantile.parts, quantile.point], [9, ["q0.25", "q0.4", "q0.75"], 1]);
  assertEquals(loss({ loss: "bce" }, "classification", 2).outputs, 1);
  assertEquals(loss({}, "classification", 7).outputs, 7);
});

Deno.test("a column of targets [N] stands for [N, 1], and is not broadcast to [N, N]", () => {
  scope(() => assertEquals(loss({}, "regression", 1).apply(zeros([4, 1]), zeros([4])).shape, []));
});

Deno.test("targets of another shape than the outputs are refused with both shapes", () => {
  scope(() => {
    const error = assertThrows(
      () => loss({}, "regression", 2).apply(zeros([4, 3]), zeros([4, 2])),
      UserError,
    );
    assertStringIncludes(error.message, "f32[4, 2]");
    assertStringIncludes(error.message, "f32[4, 3]");
    assertEquals(error.kind, "data");
  });
});

Deno.test("a model of more classes than the data has takes their shares too", () => {
  scope(() => {
    const ours = loss({}, "classification", 2);
    const output = randn([3, 5]);
    const shares = ours.apply(output, tensor([0, 1, 1, 0, 0, 1], [3, 2]));
    const numbers = ours.apply(output, tensor(BigInt64Array.of(1n, 0n, 1n)));
    assertAlmostEquals(shares.item(), numbers.item(), 1e-6);
  });
});

Deno.test("an ignored label and shares of classes are refused together", () => {
  scope(() => {
    const error = assertThrows(
      () => loss({ ignore_index: 2 }, "classification", 3).apply(zeros([4, 3]), zeros([4, 3])),
      UserError,
    );
    assertStringIncludes(error.message, "training.ignore_index 2");
    assertEquals(error.kind, "usage");
  });
});

for (
  const [name, task, outputs, fix] of [
    ["cross_entropy", "regression", 2, "--loss mse"],
    ["mse", "classification", 10, "--loss cross_entropy"],
    ["bce", "segmentation", 10, "--loss cross_entropy"],
    ["bce", "language", 2, "--loss cross_entropy"],
    ["gaussian_nll", "language", 65, "--loss cross_entropy"],
    ["focal", "regression", 2, "--loss mse"],
    ["dice", "classification", 10, "--loss cross_entropy"],
    ["quantile", "classification", 10, "--loss cross_entropy"],
    ["crps", "segmentation", 3, "--loss cross_entropy"],
  ] as const
) {
  Deno.test(`${name} for ${task} is refused with the loss to use`, () => {
    const error = assertThrows(() => loss({ loss: name }, task, outputs), UserError);
    assertStringIncludes(error.message, fix);
    assertEquals(error.kind, "usage");
  });
}

for (
  const [why, settings, task, ...words] of [
    [
      "too few class weights",
      { class_weights: ["1", "2"] },
      "classification",
      "3 classes",
      "2 of 1,2",
      "1,2,3",
    ],
    ["a class weight below 0", { class_weights: ["1", "-2", "1"] }, "classification", '"-2"'],
    ["no class weight above 0", { class_weights: ["0", "0", "0"] }, "classification", "3 of 0,0,0"],
    ["class weights of numbers", { class_weights: ["1"] }, "regression", "minimises mse"],
    ["class weights of areas", { loss: "dice", class_weights: ["1"] }, "segmentation", "minimises dice"],
    ["a quantile of 1", { loss: "quantile", quantiles: ["0.5", "1"] }, "regression", '"1"'],
    ["falling quantiles", { loss: "quantile", quantiles: ["0.5", "0.1"] }, "regression", "0.5,0.1"],
  ] as [string, Partial<Settings>, Facts["task"], ...string[]][]
) {
  Deno.test(`${why}: refused with the fix`, () => {
    const error = assertThrows(() => loss(settings, task, 3), UserError);
    assertEquals(error.kind, "usage");
    for (const word of words) assertStringIncludes(error.message, word);
  });
}

Deno.test("spectral refuses rows and missing points", () => {
  scope(() => {
    const ours = loss({ loss: "spectral" }, "regression", 3);
    assertThrows(() => ours.apply(zeros([4, 3]), zeros([4, 3])), UserError, "--loss mse");
  });
  const facts = {
    task: "regression",
    input: { shape: [], dtype: "f32" },
    outputs: 3,
    missing: true,
  } as const;
  const settings = { loss: "spectral", label_smoothing: 0, ignore_index: -100, huber_delta: 1 } as const;
  assertThrows(() => createLoss(settings, facts), UserError, "missing points");
});

Deno.test("focal refuses shares of classes", () => {
  const ours = loss({ loss: "focal" }, "classification", 3);
  scope(() => assertThrows(() => ours.apply(zeros([4, 3]), zeros([4, 3])), UserError, "--mixup"));
});
