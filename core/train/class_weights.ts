// --class-weights auto: a class counts the more, the rarer it is among the labels that a run trains with.
import { isFloating } from "../../ffi/dtype.ts";
import { toNumbers } from "../../ffi/make.ts";
import { sumDim } from "../../ffi/ops.ts";
import { scope } from "../../ffi/tensor.ts";
import { batchOf, plainPart, type Source } from "../data/source/source.ts";
import type { Config } from "../settings/settings.ts";

export const isAuto = (weights: readonly string[]): boolean => weights.join() === "auto";

/** Shares of classes settle long before. */
const MOST_SAMPLES = 4096;
const AT_ONCE = 64;

/**
 * Labels / (classes * labels of the class), scikit-learn's "balanced", of samples spread evenly over the data; a
 * class that none of them has counts 1. Null where nothing is to be measured.
 */
export function measuredWeights(
  { class_weights, ignore_index: ignored }: Config["training"],
  source: Source,
) {
  const { task, outputs } = source.facts;
  if (!isAuto(class_weights) || task === "regression") return null;
  const samples = Math.min(source.length, MOST_SAMPLES), counts = new Float64Array(outputs);
  for (let from = 0; from < samples; from += AT_ONCE) {
    const ids = Int32Array.from(
      { length: Math.min(AT_ONCE, samples - from) },
      (_, i) => Math.floor((from + i) * source.length / samples),
    );
    scope(() => {
      const { target } = batchOf(source, plainPart(ids));
      if (isFloating(target.dtype) && target.shape.length === 2) { // shares of classes
        toNumbers(sumDim(target, [0])).forEach((sum, label) => counts[label] += sum);
      } else for (const label of toNumbers(target)) if (label !== ignored && label >= 0) counts[label]++;
    });
  }
  const all = counts.reduce((sum, count) => sum + count, 0);
  return Array.from(counts, (count) => count === 0 ? 1 : all / (outputs * count));
}

export const weightsNote = (weights: readonly number[]): string =>
  `Class weights ${weights.map((weight) => weight.toPrecision(3)).join(", ")} (--class-weights auto)`;
