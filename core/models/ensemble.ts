// Several models that answer as one, or one model that answers several times and drops other activations each
// time (MC dropout). The answer has the shape that a model's has: the mean of numbers and of quantiles, the normal
// distribution with the mean and variance of the mixture of all members', the logarithm of mean probabilities.
import { formatWhole } from "../base/format.ts";
import { manualSeed } from "../../ffi/context.ts";
import { add, constant, scale, sub, upcast, zeros } from "../../ffi/make.ts";
import { cat, exp, log, logSoftmax, maximum, mul, narrow, sigmoid, stack } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { key } from "../base/random.ts";
import { NORMAL } from "./distribution_losses.ts";
import type { Loss } from "./losses.ts";
import { type Facts, forward, type Model, parameterCount } from "./model.ts";
import { BatchNorm } from "./nn/norms.ts";
import { Group, type Module } from "./nn/module.ts";

export interface EnsembleMember {
  readonly model: Model;
  /** It brings a batch to what this member learnt with; null where that is the batch itself. */
  readonly input: ((x: Tensor) => Tensor) | null;
  /** It brings an answer to the scale of the first member's; null where it has that. */
  readonly output?: ((answer: Tensor) => Tensor) | null;
}

interface Sampling {
  /** Each member answers so often while it drops activations; 0 asks it once, without. */
  readonly passes: number;
  readonly seed: number;
  /** Members' answers are handed on behind the mean, as [samples, members, ...]. */
  readonly each: boolean;
}

interface Ensemble {
  readonly model: Model;
  readonly loss: Loss;
  /** The draws depend on the batch that comes next: on its first sample's place, and on its samples. */
  begin(sample: number, ids: Int32Array): void;
}

export function ensembleOf(
  members: readonly EnsembleMember[],
  loss: Loss,
  facts: Facts,
  { passes, seed, each }: Sampling,
): Ensemble {
  if (passes > 0) { for (const { model } of members) refuseWithoutDropout(model); }
  const how = mixtureOf(loss, facts), times = Math.max(1, passes);
  const root = new Group(Object.fromEntries(members.map(({ model }, i) => [String(i), model.root])));
  let first = 0;
  const answer = ({ model, input, output: brought }: EnsembleMember, draw: number, x: Tensor): Tensor => {
    if (passes > 0) {
      dropping(model.root);
      manualSeed(key(seed, "mc-dropout", draw, first));
    }
    const output = forward(model, input ? input(x) : x);
    const own = upcast(Array.isArray(output) ? output[0] : output as Tensor);
    return brought ? brought(own) : own;
  };
  const run = (x: Tensor): Tensor[] => {
    let state: State = [], count = 0;
    const points: Tensor[] = [];
    members.forEach((member, i) => {
      for (let pass = 0; pass < times; pass++) {
        const before = state;
        const { next, point } = scope(() => {
          const output = answer(member, i * times + pass, x);
          return { next: how.with(before, output, count), point: each ? how.point(output) : null };
        });
        for (const t of before) if (!points.includes(t)) t.free();
        state = next;
        count++;
        if (point) points.push(point);
      }
    });
    return [how.mixed(state, count), ...(each ? [stack(points, 1)] : [])];
  };
  const { name } = members[0].model, count = members.length * times;
  return {
    model: {
      ...{ name, root, convolutional: members[0].model.convolutional },
      blocks: [{ name: "members", module: root, forward: (x) => run(x as Tensor) }],
      drawing: [...new Set(members.flatMap(({ model }) => model.drawing ?? []))],
      describe: () => `${count} members of ${name}, ${formatWhole(parameterCount(root))} parameters`,
    },
    loss: how.loss,
    begin(sample, ids) {
      first = sample;
      for (const { model } of members) model.drawFor?.(seed, ids);
    },
  };
}

/** Batch norm keeps its running statistics. */
function dropping(root: Module): void {
  root.train(true);
  for (const module of root.modules()) if (module instanceof BatchNorm) module.training = false;
}

function refuseWithoutDropout({ root, draws, name }: Model): void {
  if (draws || root.modules().some((module) => "p" in module && Number(module.p) > 0)) return;
  throw new UserError(
    "usage",
    `--mc-dropout draws what a model drops, and this ${name} drops nothing: train it with --dropout 0.1, or give ` +
      "checkpoints of several seeds.",
  );
}

/** It sums up the members that have answered. */
type State = readonly Tensor[];

/** Answers come one after the other, so that memory holds one of them. */
interface Mixture {
  /** It judges the mixed answer. */
  readonly loss: Loss;
  /** The numbers of one member's answer that metrics would compare with targets. */
  point(output: Tensor): Tensor;
  /** `count` members came before. */
  with(state: State, output: Tensor, count: number): State;
  mixed(state: State, count: number): Tensor;
}

function mixtureOf(loss: Loss, facts: Facts): Mixture {
  if (loss.parts && !loss.levels && loss.logVariance === undefined) {
    throw new UserError(
      "usage",
      `several answers become one where a model gives numbers, quantiles or logarithms of variances, and that of the loss ` +
        `${loss.name} gives ${loss.parts.join(" and ")}: give one checkpoint, without --mc-dropout.`,
    );
  }
  if ((loss.like ?? loss.name) === "bce") return ofLogits(loss);
  if (facts.task !== "regression") return ofClasses(loss, facts);
  return loss.levels ? ofQuantiles(loss) : ofNumbers(loss);
}

/** The mean of what `of` makes of each answer; `back` is done to the mean. */
const meanOf = (of: (output: Tensor) => Tensor, back: (mean: Tensor) => Tensor) => ({
  with: ([total]: State, output: Tensor, count: number): State => [
    count === 0 ? of(output) : add(total, of(output)),
  ],
  mixed: ([total]: State, count: number): Tensor => back(scale(total, 1 / count)),
});

const same = (t: Tensor): Tensor => t;

const pointsOf = (output: Tensor, { parts, point = 0 }: Loss): Tensor => {
  if (!parts) return output;
  const count = output.shape[1] / parts.length;
  return narrow(output, 1, point * count, count);
};

const ofQuantiles = (loss: Loss): Mixture => ({
  loss,
  point: (output) => pointsOf(output, loss),
  ...meanOf(same, same),
});

/**
 * The mixture's variance is the mean of the members' variances and the variance of their means. The model's own loss
 * judges the means where members say nothing of a variance.
 */
function ofNumbers(loss: Loss): Mixture {
  const { logVariance } = loss;
  const centreOf = (output: Tensor) => pointsOf(output, loss);
  const varianceOf = (output: Tensor) => {
    const count = output.shape[1] / 2;
    return exp(narrow(output, 1, logVariance! * count, count));
  };
  return {
    loss: logVariance !== undefined ? loss : {
      ...loss,
      ...NORMAL,
      outputs: 2 * loss.outputs,
      apply: (output, target) => loss.apply(narrow(output, 1, 0, output.shape[1] / 2), target),
    },
    point: centreOf,
    with([centre, squares], output, count) {
      const value = centreOf(output);
      const own = logVariance === undefined ? zeros(value.shape, value) : varianceOf(output);
      if (count === 0) return [value, own];
      // Welford's update: no two large squares are subtracted.
      const from = sub(value, centre), moved = add(centre, scale(from, 1 / (count + 1)));
      return [moved, add(add(squares, own), mul(from, sub(value, moved)))];
    },
    mixed: ([centre, squares], count) => cat([centre, log(scale(squares, 1 / count))], 1),
  };
}

/** A smaller probability has no logarithm in f32. */
const LEAST = 1e-37;

const logOf = (p: Tensor): Tensor => log(maximum(p, constant(LEAST, p.dtype, p.device)));

/** Softmax of the mixed answer is the mean of the members' probabilities. */
function ofClasses(loss: Loss, { task, outputs }: Facts): Mixture {
  const last = ({ shape }: Tensor) => task === "language" || (shape.length === 3 && shape[1] !== outputs);
  const point = (output: Tensor) => exp(logSoftmax(output, last(output) ? output.shape.length - 1 : 1, null));
  return { loss, point, ...meanOf(point, logOf) };
}

/** A logit is that of the mean probability. */
function ofLogits(loss: Loss): Mixture {
  const back = (p: Tensor) => sub(logOf(p), logOf(sub(constant(1, p.dtype, p.device), p)));
  return { loss, point: sigmoid, ...meanOf(sigmoid, back) };
}
