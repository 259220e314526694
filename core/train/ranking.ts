// The area under the ROC curve, for which an evaluation's scores are held all at once.
import { toNumbers, zeros } from "../../ffi/make.ts";
import { argmax, cat, copy_, narrow, reshape, toDtype } from "../../ffi/ops.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Source } from "../data/source/source.ts";
import type { Loss } from "../models/losses.ts";
import { isSoft } from "../models/targets.ts";
import type { Team } from "../ranks/team.ts";

/** All scores of an evaluation. */
export interface Ranking {
  /** `first` is the number of the first sample. */
  observe(first: number, output: Tensor, target: Tensor): void;
  /** All ranks call it. Empty where no class can be told from the others. */
  metrics(team: Team | null): Record<string, number>;
  close(): void;
}

/** Scores and labels that are held at once, 16 MiB of them. */
const MOST_HELD = 2 ** 21;

type Judged = Pick<Loss, "name" | "like" | "ignored">;

/** Null where a sample has no class, or where there are too many scores to hold. */
export function openRanking({ facts, length }: Source, loss: Judged, device: Device): Ranking | null {
  const name = loss.like ?? loss.name, oneLogit = name === "bce";
  if (facts.task !== "classification" || facts.targetless || !(oneLogit || name === "cross_entropy")) {
    return null;
  }
  const width = oneLogit ? 1 : facts.outputs, row = width + 1;
  if (length * row > MOST_HELD || facts.outputs < 2 && !oneLogit) return null;
  const buffer = keep(zeros([length, row], { dtype: "f64", device }));
  let odd = false;
  return {
    observe(first, output, target) {
      const count = target.shape[0];
      odd ||= output.numel !== count * width;
      if (odd) return;
      scope(() => {
        const labels = isSoft(target) && target.shape[1] > 1 ? argmax(target, 1) : target;
        const parts = [reshape(output, [count, width]), reshape(labels, [count, 1])];
        copy_(narrow(buffer, 0, first, count), cat(parts.map((t) => toDtype(t, "f64")), 1));
      });
    },
    metrics(team) {
      const [strange] = team ? team.reduce([odd ? 1 : 0], "max", "evaluation") : [odd ? 1 : 0];
      if (strange > 0) return {};
      // Rows that are other ranks' are zeros, which change no bit.
      if (team && team.world > 1) {
        team.collectives.wait(team.collectives.allReduce(buffer, "sum", "evaluation"));
      }
      const auroc = areaUnderCurves(toNumbers(buffer), width, loss.ignored ?? -1);
      const metrics: Record<string, number> = {};
      if (auroc !== null) metrics.auroc = auroc;
      return metrics;
    },
    close: () => buffer.free(),
  };
}

/**
 * The mean over classes of how often a sample of the class has a higher probability of it than a sample of
 * another; equal ones count half. Rows are `width` scores and a label. Null where there are no two classes.
 */
export function areaUnderCurves(rows: ArrayLike<number>, width: number, ignored: number): number | null {
  const row = width + 1, classes = Math.max(2, width), known: number[] = [];
  for (let at = 0; at < rows.length; at += row) {
    const label = rows[at + width];
    const inRange = width === 1 ? !Number.isNaN(label) : label >= 0 && label < classes;
    if (inRange && label !== ignored) known.push(at);
  }
  const labels = known.map((at) => width === 1 ? Number(rows[at + 1] !== 0) : rows[at + width]);
  const chances = width === 1 ? Float64Array.from(known, (at) => rows[at]) : softmaxOf(rows, known, width);
  // Both of two classes have the same area.
  const judged = classes === 2 ? [1] : Array.from({ length: classes }, (_, k) => k);
  const areas = judged.flatMap((k) => {
    const of = (own: boolean) =>
      Float64Array.from(
        labels.flatMap((label, i) =>
          (label === k) === own ? [chances[i * width + (width === 1 ? 0 : k)]] : []
        ),
      );
    const area = areaOf(of(true), of(false));
    return area === null ? [] : [area];
  });
  return areas.length === 0 ? null : areas.reduce((sum, area) => sum + area, 0) / areas.length;
}

function softmaxOf(rows: ArrayLike<number>, known: readonly number[], width: number): Float64Array {
  const made = new Float64Array(known.length * width);
  known.forEach((at, i) => {
    let most = -Infinity, sum = 0;
    for (let k = 0; k < width; k++) most = Math.max(most, rows[at + k]);
    for (let k = 0; k < width; k++) sum += made[i * width + k] = Math.exp(rows[at + k] - most);
    for (let k = 0; k < width; k++) made[i * width + k] /= sum;
  });
  return made;
}

/** Mann and Whitney's U, as a share of the pairs. NaN where a score is no number. */
function areaOf(own: Float64Array, others: Float64Array): number | null {
  if (own.length === 0 || others.length === 0) return null;
  if (own.some(Number.isNaN) || others.some(Number.isNaN)) return NaN;
  own.sort();
  others.sort();
  let below = 0, upTo = 0, pairs = 0;
  for (const score of own) {
    while (below < others.length && others[below] < score) below++;
    while (upTo < others.length && others[upTo] <= score) upTo++;
    pairs += (below + upTo) / 2;
  }
  return pairs / (own.length * others.length);
}
