// Losses of targets with missing points, against PyTorch's of the points that are there.
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { createLoss, type Loss } from "../../../core/models/losses.ts";
import type { Facts } from "../../../core/models/model.ts";
import { sharesOf } from "../../../core/train/micro_batch.ts";
import { backward, boundary, gradOf } from "../../../ffi/autograd.ts";
import { UserError } from "../../../core/base/errors.ts";
import { constant, scalar, tensor, toNumbers } from "../../../ffi/make.ts";
import { isnan, narrow, randint, randn, reshape, toDtype, where } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { open, peer } from "./native.ts";

type Settings = Parameters<typeof createLoss>[0];
type Made = { shape: readonly number[]; below?: number };

const IGNORED = 9;

interface Case {
  title: string;
  function: string;
  options: Record<string, number>;
  task: Facts["task"];
  outputs: number;
  settings: Partial<Settings>;
  output: Made;
  target: Made;
  /** Points of a map count so much. */
  points?: number[];
}

const numbers = { options: {}, task: "regression", outputs: 3, output: { shape: [4, 3, 5, 2] } } as const;
const target = { shape: [4, 3, 5, 2] };
const pixels = { options: {}, task: "segmentation", settings: {} } as const;

const ALIKE: Case[] = [
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
    title: "bce",
    function: "binary_cross_entropy_with_logits",
    settings: { loss: "bce" },
    target: { ...target, below: 2 },
  },
  {
    ...numbers,
    title: "gaussian_nll",
    function: "gaussian_nll",
    settings: { loss: "gaussian_nll" },
    output: { shape: [4, 6, 5, 2] },
    target,
  },
  {
    ...pixels,
    title: "cross_entropy of pixels",
    function: "cross_entropy",
    outputs: 5,
    output: { shape: [4, 5, 4, 3] },
    target: { shape: [4, 4, 3], below: 5 },
  },
  {
    ...pixels,
    title: "cross_entropy of pixels with label smoothing",
    function: "cross_entropy",
    options: { label_smoothing: 0.1 },
    settings: { label_smoothing: 0.1 },
    outputs: 5,
    output: { shape: [4, 5, 4, 3] },
    target: { shape: [4, 4, 3], below: 5 },
  },
  {
    ...pixels,
    title: "cross_entropy of pixels with weights of classes",
    function: "cross_entropy",
    settings: { class_weights: ["1", "0.25", "2", "0.5", "4"] },
    outputs: 5,
    output: { shape: [4, 5, 4, 3] },
    target: { shape: [4, 4, 3], below: 5 },
  },
  {
    ...pixels,
    title: "focal of pixels",
    function: "focal",
    settings: { loss: "focal" },
    outputs: 5,
    output: { shape: [4, 5, 4, 3] },
    target: { shape: [4, 4, 3], below: 5 },
  },
  {
    ...numbers,
    title: "quantile",
    function: "quantile",
    settings: { loss: "quantile" },
    output: { shape: [4, 9, 5, 2] },
    target,
  },
  {
    ...numbers,
    title: "crps",
    function: "crps",
    settings: { loss: "crps" },
    output: { shape: [4, 6, 5, 2] },
    target,
  },
  {
    ...pixels,
    title: "bce of pixels",
    function: "binary_cross_entropy_with_logits",
    settings: { loss: "bce" },
    outputs: 2,
    output: { shape: [4, 1, 4, 3] },
    target: { shape: [4, 4, 3], below: 2 },
  },
];

/** The corner of a map counts nothing, and a row more than the others. */
const weightsFor = ([height, width]: readonly number[]) =>
  Array.from({ length: height * width }, (_, i) => i === 0 ? 0 : i < width ? 4 : 0.25 + i % 3);

const CASES: Case[] = [
  ...ALIKE,
  ...ALIKE.filter((c) => c.function !== "focal").map((c) => ({
    ...c,
    title: `${c.title} with weights of points`,
    points: weightsFor(c.target.shape.slice(-2)),
  })),
];

const pointWeightsOf = ({ points, target }: Case) => {
  const made = points && tensor(points, target.shape.slice(-2));
  return made ? { on: () => made } : null;
};

const lossOf = (c: Case): Loss =>
  createLoss(
    { loss: "auto", label_smoothing: 0, ignore_index: IGNORED, huber_delta: 1, ...c.settings },
    { task: c.task, input: { shape: [], dtype: "f32" }, outputs: c.outputs, missing: true },
    pointWeightsOf(c),
  );

open();
const theirs = await peer<{ loss: number; gradient: number[]; count: number }>(
  "masked_losses.py",
  CASES.map((c) => ({
    ...c,
    points: c.points ?? null,
    weights: c.settings.class_weights?.map(Number) ?? null,
  })),
);
const made = ({ shape, below }: Made) => below === undefined ? randn(shape) : randint(0, below, shape, "i64");

/** Every third point is missing, as in the peer. */
function withGaps(t: Tensor, numeric: boolean): Tensor {
  const every = Int32Array.from({ length: t.numel }, (_, i) => i % 3 === 1 ? 1 : 0);
  const gap = toDtype(reshape(tensor(every), t.shape), "bool");
  return numeric ? where(gap, constant(NaN), toDtype(t, "f32")) : where(gap, constant(IGNORED, "i64"), t);
}

function drawn(c: Case): { output: Tensor; target: Tensor } {
  manualSeed(1n);
  const output = made(c.output);
  return { output, target: withGaps(made(c.target), c.task === "regression") };
}

const close = (ours: number, wanted: number, about: string) =>
  assertAlmostEquals(ours, wanted, 1e-6 * Math.max(1, Math.abs(wanted)), about);

for (const [i, c] of CASES.entries()) {
  Deno.test(`${c.title} over the points that are there has PyTorch's value, gradient and count`, () => {
    const { output, target } = drawn(c), leaf = boundary(output);
    const ours = lossOf(c), value = scope(() => ours.apply(leaf, target));
    backward(value);
    const gradient = toNumbers(gradOf(leaf)!);
    close(value.item(), theirs[i].loss, "loss");
    theirs[i].gradient.forEach((wanted, k) => {
      close(gradient[k], wanted, `gradient ${k}`);
      if (wanted === 0) assertEquals(gradient[k], 0); // and not the smallest trace
    });
    close(ours.validCount(target), theirs[i].count, "count");
  });

  Deno.test(`${c.title} adds up exactly over micro-batches of any number of points, one of them of none`, () => {
    const { output, target } = drawn(c), ours = lossOf(c), leaf = boundary(output);
    const nothing = scope(() => randn([1, ...c.output.shape.slice(1)]));
    const none = c.task === "regression"
      ? where(toDtype(scalar(1), "bool"), constant(NaN), narrow(target, 0, 0, 1))
      : where(toDtype(scalar(1), "bool"), constant(IGNORED, "i64"), narrow(target, 0, 0, 1));
    const part = (from: number, count: number) => ({
      input: narrow(leaf, 0, from, count),
      target: narrow(target, 0, from, count),
    });
    const batches = [part(0, 1), { input: nothing, target: none }, part(1, 3)];
    const shares = sharesOf(batches, ours);
    assertEquals(shares[1], 0);
    let loss = 0;
    batches.forEach(({ input, target }, k) => {
      if (shares[k] === 0) return;
      const mean = scope(() => ours.apply(input, target));
      backward(mean, scalar(shares[k]));
      loss += mean.item() * shares[k];
    });
    close(loss, theirs[i].loss, "loss");
    const gradient = toNumbers(gradOf(leaf)!);
    theirs[i].gradient.forEach((wanted, k) => close(gradient[k], wanted, `gradient ${k}`));
  });

  Deno.test(`${c.title} of nothing but missing points is 0, and so is its gradient`, () => {
    const { output, target } = drawn(c), ours = lossOf(c), leaf = boundary(output);
    const gap = c.task === "regression" ? constant(NaN) : constant(IGNORED, "i64");
    const none = where(toDtype(scalar(1), "bool"), gap, target);
    const value = scope(() => ours.apply(leaf, none));
    backward(value);
    assertEquals([value.item(), ours.validCount(none)], [0, 0]);
    assert(toNumbers(gradOf(leaf)!).every((g) => g === 0));
    const empty = { input: leaf, target: none };
    assertEquals(sharesOf([empty, empty], ours), [1, 0]);
  });
}

Deno.test("an output that is no number at a missing point spoils neither loss nor gradient", () => {
  for (const c of CASES.filter(({ task }) => task === "regression")) {
    const { output, target } = drawn(c);
    const gap = isnan(target);
    const wild = c.output.shape[1] !== c.target.shape[1] ? output : where(gap, constant(Infinity), output);
    const leaf = boundary(wild), value = scope(() => lossOf(c).apply(leaf, target));
    backward(value);
    assert(Number.isFinite(value.item()), c.title);
    assert(toNumbers(gradOf(leaf)!).every(Number.isFinite), c.title);
  }
});

Deno.test("targets without missing points have the same loss to the last bit, whether they might have had some", () => {
  for (const c of ALIKE.filter(({ task }) => task === "regression")) {
    manualSeed(3n);
    const output = made(c.output), target = toDtype(made(c.target), "f32");
    const { settings, task, outputs } = c;
    const plain = createLoss(
      { loss: "auto", label_smoothing: 0, ignore_index: IGNORED, huber_delta: 1, ...settings },
      { task, input: { shape: [], dtype: "f32" }, outputs },
    );
    const [a, b] = [plain, lossOf(c)].map((loss) => scope(() => loss.apply(output, target)).item());
    assertEquals(a, b, c.title);
  }
});

Deno.test("a loss that does not take points apart is refused weights of points", () => {
  const c = ALIKE.find(({ title }) => title === "focal of pixels")!;
  const error = assertThrows(
    () => lossOf({ ...c, points: weightsFor(c.target.shape.slice(-2)) }),
    UserError,
  );
  assertEquals(error.kind, "usage");
  assert(error.message.includes("--loss-weight"), error.message);
});
