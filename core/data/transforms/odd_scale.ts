// Some inputs and targets are not scaled unasked. Where a model will hardly learn from them as they are, a warning names them and the flag.
import { isFloating } from "../../../ffi/dtype.ts";
import { scope } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import type { InputColumn } from "../../models/model.ts";
import { batchOf, plainPart, type Source } from "../source/source.ts";
import { deviations, mergeMoments, type Moments } from "./statistics.ts";
import { momentsOf } from "./targets.ts";

/** Samples that are looked at, and numbers of them: the first ones, so that little of a large file is read. */
const MOST_SAMPLES = 1000, MOST_NUMBERS = 2 ** 22;

interface Odd {
  readonly which: number;
  readonly mean: number;
  readonly std: number;
}

export interface OddRequest {
  readonly inputs: boolean;
  readonly targets: boolean;
  /** The inputs' names, where each channel has one. */
  readonly features: readonly string[];
}

export function oddScales(train: Source, { inputs, targets, features }: OddRequest): string[] {
  const { input, target, facts, usual, names = [] } = train;
  const ofInputs = inputs && isFloating(input.dtype) && !usual;
  const ofTargets = targets && facts.task === "regression" && !facts.targetless;
  if (!ofInputs && !ofTargets) return [];
  const looked = look(train, ofInputs, ofTargets);
  if (looked === null) return [];
  const said = (field: "Input" | "Target", name: string | undefined, odd: Odd, flag: string) =>
    `${field} ${name ?? `${odd.which} (counted from 0)`} of ${train.name} has mean ${
      digits(odd.mean)
    } and deviation ${
      digits(odd.std)
    }, from which a model that doesn't scale it itself hardly learns: ${flag}.`;
  const whole = wholeChannels(facts.input.columns ?? []);
  const a = looked.input && oddOf(looked.input, whole), b = looked.target && oddOf(looked.target);
  const own = (list: readonly string[], count: number, { which }: Odd) =>
    list.length === count ? list[which] : undefined;
  return [
    ...(a
      ? [
        said(
          "Input",
          own(features, input.shape[0] ?? 1, a),
          a,
          "--normalise measured brings inputs to mean 0 and deviation 1, and --normalise off says that they are meant so",
        ),
      ]
      : []),
    ...(b
      ? [
        said(
          "Target",
          own(names, target.shape[0] ?? 1, b),
          b,
          "--normalise-targets lets the loss see targets of mean 0 and deviation 1, and --no-normalise-targets says that they are meant so",
        ),
      ]
      : []),
  ];
}

const digits = (value: number) => String(Number(value.toPrecision(3)));

/** Null where a sample can't be read: training says that better. */
function look(train: Source, ofInputs: boolean, ofTargets: boolean) {
  const each = train.input.shape.reduce((all, side) => all * side, 1);
  const count = Math.min(train.length, MOST_SAMPLES, Math.max(1, Math.floor(MOST_NUMBERS / each)));
  try {
    const parts: { input: Moments | null; target: Moments | null }[] = [];
    for (let from = 0; from < count; from += 100) {
      const ids = Int32Array.from({ length: Math.min(100, count - from) }, (_, i) => from + i);
      parts.push(scope(() => {
        const { input, target } = batchOf(train, plainPart(ids));
        return { input: ofInputs ? momentsOf(input) : null, target: ofTargets ? momentsOf(target) : null };
      }));
    }
    const all = (of: "input" | "target") => {
      const some = parts.flatMap((part) => part[of] ?? []);
      return some.length > 0 ? mergeMoments(some) : null;
    };
    return { input: all("input"), target: all("target") };
  } catch (error) {
    if (error instanceof UserError) return null;
    throw error;
  }
}

/** Classes and masks are no quantities. */
const wholeChannels = (columns: readonly InputColumn[]): boolean[] =>
  columns.flatMap(({ layout, whole }) => Array<boolean>(layout[0] ?? 1).fill(whole));

/** A channel that never varies tells a model nothing, on any scale. */
function oddOf(moments: Moments, skipped: readonly boolean[] = []): Odd | null {
  const std = deviations(moments), { mean } = moments;
  const which = mean.findIndex((mean, k) =>
    !skipped[k] && Number.isFinite(mean) && std[k] > 0 &&
    (Math.abs(mean) > 10 * std[k] || std[k] > 100 || std[k] < 0.01)
  );
  return which < 0 ? null : { which, mean: mean[which], std: std[which] };
}
