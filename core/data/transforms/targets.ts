// --normalise-targets: the loss sees targets of mean 0 and deviation 1, as measured over the training samples. `restore` brings targets
// and outputs back to their own units, for metrics, predictions and the report.
import { opmathType } from "../../../ffi/dtype.ts";
import {
  add,
  constant,
  constantRowBeside,
  copyNumbers,
  sub,
  tensor,
  toNumbers,
  upcast,
} from "../../../ffi/make.ts";
import { div, eq, mul, reshape, square, sumDim, toDtype, where } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { lossOfOwnValues } from "../../settings/losses.ts";
import type { Config } from "../../settings/settings.ts";
import {
  type Batch,
  batchOf,
  finishThen,
  type Ids,
  type Normalisation,
  plainPart,
  type Source,
} from "../source/source.ts";
import { deviations, mergeMoments, type Moments, spreadOver } from "./statistics.ts";

const AT_ONCE = 256;

/** Null where nothing is asked for. A target that never varies is only centred. `silent`: the samples have no targets. */
export function targetScaleOf(
  data: Config["data"],
  train: Source,
  loss: string,
  notes: string[],
  { silent = false, most = Infinity }: { readonly silent?: boolean; readonly most?: number } = {},
): Normalisation | null {
  if (data.normalise_targets !== "on") return null;
  const { facts: { task, targetless }, target, name } = train;
  const given = scaleIn(data);
  if (task !== "regression" || (targetless || silent) && !given) {
    throw new UserError(
      "usage",
      `--normalise-targets is for targets that are numbers, and ${name} has ${
        targetless ? "none" : "classes"
      }: leave it out.`,
    );
  }
  const own = lossOfOwnValues(loss);
  const other = data.rollout !== ""
    ? "--rollout, whose model is fed with its own predictions"
    : own !== null
    ? `--loss ${own}, whose targets ${own === "bce" ? "lie between 0 and 1" : "mean something as they are"}`
    : null;
  if (other) {
    throw new UserError(
      "usage",
      `--normalise-targets does not go together with ${other}: leave one of them out.`,
    );
  }
  const scale = given ?? measured(train, most);
  const count = silent ? scale.mean.length : target.shape[0] ?? 1; // the model's answers are compared in `restore`
  if (scale.mean.length !== count || scale.std.length !== count) {
    throw new UserError(
      "usage",
      `data.target_mean and data.target_std have ${scale.mean.length} and ${scale.std.length} numbers, and ${name} has ${count} ` +
        "targets: give one for each.",
    );
  }
  const shown = scale.mean.slice(0, 4).map((mean, k) => `${digits(mean)} +- ${digits(scale.std[k])}`).join(
    ", ",
  );
  if (most === Infinity) {
    notes.push(`Targets are normalised: ${shown}${count > 4 ? `, and ${count - 4} more` : ""}`);
  }
  return scale;
}

const digits = (value: number) => String(Number(value.toPrecision(4)));

export function scaleIn({ target_mean, target_std }: Config["data"]): Normalisation | null {
  if (target_mean.length === 0 && target_std.length === 0) return null;
  const [mean, std] = [target_mean, target_std].map((texts) =>
    texts.map((text) => text.trim() === "" ? NaN : Number(text))
  );
  if ([...mean, ...std].every(Number.isFinite) && std.every((value) => value > 0)) return { mean, std };
  throw new UserError(
    "usage",
    "data.target_mean and data.target_std take numbers, one for each target, and deviations are above 0.",
  );
}

function measured(train: Source, most: number): Normalisation {
  const parts: Moments[] = [], { count, at } = spreadOver(train, most);
  for (let from = 0; from < count; from += AT_ONCE) {
    const ids = Int32Array.from({ length: Math.min(AT_ONCE, count - from) }, (_, i) => at(from + i));
    parts.push(scope(() => momentsOf(batchOf(train, plainPart(ids)).target)));
  }
  const all = mergeMoments(parts), std = deviations(all).map((value) => value > 0 ? value : 1);
  const odd = all.mean.findIndex((mean) => !Number.isFinite(mean));
  if (odd >= 0) {
    throw new UserError(
      "data",
      `--normalise-targets: target ${odd} of ${train.name} has infinity in it, so its mean can't be measured. Repair it, or ` +
        "leave such samples out with --bad-samples skip.",
    );
  }
  return { mean: all.mean, std };
}

/** NaN is missing. */
export function momentsOf(target: Tensor): Moments {
  const wide = toDtype(reshape(target, [target.shape[0], target.shape[1] ?? 1, -1]), "f64");
  const present = eq(wide, wide), zero = constant(0, "f64"), known = (t: Tensor) => where(present, t, zero);
  const valid = toNumbers(sumDim(present, [0, 2], false, "f64"));
  const sums = toNumbers(sumDim(known(wide), [0, 2], false));
  const mean = Array.from(sums, (sum, k) => valid[k] > 0 ? sum / valid[k] : 0);
  const middle = tensor(Float64Array.from(mean), [1, mean.length, 1]);
  const squares = [...toNumbers(sumDim(square(known(sub(wide, middle))), [0, 2], false))];
  return { count: target.shape[0] * wide.shape[2], valid: [...valid], mean, squares, min: mean, max: mean };
}

/** `judged`: the targets are also wanted as they are. */
export function withScaledTargets(
  source: Source,
  scale: Normalisation | null,
  { silent = false, judged = false }: { readonly silent?: boolean; readonly judged?: boolean } = {},
): Source {
  if (!scale) return source;
  const numbers = { mean: constantRowBeside(scale.mean), std: constantRowBeside(scale.std) },
    unscaled = unscaling(scale);
  const along = (of: keyof typeof numbers, t: Tensor) =>
    reshape(numbers[of](t), t.shape.map((_, i) => i === 1 ? scale.mean.length : 1));
  const shrunk = (target: Tensor) => {
    const t = upcast(target), wide = t.shape.length > 1 ? t : reshape(t, [-1, 1]);
    return reshape(div(sub(wide, along("mean", wide)), along("std", wide)), t.shape);
  };
  const scaled = (batch: Batch) =>
    scope(() => ({ ...batch, target: shrunk(batch.target), ...(judged && { unscaled: batch.target }) }));
  const made = finishThen(source, scaled, true), { host } = made;
  return {
    // Where nobody has told the targets, zeros stand for them, of another shape.
    ...(silent ? source : { ...made, bytewise: false, host: host && { ...host, bytewise: false } }),
    targetScale: scale,
    restoreUnscaled: source.restore && ((values, ids) => source.restore!(values, ids)),
    restore: (values: Tensor, ids: Ids, parts?: readonly boolean[]) =>
      scope(() => {
        const own = unscaled(values, parts);
        return source.restore ? source.restore(own, ids, parts) : own;
      }),
  };
}

/** So few numbers on the host are brought back sooner here than by two ops. */
const few = new Float32Array(1024);

/** With the bits of the ops, since an f64 has more than twice an f32's digits; null of more numbers, or others. */
function unscaledHere(values: Tensor, { mean, std }: Normalisation): Tensor | null {
  if (!copyNumbers(few, values)) return null;
  const { numel, shape } = values, points = numel / (shape[0] * mean.length);
  const factors = Float32Array.from(std), summands = Float32Array.from(mean);
  for (let at = 0; at < numel; at++) {
    const k = Math.floor(at / points) % mean.length;
    few[at] = Math.fround(few[at] * factors[k]) + summands[k];
  }
  return tensor(few.subarray(0, numel), shape);
}

/** Brings the answers of a model whose targets were scaled so to the targets' own units. */
type Unscaling = (values: Tensor, parts?: readonly boolean[]) => Tensor;

/** Parts of a distribution lie side by side; one that is no value is the logarithm of a variance. */
export function unscaling(scale: Normalisation): Unscaling {
  const count = scale.mean.length;
  const made = new Map<string, readonly [factor: Tensor, summand: Tensor]>();
  const on = ({ dtype, device }: Tensor, many: number, sides: number, parts?: readonly boolean[]) => {
    const isValue = (k: number) => parts?.length === many ? parts[k] : true;
    const key = JSON.stringify([dtype, device, many, sides, parts]);
    let cached = made.get(key);
    if (!cached) {
      const row = (value: (k: number) => number, other: (k: number) => number) => {
        const numbers = Float64Array.from(
          { length: many * count },
          (_, i) => (isValue(Math.floor(i / count)) ? value : other)(i % count),
        );
        const shape = [...(many === 1 ? [] : [many]), count, ...Array<number>(sides).fill(1)];
        return keep(tensor(numbers, shape, { dtype: opmathType(dtype), device }));
      };
      const { mean, std } = scale;
      cached = scope(() =>
        [
          row((k) => std[k], () => 1),
          row((k) => mean[k], (k) => 2 * Math.log(std[k])),
        ] as const
      );
      made.set(key, cached);
    }
    return cached;
  };
  return (values, parts) =>
    scope(() => {
      const [rows, all = 1, ...rest] = values.shape, each = all / (parts?.length ?? 1);
      if (each % count !== 0 || parts && each !== count) throw unlike(scale, each);
      const many = all / count;
      // Made before anything is brought back, so that a recording of a later pass finds them there.
      const [factor, summand] = on(values, many, rest.length, parts);
      const here = many === 1 && !parts ? unscaledHere(values, scale) : null;
      if (here !== null) return here;
      if (many === 1) return add(mul(values, factor), summand);
      const wide = reshape(values, [rows, many, count, ...rest]);
      return reshape(add(mul(wide, factor), summand), values.shape);
    });
}

const unlike = ({ mean }: Normalisation, answers: number): UserError =>
  new UserError(
    "usage",
    `data.target_mean and data.target_std have ${mean.length} numbers, and the model answers ${answers}: leave them out, for its ` +
      "checkpoint has its own.",
  );
