// Brings a model's output and its targets to one shape, for losses and metrics.
import { upcast } from "../../ffi/make.ts";
import { isFloating } from "../../ffi/dtype.ts";
import {
  reshape,
  transpose,
  upsampleBilinear2d,
  upsampleLinear1d,
  upsampleTrilinear3d,
} from "../../ffi/ops.ts";
import { describe, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";

/** Mixing makes shares of classes [N, C] instead of class numbers [N]. */
export const isSoft = (target: Tensor): boolean => target.shape.length === 2 && isFloating(target.dtype);

/**
 * transformers give scores [N, T, C] with the classes last; PyTorch's cross_entropy has them second, [N, C,
 * T]. Where both are possible they are last.
 */
export const classesLast = (scores: Tensor, labels: Tensor): boolean =>
  scores.shape.length === 3 && labels.shape.length === 2 && scores.shape[1] === labels.shape[1];

/** Metrics look at scores with the classes second. */
export const classesSecond = (scores: Tensor, labels: Tensor): Tensor =>
  classesLast(scores, labels) ? transpose(scores, 1, 2) : scores;

/**
 * Scores [N, C, h, w] get the size of their labels [N, H, W]. Models such as SegFormer answer at a part of
 * that size, and their scores are meant to be interpolated.
 */
export function toLabels(scores: Tensor, labels: Tensor): Tensor {
  const [count, , ...from] = scores.shape, [items, ...to] = labels.shape;
  if (from.length !== to.length || from.length === 0 || from.join() === to.join()) return scores;
  if (count === items && from.every((size, i) => size <= to[i])) {
    const wide = upcast(scores);
    if (to.length === 1) return upsampleLinear1d(wide, to, false);
    if (to.length === 2) return upsampleBilinear2d(wide, to, false);
    if (to.length === 3) return upsampleTrilinear3d(wide, to, false);
  }
  throw new UserError(
    "data",
    `the labels are ${describe(labels)} but the model gives ${
      describe(scores)
    }: scores of a smaller map than the labels' ` +
      "are brought to its size, and these can't be. Choose a model that gives scores [samples, classes] + the labels' size, " +
      "or labels of the model's size.",
  );
}

/** They may be scores of so many classes for these labels. A loss of a user's own may take other outputs. */
export function areScores(output: Tensor, target: Tensor, classes: number): boolean {
  const labels = isSoft(target) && target.shape[1] > 1 ? target.shape.slice(0, 1) : target.shape;
  const [items, ...sides] = labels, { shape: [count, width, ...own] } = classesSecond(output, target);
  return count === items && width >= classes && own.length === sides.length &&
    own.every((size, i) => size <= sides[i]);
}

/** [N] stands for [N, 1]; any other shape would be broadcast in silence. */
export function inOutputShape(target: Tensor, output: Tensor): Tensor {
  const a = target.shape, b = output.shape;
  let i = a.length === b.length ? 0 : -1;
  while (i >= 0 && i < a.length && a[i] === b[i]) i++;
  if (i === a.length) return target;
  if (a[0] === b[0] && target.numel === output.numel) return reshape(target, b);
  throw new UserError(
    "data",
    `the targets are ${describe(target)} but the model gives ${describe(output)}: ` +
      `choose a model (and model.output_size) that gives one number per target${
        a.length === b.length && a.length > 2 && a[1] === 1 && b[1] > 1
          ? ", or say --loss cross_entropy if the targets are classes stored as floating numbers"
          : ""
      }.`,
  );
}
