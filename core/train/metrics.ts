// Running metrics of a task: accuracy and top-5, R2 and MAE, perplexity. Every sample counts once, whatever the
// split into batches, because only sums are kept. Values are read from the device one batch late, so that the
// next batch is queued before the wait. May import ffi, models (types).
import { type Arriving, arriving } from "../../ffi/arriving.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { constant, sub, toNumbers } from "../../ffi/make.ts";
import {
  abs,
  argmax,
  cat,
  eq,
  flatten,
  gt,
  maskedFill,
  narrow,
  ne,
  reshape,
  square,
  sum,
  sumDim,
  toDtype,
  topk,
  unsqueeze,
  zerosLike,
} from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { classesSecond, isSoft, type Loss } from "../models/losses.ts";
import type { Facts } from "../models/model.ts";
import type { UserMetrics } from "../user/judging.ts";

export type Metrics = Record<string, number>;

export interface RunningMetrics {
  /** `loss` is the mean over `items` valid items of this batch. The shard matters where they are kept apart by it. */
  observe(output: Tensor, target: Tensor, loss: Tensor, items: number, shard?: number): void;
  result(): { loss: number; items: number; metrics: Metrics };
  /** What is observed from here on can be taken back, at any time before the next mark. */
  mark(): void;
  undo(): void;
  /** The sums so far, for a checkpoint in the middle of an epoch, and back; those of shards are added up. */
  sums(): number[];
  restore(sums: readonly number[]): void;
}

interface Kind {
  readonly size: number;
  /** This batch's sums as one f64 vector of `size`. */
  measure(output: Tensor, target: Tensor): Tensor | null;
  finish(sums: Float64Array, loss: number, items: number): Metrics;
}

/** `full` adds the metrics that cost more than they tell in every training step (top-5); `own` are the user's. */
export function runningMetrics(
  facts: Facts,
  loss: Pick<Loss, "name" | "like" | "ignored">,
  full: boolean,
  own: UserMetrics | null = null,
): RunningMetrics {
  const kind = own ? withOwn(kindOf(facts, loss, full), own) : kindOf(facts, loss, full);
  let lossSum = 0, items = 0;
  const totals = new Float64Array(kind.size);
  let late: { loss: Arriving; values: Arriving | null; items: number } | null = null;

  // Noted when the first batch after the mark comes: reading what was before it would wait for the device.
  let marked = false;
  let before: { lossSum: number; items: number; totals: Float64Array } | null = null;

  const settle = () => {
    if (late === null) return;
    const { loss, values, items: count } = late;
    late = null;
    const mean = loss.take((t) => t.item());
    if (count > 0) lossSum += mean * count; // the mean over nothing is NaN
    items += count;
    values?.take(toNumbers).forEach((value, i) => totals[i] += value);
  };

  return {
    observe(output, target, loss, count) {
      const [mean, sums] = noGrad(() => [sum(loss), scope(() => kind.measure(output, target))]);
      const now = { loss: arriving(keep(mean)), values: sums && arriving(keep(sums)), items: count };
      settle();
      if (marked) before = { lossSum, items, totals: totals.slice() };
      marked = false;
      late = now;
    },
    mark() {
      marked = true;
      before = null;
    },
    undo() {
      settle();
      marked = false;
      if (before === null) return; // nothing came
      ({ lossSum, items } = before);
      totals.set(before.totals);
      before = null;
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
      lossSum = items = 0;
      totals.fill(0);
      for (let at = 0; at < sums.length; at += 2 + kind.size) {
        lossSum += sums[at];
        items += sums[at + 1];
        for (let i = 0; i < kind.size; i++) totals[i] += sums[at + 2 + i];
      }
    },
  };
}

function kindOf(
  facts: Facts,
  loss: Pick<Loss, "name" | "like" | "ignored">,
  full: boolean,
): Kind {
  const { like, ignored } = loss, name = like ?? loss.name;
  if (like === "none") return none;
  if (facts.task === "language") return perplexity;
  if (name === "bce" && facts.task !== "regression") return binaryAccuracy;
  if (name === "cross_entropy") return accuracy(full && facts.outputs > 5, ignored);
  return facts.task === "regression" && name !== "bce" ? r2(facts.outputs) : none;
}

/** The user's metrics are kept behind the task's: their sums over samples, and the number of samples. */
function withOwn(kind: Kind, own: UserMetrics): Kind {
  const { names } = own;
  return {
    size: kind.size + names.length + 1,
    measure(output, target) {
      const first = kind.measure(output, target);
      const count = constant(target.shape[0], "f64", output.device);
      return cat([...(first ? [first] : []), own.sums(output, target), reshape(count, [1])], 0);
    },
    finish(sums, loss, items) {
      const count = sums[sums.length - 1];
      const values = names.map((name, i) => [name, sums[kind.size + i] / count]);
      return { ...kind.finish(sums.subarray(0, kind.size), loss, items), ...Object.fromEntries(values) };
    },
  };
}

const none: Kind = { size: 0, measure: () => null, finish: () => ({}) };

const perplexity: Kind = {
  size: 0,
  measure: () => null,
  finish: (_, loss) => ({ perplexity: Math.exp(loss) }),
};

/** Classes stand in dimension 1, for images of labels too. Of shares of classes the largest is the label. */
function accuracy(top5: boolean, ignored = -1): Kind {
  // A negative target equals no class that is predicted, so an ignored one is no hit; 0, the padding, has to become one.
  const counted = (target: Tensor) => {
    if (ignored < 0) return target;
    const [none, gone] = [-1, ignored].map((value) => constant(value, target.dtype, target.device));
    return maskedFill(target, eq(target, gone), none);
  };
  const count = (hits: Tensor) => reshape(sum(hits, "f64"), [1]);
  return {
    size: top5 ? 2 : 1,
    measure(output, target) {
      const labels = isSoft(target) ? argmax(target, 1) : counted(target);
      const scores = classesSecond(output, labels);
      const right = count(eq(argmax(scores, 1), labels));
      if (!top5) return right;
      const [, best] = topk(scores, 5, 1);
      return cat([right, count(eq(best, unsqueeze(labels, 1)))]);
    },
    finish: (sums, _, items): Metrics =>
      top5 ? { accuracy: sums[0] / items, top5: sums[1] / items } : { accuracy: sums[0] / items },
  };
}

/** One logit per item: positive means class 1. */
const binaryAccuracy: Kind = {
  size: 1,
  measure(output, target) {
    const labels = isSoft(target) && target.shape[1] === 2 ? argmax(target, 1) : target;
    const hits = eq(reshape(gt(output, zerosLike(output)), labels.shape), ne(labels, zerosLike(labels)));
    return reshape(sum(hits, "f64"), [1]);
  },
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
