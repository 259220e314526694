// One pass over samples: the moments of each channel and how often each class occurs. May import errors, source, ffi.
import { constant, sub, toBigInts, toNumbers } from "../../../ffi/make.ts";
import { amax, amin, div, isfinite, reshape, square, sumDim, toDtype } from "../../../ffi/ops.ts";
import { isFloating } from "../../../ffi/dtype.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../errors.ts";
import type { Batch, Source } from "../source.ts";
import { mergeMoments, mergeTwo, type Moments } from "./moments.ts";

/** What is measured: samples as the model would see them, if nothing were normalised or mixed. */
export interface Measurable extends Pick<Source, "name" | "length" | "facts"> {
  batch(ids: Int32Array): Batch;
}

/** Plain data, so that ranks can send it. */
export interface Measures {
  readonly samples: number;
  readonly input: Moments;
  /** Targets of each class; null where the target is no class. */
  readonly classes: readonly number[] | null;
}

/** Values looked at together: as doubles they take 8 MiB. */
const TOGETHER = 2 ** 20;
const MOST_SAMPLES = 4096;

/** The contiguous share of one of `world` ranks; null where it has no sample. `seen` is told how many are done. */
export function measure(
  what: Measurable,
  rank = 0,
  world = 1,
  seen: (done: number, of: number) => void = () => {},
): Measures | null {
  const { length, facts } = what;
  const [first, end] = [rank, rank + 1].map((at) => Math.floor(at * length / world));
  const size = facts.input.shape.reduce((total, side) => total * side, 1);
  const together = Math.max(1, Math.min(MOST_SAMPLES, Math.floor(TOGETHER / size)));
  const classes = classesOf(facts);
  let input: Moments | null = null;
  for (let from = first; from < end; from += together) {
    const ids = Int32Array.from({ length: Math.min(together, end - from) }, (_, i) => from + i);
    scope(() => {
      const batch = what.batch(ids);
      const part = momentsOf(batch.input);
      if (!part.mean.every(Number.isFinite)) throw notFinite(what, batch.input, from);
      input = input ? mergeTwo(input, part) : part;
      if (classes) countClasses(batch.target, classes);
    });
    seen(Math.min(from + together, end) - first, end - first);
  }
  return input && { samples: end - first, input, classes };
}

/** The ranks' shares together, in the order of ranks. */
export function mergeMeasures(shares: readonly (Measures | null)[]): Measures {
  const parts = shares.filter((share) => share !== null);
  return {
    samples: parts.reduce((sum, { samples }) => sum + samples, 0),
    input: mergeMoments(parts.map(({ input }) => input)),
    classes: parts[0].classes &&
      parts[0].classes.map((_, at) => parts.reduce((sum, { classes }) => sum + classes![at], 0)),
  };
}

/** The first dimension of a sample is the channel. */
export function momentsOf(values: Tensor): Moments {
  const [samples, channels = 1] = values.shape;
  return scope(() => {
    const stored = reshape(values, [samples, channels, -1]);
    const wide = toDtype(stored, "f64");
    const count = samples * wide.shape[2];
    const mean = div(sumDim(wide, [0, 2], true), constant(count, "f64"));
    const squares = sumDim(square(sub(wide, mean)), [0, 2]);
    const plain = (t: Tensor) => [...toNumbers(t)];
    return {
      count,
      mean: plain(mean),
      squares: plain(squares),
      min: plain(amin(stored, [0, 2])),
      max: plain(amax(stored, [0, 2])),
    };
  });
}

const classesOf = ({ task, outputs }: Source["facts"]): number[] | null =>
  task === "classification" || task === "segmentation" ? Array<number>(outputs).fill(0) : null;

/** Labels outside of the classes are those to ignore. Shares of classes (one-hot) are counted by their sums. */
function countClasses(target: Tensor, counts: number[]): void {
  if (isFloating(target.dtype)) {
    toNumbers(sumDim(target, [0])).forEach((sum, label) => counts[label] += sum);
    return;
  }
  for (const label of toBigInts(target)) if (label >= 0 && label < counts.length) counts[Number(label)]++;
}

function notFinite({ name }: Measurable, values: Tensor, from: number): UserError {
  const rows = toNumbers(amin(toDtype(reshape(isfinite(values), [values.shape[0], -1]), "u8"), [1]));
  return new UserError(
    "data",
    `${name}: training sample ${from + rows.indexOf(0)} (counted from 0) has NaN or infinity in it, ` +
      "so its mean can't be measured. Repair it, or leave such samples out with --bad-samples skip.",
  );
}
