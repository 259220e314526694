// Binary cross entropy of several classes, each against the others, as timm trains with (BinaryCrossEntropy).
import { add, constant, scale } from "../../ffi/make.ts";
import { div, eq, gt, ne, reshape, sum, toDtype, where } from "../../ffi/ops.ts";
import { opmathType } from "../../ffi/dtype.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { classNumbers } from "./class_losses.ts";
import { ignoredAmongShares, widened } from "./cross_entropy.ts";
import type { Loss } from "./losses.ts";
import type { Facts } from "./model.ts";
import type { Compare } from "./number_losses.ts";
import { MEAN, SUM } from "./reduction.ts";
import { isSoft } from "./targets.ts";
import { meanOverValid } from "./valid_points.ts";

interface Options {
  readonly compare: Compare;
  readonly smoothing: number;
  /** Shares above it are 1, and others 0. */
  readonly threshold: number | null;
  readonly ignored: number;
}

/** A sample's mean is over the classes. */
export function bceOfClasses(facts: Facts, { compare, smoothing, threshold, ignored }: Options): Loss {
  const shares = (target: Tensor, output: Tensor): Tensor => {
    const count = output.shape[1], off = smoothing / count;
    if (isSoft(target)) {
      const wide = widened(target, output);
      return smoothing === 0 ? wide : add(scale(wide, 1 - smoothing), constant(off, wide.dtype, wide.device));
    }
    const own = eq(
      reshape(toDtype(target, "i64"), [-1, 1]),
      reshape(classNumbers(count, target.device), [1, count]),
    );
    const value = (share: number) => constant(share, opmathType(output.dtype), target.device);
    return where(own, value(1 - smoothing + off), value(off));
  };
  const known = (labels: Tensor): Tensor => ne(labels, constant(ignored, labels.dtype, labels.device));
  return {
    name: "bce",
    like: "cross_entropy",
    counts: "samples",
    outputs: facts.outputs,
    ignored,
    note:
      `bce takes each of the ${facts.outputs} classes against the others; --loss cross_entropy takes one of them`,
    apply(output, target) {
      if (isSoft(target) && ignored >= 0) throw ignoredAmongShares(ignored);
      const soft = shares(target, output), { device } = output;
      const wanted = threshold === null
        ? soft
        : toDtype(gt(soft, constant(threshold, soft.dtype, device)), opmathType(output.dtype));
      if (ignored < 0) return compare(output, wanted, MEAN, null);
      const valid = known(target),
        all = compare(output, wanted, SUM, reshape(toDtype(valid, opmathType(output.dtype)), [-1, 1]));
      return meanOverValid(div(all, constant(output.shape[1], all.dtype, device)), valid);
    },
    validCount: (target) =>
      ignored < 0 || isSoft(target) ? target.shape[0] : scope(() => Number(sum(known(target)).itemBigInt())),
  };
}
