// Running metrics of a task: accuracy and top-5, R2 and MAE, perplexity. Every sample counts once, whatever the
// split into batches, because only sums are kept. Values are read from the device one batch late, so that the
// next batch is queued before the wait. May import ffi, data facts.
import { sub, toNumbers } from "../../ffi/make.ts";
import { abs, argmax, cat, eq, flatten, reshape, square, sum, sumDim, toDtype, topk } from "../../ffi/ops.ts";
import { gt, narrow, ne, unsqueeze, zerosLike } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Facts } from "../models/model.ts";

export type Metrics = Record<string, number>;

export interface RunningMetrics {
  /** `loss` is the mean over `items` valid items of this batch. */
  observe(output: Tensor, target: Tensor, loss: Tensor, items: number): void;
  result(): { loss: number; items: number; metrics: Metrics };
  /** The sums so far, for a checkpoint in the middle of an epoch, and back. */
  sums(): number[];
  restore(sums: readonly number[]): void;
}

interface Kind {
  readonly size: number;
  /** This batch's sums as one f64 vector of `size`. */
  measure(output: Tensor, target: Tensor): Tensor | null;
  finish(sums: Float64Array, loss: number, items: number): Metrics;
}

/** `full` adds the metrics that cost more than they tell in every training step (top-5). */
export function runningMetrics(facts: Facts, lossName: string, full: boolean): RunningMetrics {
  const kind = kindOf(facts, lossName, full);
  let lossSum = 0, items = 0;
  const totals = new Float64Array(kind.size);
  let late: { loss: Tensor; values: Tensor | null; items: number } | null = null;

  const settle = () => {
    if (late === null) return;
    if (late.items > 0) lossSum += late.loss.item() * late.items; // the mean over nothing is NaN
    items += late.items;
    if (late.values) {
      const values = toNumbers(late.values);
      for (let i = 0; i < totals.length; i++) totals[i] += values[i];
      late.values.free();
    }
    late.loss.free();
    late = null;
  };

  return {
    observe(output, target, loss, count) {
      const values = scope(() => kind.measure(output, target));
      settle();
      late = { loss: keep(sum(loss)), values: values && keep(values), items: count };
    },
    result() {
      settle();
      const loss = items === 0 ? NaN : lossSum / items;
      return { loss, items, metrics: kind.finish(totals, loss, items) };
    },
    sums() {
      settle();
      return [lossSum, items, ...totals];
    },
    restore(sums) {
      settle();
      [lossSum, items] = sums;
      totals.set(sums.slice(2));
    },
  };
}

function kindOf(facts: Facts, lossName: string, full: boolean): Kind {
  if (facts.task === "language") return perplexity;
  if (lossName === "bce" && facts.task !== "regression") return binaryAccuracy;
  if (lossName === "cross_entropy") return accuracy(full && facts.outputs > 5);
  return facts.task === "regression" && lossName !== "bce" ? r2(facts.outputs) : none;
}

const none: Kind = { size: 0, measure: () => null, finish: () => ({}) };

const perplexity: Kind = {
  size: 0,
  measure: () => null,
  finish: (_, loss) => ({ perplexity: Math.exp(loss) }),
};

/** Classes stand in dimension 1, for images of labels too. An ignored target equals no class. */
function accuracy(top5: boolean): Kind {
  const count = (hits: Tensor) => reshape(sum(hits, "f64"), [1]);
  return {
    size: top5 ? 2 : 1,
    measure(output, target) {
      const right = count(eq(argmax(output, 1), target));
      if (!top5) return right;
      const [, best] = topk(output, 5, 1);
      return cat([right, count(eq(best, unsqueeze(target, 1)))]);
    },
    finish: (sums, _, items): Metrics =>
      top5 ? { accuracy: sums[0] / items, top5: sums[1] / items } : { accuracy: sums[0] / items },
  };
}

/** One logit per item: positive means class 1. */
const binaryAccuracy: Kind = {
  size: 1,
  measure: (output, target) =>
    reshape(
      sum(eq(reshape(gt(output, zerosLike(output)), target.shape), ne(target, zerosLike(target))), "f64"),
      [1],
    ),
  finish: (sums, _, items) => ({ accuracy: sums[0] / items }),
};

/** Per target: sums of t, t^2 and (y - t)^2, in f64; R2 is the mean over targets, as scikit-learn has it. */
function r2(targets: number): Kind {
  const column = (t: Tensor) => sumDim(t, [0], false, "f64");
  return {
    size: 3 * targets + 1,
    measure(output, target) {
      const t = flatten(target.shape.length > 1 ? target : unsqueeze(target, 1), 1);
      const y = flatten(output.shape.length > 1 ? output : unsqueeze(output, 1), 1);
      // A loss such as Gaussian NLL predicts more than the mean: the means come first.
      const predicted = y.shape[1] === t.shape[1] ? y : narrow(y, 1, 0, t.shape[1]);
      const wide = toDtype(t, "f64");
      const error = sub(predicted, t);
      return cat([
        column(wide),
        column(square(wide)),
        column(square(error)),
        reshape(sum(abs(error), "f64"), [1]),
      ]);
    },
    finish(sums, _, items) {
      const rows = items / targets;
      let total = 0;
      for (let k = 0; k < targets; k++) {
        const spread = sums[targets + k] - sums[k] ** 2 / rows;
        const error = sums[2 * targets + k];
        // A target that never varies can only be met or missed.
        total += spread > 0 ? 1 - error / spread : error === 0 ? 1 : 0;
      }
      return { r2: total / targets, mae: sums[3 * targets] / items };
    },
  };
}
