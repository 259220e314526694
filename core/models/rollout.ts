// A model of the next step is fed with its own predictions, step after step: static fields and forcings come from
// the data. Its input is the rows as they are stored, so that a prediction takes a row's place before anything is
// normalised or filled.
import { upcast } from "../../ffi/make.ts";
import { cat, eq, narrow, where } from "../../ffi/ops.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { type Activation, type Block, forward, type Model } from "./model.ts";

export interface Rollout {
  /** Steps of the longest one: so many leads have the targets. */
  readonly most: number;
  /** Rows that the model sees, and the channels of each. */
  readonly history: number;
  readonly channels: number;
  /** The input has so many rows behind the sample's own: none where the data forces nothing. */
  readonly ahead: number;
  /** Each step has so many channels of its own, behind all rows. */
  readonly extra: number;
  /** The target whose prediction takes a channel's place; -1 where the data has it. */
  readonly fed: readonly number[];
  /** It stands for missing inputs: 0 behind the scaling, numbers before it, or nothing. */
  readonly fill: "zero" | readonly number[] | null;
  /** Scales and fills rows as the model sees them. */
  readonly prepare: (rows: Tensor) => Tensor;
}

/**
 * It takes fewer steps where training begins with fewer.
 * @internal
 */
export interface RolledOut extends Model {
  readonly rollout: { readonly most: number; steps: number };
}

/** `parts`: outputs of each target, of which `point` is the prediction. */
export function rolledOut(inner: Model, plan: Rollout, parts: number, point: number): RolledOut {
  const { most, history, channels, ahead, extra, prepare } = plan;
  const rollout = { most, steps: most };
  const targets = 1 + Math.max(...plan.fed);
  const rowOf = (input: Tensor, index: number) =>
    narrow(input, 1, Math.min(index, history - 1 + ahead) * channels, channels);
  const windowOf = (input: Tensor, done: Tensor | null, step: number): Tensor => {
    const last = rowOf(input, history - 1);
    const rows = Array.from({ length: history }, (_, j) => {
      const index = step + j, row = rowOf(input, index);
      if (index < history || done === null) return row;
      const at = point * step * targets + (index - history) * targets;
      return withPredicted(row, last, narrow(done, 1, at, targets), plan.fed);
    });
    const seen = prepare(rows.length === 1 ? rows[0] : cat(rows, 1));
    return extra === 0
      ? seen
      : cat([seen, narrow(input, 1, (history + ahead) * channels + step * extra, extra)], 1);
  };
  const blocks = Array.from({ length: most }, (_, step): Block => ({
    name: `step ${step + 1}`,
    module: inner.root,
    forward(x: Activation): Activation {
      const [first, handed] = Array.isArray(x) ? x as readonly Tensor[] : [null, x as Tensor];
      const input = handed, isLast = step === most - 1;
      if (step >= rollout.steps) return isLast ? first! : x;
      const answer = forward(inner, windowOf(input, first, step));
      const own = upcast(Array.isArray(answer) ? answer[0] : answer as Tensor);
      const all = first === null ? own : joined(first, own, step * targets, targets, parts);
      return isLast ? all : [all, input];
    },
  }));
  return {
    ...inner,
    rollout,
    blocks,
    describe: () => `${inner.describe()}, fed with its own predictions for up to ${most} steps`,
  };
}

/** Where the last known row is missing, such as on land, a prediction is missing, too. */
function withPredicted(row: Tensor, last: Tensor, predicted: Tensor, fed: readonly number[]): Tensor {
  const pieces: Tensor[] = [];
  for (let from = 0, to = 0; from < fed.length; from = to) {
    const isFed = fed[from] >= 0;
    for (to = from + 1; to < fed.length && (fed[to] >= 0) === isFed; to++) {
      if (isFed && fed[to] !== fed[to - 1] + 1) break;
    }
    const count = to - from;
    if (!isFed) pieces.push(narrow(row, 1, from, count));
    else {
      const known = narrow(last, 1, from, count);
      pieces.push(where(eq(known, known), narrow(predicted, 1, fed[from], count), known));
    }
  }
  return pieces.length === 1 ? pieces[0] : cat(pieces, 1);
}

/** Outputs have all steps of the first part first, as those of several leads have. */
function joined(before: Tensor, next: Tensor, many: number, few: number, parts: number): Tensor {
  const pieces = Array.from({ length: parts }, (_, part) => [
    narrow(before, 1, part * many, many),
    narrow(next, 1, part * few, few),
  ]);
  return cat(pieces.flat(), 1);
}
