// Each loss with arguments beside torch.nn's module of the same name, or timm's (HPCTRAIN_REAL_LIBRARIES): value and gradient to the last bit on one thread,
// over the points that are there, over parts of a batch, in sums and for single targets.
import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { assertRefusal } from "../../sentences.ts";
import { createLoss, type Loss } from "../../../core/models/losses.ts";
import type { Facts } from "../../../core/models/model.ts";
import { backward, boundary, gradOf } from "../../../ffi/autograd.ts";
import { constant, sub, tensor, toNumbers } from "../../../ffi/make.ts";
import {
  exp,
  flatten,
  logSoftmax,
  narrow,
  randint,
  randn,
  sigmoid,
  softmax,
  toDtype,
} from "../../../ffi/ops.ts";
import { add } from "../../../ffi/make.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { operator } from "../../../ffi/operators.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { open, peer, print } from "./native.ts";

type Settings = Parameters<typeof createLoss>[0];
type How = "" | "shares" | "logs" | "sigmoid" | "positive" | "signs" | "numbers" | "counts" | "classes";
interface Made {
  readonly shape: readonly number[];
  readonly below?: number;
  readonly how: How;
}
interface Case {
  /** As --loss has it. */
  readonly loss: string;
  readonly torch: string;
  readonly options: Record<string, unknown>;
  readonly task: Facts["task"];
  readonly outputs: number;
  readonly output: Made;
  readonly target: Made;
  /** Its points may be missing. */
  readonly missing: boolean;
  readonly settings?: Partial<Settings>;
  /** Outputs are f64, as with --amp fp64. */
  readonly double?: true;
}

const numbers = (loss: string, torch: string, target: How, more: Partial<Case> = {}): Case => ({
  ...{ loss, torch, options: {}, task: "regression", outputs: 3, missing: true },
  output: { shape: [7, 3], how: "" },
  target: target === "" ? { shape: [7, 3], how: target } : {
    shape: [7, 3],
    how: target,
    ...(target !== "shares" && target !== "positive" && { below: target === "counts" ? 9 : 2 }),
  },
  ...more,
});
const classes = (loss: string, torch: string, more: Partial<Case> = {}): Case => ({
  ...{ loss, torch, options: {}, task: "classification", outputs: 5, missing: false },
  output: { shape: [16, 5], how: "" },
  target: { shape: [16], below: 5, how: "" },
  ...more,
});
const WEIGHT = [0.5, 2, 1, 3, 4], THREE = [0.5, 2, 4];
/** As mixup and cutmix make them. */
const SHARES = { shape: [16, 5], how: "shares" } as const;
const maps = { output: { shape: [2, 3, 5, 4], how: "" }, target: { shape: [2, 3, 5, 4], how: "" } } as const;

const IN_SINGLES: Case[] = [
  classes("cross_entropy(label_smoothing=0.1)", "CrossEntropyLoss", { options: { label_smoothing: 0.1 } }),
  classes("cross_entropy(weight=(0.5, 2, 1, 3, 4))", "CrossEntropyLoss", { options: { weight: WEIGHT } }),
  classes("nll()", "NLLLoss", { output: { shape: [16, 5], how: "logs" } }),
  classes("nll(weight=(0.5, 2, 1, 3, 4))", "NLLLoss", {
    options: { weight: WEIGHT, ignore_index: 2 },
    settings: { ignore_index: 2 },
    output: { shape: [16, 5], how: "logs" },
  }),
  classes("nll()", "NLLLoss", {
    ...{ task: "segmentation", output: { shape: [2, 5, 4, 3], how: "logs" } },
    target: { shape: [2, 4, 3], below: 5, how: "" },
  }),
  classes("nll()", "NLLLoss", {
    ...{ task: "language", options: { ignore_index: 1 }, settings: { ignore_index: 1 } },
    output: { shape: [2, 7, 5], how: "" },
    target: { shape: [2, 7], below: 5, how: "" },
  }),
  classes("multi_margin()", "MultiMarginLoss"),
  classes("multi_margin(p=2, margin=0.7)", "MultiMarginLoss", { options: { p: 2, margin: 0.7 } }),
  classes("multi_margin(weight=(0.5, 2, 1, 3, 4))", "MultiMarginLoss", { options: { weight: WEIGHT } }),
  classes("multi_margin(p=2, weight=(0.5, 2, 1))", "MultiMarginLoss", {
    ...{ outputs: 3, output: { shape: [37, 3], how: "" }, target: { shape: [37], below: 3, how: "" } },
    options: { p: 2, weight: [0.5, 2, 1] },
  }),
  ...[10, 1000].flatMap((count) =>
    [1, 2].map((p) =>
      classes(`multi_margin(p=${p}, margin=0.3)`, "MultiMarginLoss", {
        ...{ outputs: count, options: { p, margin: 0.3 }, output: { shape: [13, count], how: "" } },
        target: { shape: [13], below: count, how: "" },
      })
    )
  ),
  numbers("mse()", "MSELoss", ""),
  numbers("l1()", "L1Loss", ""),
  numbers("huber(delta=0.7)", "HuberLoss", "", { options: { delta: 0.7 } }),
  numbers("huber(0.7)", "HuberLoss", "", { options: { delta: 0.7 }, ...maps }),
  numbers("smooth_l1()", "SmoothL1Loss", ""),
  numbers("smooth_l1(beta=0.5)", "SmoothL1Loss", "", { options: { beta: 0.5 }, ...maps }),
  numbers("smooth_l1(beta=0)", "SmoothL1Loss", "", { options: { beta: 0 } }),
  numbers("bce()", "BCEWithLogitsLoss", "numbers"),
  numbers("bce(pos_weight=(0.5, 2, 4))", "BCEWithLogitsLoss", "numbers", {
    options: { pos_weight: THREE },
    missing: false,
  }),
  numbers("bce(pos_weight=3)", "BCEWithLogitsLoss", "numbers", { options: { pos_weight: [3] } }),
  classes("bce(pos_weight=(0.5, 2, 1, 3, 4))", "BCEWithLogitsLoss", {
    options: { pos_weight: WEIGHT },
    target: SHARES,
  }),
  classes("bce()", "timm", { options: { smoothing: 0 } }),
  classes("bce()", "timm", { options: { smoothing: 0.1 }, settings: { label_smoothing: 0.1 } }),
  classes("bce(target_threshold=0.2)", "timm", { options: { target_threshold: 0.2 }, target: SHARES }),
  numbers("bce(logits=false)", "BCELoss", "numbers", { output: { shape: [7, 3], how: "sigmoid" } }),
  numbers("gaussian_nll(log_variance=false)", "GaussianNLLLoss", "", {
    output: { shape: [7, 6], how: "positive" },
  }),
  numbers("gaussian_nll(log_variance=false, full=true, eps=0.8)", "GaussianNLLLoss", "", {
    options: { full: true, eps: 0.8 },
    output: { shape: [7, 6], how: "positive" },
  }),
  numbers("poisson_nll()", "PoissonNLLLoss", "counts"),
  numbers("poisson_nll(full=true)", "PoissonNLLLoss", "counts", { options: { full: true } }),
  numbers("poisson_nll(log_input=false, eps=0.001)", "PoissonNLLLoss", "counts", {
    options: { log_input: false, eps: 0.001 },
    output: { shape: [7, 3], how: "positive" },
  }),
  numbers("kl_div()", "KLDivLoss", "shares", { output: { shape: [7, 3], how: "logs" } }),
  numbers("kl_div(batchmean=true)", "KLDivLoss", "shares", {
    options: { reduction: "batchmean" },
    output: { shape: [7, 3], how: "logs" },
    missing: false,
  }),
  numbers("kl_div(log_target=true)", "KLDivLoss", "", {
    options: { log_target: true },
    output: { shape: [7, 3], how: "logs" },
  }),
  numbers("soft_margin()", "SoftMarginLoss", "signs"),
  numbers("hinge_embedding()", "HingeEmbeddingLoss", "signs"),
  numbers("hinge_embedding(margin=0.4)", "HingeEmbeddingLoss", "signs", { options: { margin: 0.4 } }),
  numbers("margin_ranking(margin=0.3)", "MarginRankingLoss", "signs", {
    options: { margin: 0.3 },
    output: { shape: [7, 6], how: "" },
  }),
  numbers("multilabel_margin()", "MultiLabelMarginLoss", "classes", {
    target: { shape: [7, 3], below: 4, how: "classes" },
    missing: false,
  }),
  numbers("multilabel_soft_margin()", "MultiLabelSoftMarginLoss", "numbers", { missing: false }),
  numbers("multilabel_soft_margin(weight=(0.5, 2, 4))", "MultiLabelSoftMarginLoss", "numbers", {
    options: { weight: THREE },
    missing: false,
  }),
];

const CASES = [
  ...IN_SINGLES,
  ...IN_SINGLES.map((c): Case => ({ ...c, double: true, settings: { ...c.settings, amp: "fp64" } })),
];

open();
operator("aten::multi_margin_loss", ""); // opens what is opened once

const titled = ({ loss, task, outputs, double }: Case) =>
  `${loss} of ${task}${outputs > 5 ? ` of ${outputs}` : ""}${double ? " in f64" : ""}`;

function made({ shape, below, how }: Made, double = false): Tensor {
  const dtype = double ? "f64" : "f32", one = constant(1, dtype);
  const drawn = below === undefined ? toDtype(randn(shape), dtype) : randint(0, below, shape, "i64");
  switch (how) {
    case "shares":
      return softmax(drawn, 1);
    case "logs":
      return logSoftmax(drawn, 1);
    case "sigmoid":
      return sigmoid(drawn);
    case "positive":
      return exp(drawn);
    case "signs": {
      const number = toDtype(drawn, dtype);
      return sub(add(number, number), one);
    }
    case "numbers":
    case "counts":
      return toDtype(drawn, dtype);
    case "classes": { // the greatest first, so that -1 stands last
      const [rows, columns] = shape, all = toNumbers(drawn);
      const sorted = Array.from(
        { length: rows },
        (_, i) =>
          Array.from(all.slice(i * columns, (i + 1) * columns), (one) => one - 1).sort((a, b) => b - a),
      );
      return tensor(Float32Array.from(sorted.flat()), shape);
    }
    default:
      return drawn;
  }
}

const lossOf = (
  text: string,
  { task, outputs, settings = {} }: Pick<Case, "task" | "outputs" | "settings">,
  more: Partial<Facts> = {},
  targets: string[] = [],
): Loss =>
  createLoss(
    { label_smoothing: 0, ignore_index: -100, huber_delta: 1, ...settings, loss: text as Settings["loss"] },
    { task, input: { shape: [], dtype: "f32" }, outputs, ...more },
    null,
    targets,
  );

interface Answer {
  readonly loss: string;
  readonly gradient: string;
  readonly value: number;
  readonly gradients: readonly number[];
  /** Value and gradient over the points that are there. */
  readonly left?: readonly number[];
}
const theirs = await peer<Answer>("torch_losses.py", CASES);

for (const [i, c] of CASES.entries()) {
  Deno.test(
    `${titled(c)} has the bits of ${
      c.torch === "timm" ? "timm's BinaryCrossEntropy" : `torch.nn.${c.torch}`
    }, value and gradient`,
    async () => {
      manualSeed(1n);
      const output = boundary(made(c.output, c.double)), target = made(c.target, c.double);
      const value = scope(() => lossOf(c.loss, c).apply(output, target));
      backward(value);
      const found = { loss: await print(value), gradient: await print(gradOf(output)!) };
      assertEquals(found, { loss: theirs[i].loss, gradient: theirs[i].gradient });
    },
  );

  Deno.test(`${titled(c)} is shared out exactly over parts of a batch`, () => {
    manualSeed(1n);
    const output = made(c.output, c.double), target = made(c.target, c.double), loss = lossOf(c.loss, c);
    scope(() => {
      const all = loss.validCount(target), at = output.shape[0] - 1;
      const part = (from: number, items: number) => {
        const [x, y] = [output, target].map((t) => narrow(t, 0, from, items));
        const count = loss.validCount(y);
        return count === 0 ? 0 : loss.apply(x, y).item() * count / all;
      };
      assertAlmostEquals(part(0, at) + part(at, 1), theirs[i].value, c.double ? 1e-13 : 1e-5);
    });
  });

  if (!c.missing || c.double) continue;
  Deno.test(`${titled(c)} leaves out the points that are missing, value and gradient`, () => {
    manualSeed(1n);
    const output = boundary(made(c.output)), target = made(c.target);
    const holes = Float32Array.from(toNumbers(flatten(target)), (one, k) => k % 3 === 0 ? NaN : one);
    const loss = lossOf(c.loss, c, { missing: true }), holey = tensor(holes, target.shape);
    const value = scope(() => loss.apply(output, holey));
    backward(value);
    const found = [value.item(), ...toNumbers(gradOf(output)!)];
    found.forEach((number, k) => assertAlmostEquals(number, theirs[i].left![k], 1e-6));
    assertEquals(loss.validCount(holey), holes.filter((one) => !Number.isNaN(one)).length);
  });
}

Deno.test("multi_margin leaves out an ignored label, value and gradient, whatever its scores are", () => {
  for (const loss of ["multi_margin(margin=-0.5)", "multi_margin(p=2, weight=(0.5, 2, 1, 3, 4))"]) {
    const of = lossOf(loss, { task: "classification", outputs: 5, settings: { ignore_index: 2 } });
    const [some, all] = [[[1, 2, 0, -1, 0], [NaN, Infinity, 1, 2, 3], [0, 3, 1, 2, 2.5]], [[1, 2, 0, -1, 0], [
      0,
      3,
      1,
      2,
      2.5,
    ]]].map((rows) => {
      const output = boundary(tensor(rows)), target = tensor(rows.length === 3 ? [0, 2, 4] : [0, 4]);
      const value = scope(() => of.apply(output, target));
      backward(value);
      return [value.item(), ...toNumbers(gradOf(output)!)];
    });
    some.toSpliced(6, 5).forEach((number, k) => assertAlmostEquals(number, all[k], 1e-6));
    assertEquals(some.slice(6, 11), [0, 0, 0, 0, 0]);
    assertEquals(scope(() => of.apply(randn([2, 5]), tensor([2, 2])).item()), 0);
  }
});

Deno.test("bce of classes leaves out an ignored label, and refuses a threshold of numbers", () => {
  scope(() => {
    const output = randn([4, 5]), labels = (...all: number[]) => tensor(BigInt64Array.from(all, BigInt));
    const of = (settings: Case["settings"]) =>
      lossOf("bce", { task: "classification", outputs: 5, settings });
    const some = of({ ignore_index: 2 }), target = labels(0, 1, 2, 2), first = narrow(output, 0, 0, 2);
    assertAlmostEquals(some.apply(output, target).item(), of({}).apply(first, labels(0, 1)).item(), 1e-6);
    assertEquals([some.validCount(target), some.apply(output, labels(2, 2, 2, 2)).item()], [2, 0]);
  });
  const refused = () => lossOf("bce(target_threshold=0.2)", { task: "regression", outputs: 2 });
  assertRefusal("usage", "core/models/losses: a threshold of numbers", assertThrows(refused, UserError));
});
