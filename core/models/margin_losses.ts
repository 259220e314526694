// Losses of classes by their margins, as torch.nn has them: of one class a sample, and of several.
import { add, constant, constantRowBeside, sub, upcast } from "../../ffi/make.ts";
import {
  div,
  eq,
  logSigmoid,
  mean,
  mul,
  multilabelMarginLoss,
  ne,
  neg,
  reshape,
  sum,
  sumDim,
  toDtype,
  where,
} from "../../ffi/ops.ts";
import { callOf } from "../../ffi/operators.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { classNumbers, type ClassWeights } from "./class_losses.ts";
import { sharesOfClasses } from "./cross_entropy.ts";
import type { Loss } from "./losses.ts";
import type { Facts } from "./model.ts";
import { MEAN } from "./reduction.ts";
import { inOutputShape, isSoft } from "./targets.ts";
import { meanOverValid, onlyValid } from "./valid_points.ts";

interface MarginOptions {
  readonly p: number;
  readonly margin: number;
  readonly ignored: number;
  readonly weights: ClassWeights | null;
}

const MULTI_MARGIN =
  "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=Mean) -> Tensor";

/** max(0, margin - score of the label + score of another)^p over the other classes; torch's mean is over samples. */
export function multiMargin(facts: Facts, { p, margin, ignored, weights }: MarginOptions): Loss {
  return {
    name: "multi_margin",
    like: "cross_entropy",
    counts: "samples",
    outputs: facts.outputs,
    ignored,
    apply(output, target) {
      if (isSoft(target)) throw sharesOfClasses("multi_margin");
      const labels = target.dtype === "i64" ? target : toDtype(target, "i64"), { device } = labels;
      const valid = ne(labels, constant(ignored, "i64", device));
      const scores = upcast(output), [count, classes] = scores.shape, { dtype } = scores;
      // The loss and gradient of a sample that doesn't count are 0: its class is above all others.
      const settled = where(reshape(valid, [-1, 1]), scores, above(classes, scores));
      const weight = weights && weights.of(classes, device);
      const all = callOf(MULTI_MARGIN)(settled, onlyValid(labels, valid), p, margin, weight, MEAN) as Tensor;
      return mul(all, meanOverValid(constant(count, dtype, device), valid)); // by 1 where all count, which keeps the bits
    },
    validCount: (target) =>
      scope(() => Number(sum(ne(target, constant(ignored, target.dtype, target.device))).itemBigInt())),
  };
}

/** The first class of a row. */
function above(classes: number, { dtype, device }: Tensor): Tensor {
  const first = eq(reshape(classNumbers(classes, device), [1, classes]), constant(0, "i64", device));
  return where(first, constant(Infinity, dtype, device), constant(0, dtype, device));
}

/** A sample's targets are the numbers of its classes, and -1 behind them. */
export const multilabelMargin = (facts: Facts): Loss => ({
  name: "multilabel_margin",
  like: "none",
  counts: "samples",
  outputs: facts.outputs,
  apply: (output, target) =>
    multilabelMarginLoss(output, toDtype(inOutputShape(target, output), "i64"), MEAN),
  validCount: (target) => target.shape[0],
});

/** Each class's logistic loss, the mean over classes, then over samples. */
export function multilabelSoftMargin(facts: Facts, given: readonly number[] | null): Loss {
  const weight = given && perTarget("weight of multilabel_soft_margin", given, facts.outputs);
  return {
    name: "multilabel_soft_margin",
    like: "none",
    counts: "samples",
    outputs: facts.outputs,
    apply(given, target) {
      const output = upcast(given);
      const truth = inOutputShape(target, output), one = constant(1, output.dtype, output.device);
      const both = add(mul(truth, logSigmoid(output)), mul(sub(one, truth), logSigmoid(neg(output))));
      const own = weight ? mul(neg(both), weight(output)) : neg(both);
      return mean(div(sumDim(own, [1]), constant(output.shape[1], output.dtype, output.device)));
    },
    validCount: (target) => target.shape[0],
  };
}

/** One number for all targets, or one for each along dimension 1, in the shape that spreads over an output. */
export function perTarget(what: string, given: readonly number[], count: number): (output: Tensor) => Tensor {
  if (
    given.length !== 1 && given.length !== count ||
    given.some((value) => !(value >= 0 && Number.isFinite(value)))
  ) {
    throw new UserError(
      "usage",
      `${what} takes one number for all targets or one for each, 0 or more, and this data has ${count}, but got ` +
        `${given.join(", ")}.`,
    );
  }
  const row = constantRowBeside(given);
  return (output) => {
    const { shape } = output;
    const sides = given.length === 1 ? 0 : Math.max(0, shape.length - 2);
    return sides === 0
      ? row(output)
      : reshape(row(output), [given.length, ...new Array<number>(sides).fill(1)]);
  };
}
