// Losses against live PyTorch, value and gradient to the last bit, and what they refuse.
import { assertAlmostEquals, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { createLoss } from "../../../core/models/losses.ts";
import type { Facts } from "../../../core/models/model.ts";
import { UserError } from "../../../core/base/errors.ts";
import { backward, boundary, gradOf } from "../../../ffi/autograd.ts";
import { tensor, zeros } from "../../../ffi/make.ts";
import { randint, randn, softmax } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { scope } from "../../../ffi/tensor.ts";
import { open, peer, print } from "./native.ts";

type Settings = Parameters<typeof createLoss>[0];
type Made = { shape: readonly number[]; below?: number };
interface Case {
  title: string;
  function: string;
  options: Record<string, number>;
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
];

open();
const made = ({ shape, below }: Made) => below === undefined ? randn(shape) : randint(0, below, shape, "i64");
const theirs = await peer<{ loss: string; gradient: string; count: number }>(
  "losses.py",
  CASES.map((c) => ({ shares: false, ...c })),
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

Deno.test("auto follows the task", () => {
  const names = (["classification", "regression", "language", "segmentation"] as const)
    .map((task) => loss({}, task, 3).name);
  assertEquals(names, ["cross_entropy", "mse", "cross_entropy", "cross_entropy"]);
});

Deno.test("gaussian_nll asks for two outputs per target, bce for one", () => {
  assertEquals(loss({ loss: "gaussian_nll" }, "regression", 3).outputs, 6);
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
    ["bce", "classification", 10, "--loss cross_entropy"],
    ["gaussian_nll", "language", 65, "--loss cross_entropy"],
  ] as const
) {
  Deno.test(`${name} for ${task} is refused with the loss to use`, () => {
    const error = assertThrows(() => loss({ loss: name }, task, outputs), UserError);
    assertStringIncludes(error.message, fix);
    assertEquals(error.kind, "usage");
  });
}
