// Checks what the function of a user's file made: a model, a loss or metrics.
import { UserError } from "../../base/errors.ts";
import { type Activation, type Block, type Facts, type Model, model, parameterCount } from "../model.ts";
import { Module } from "../nn/module.ts";
import { Tensor } from "../../../ffi/tensor.ts";
import { asMistake, describeValue, type UserFile } from "./file.ts";
import type { ModelSettings } from "./library.ts";
import { constant } from "../../../ffi/make.ts";
import { mul, reshape, stack, toDtype } from "../../../ffi/ops.ts";
import type { Loss } from "../losses.ts";

export const MODEL_EXAMPLE =
  "It should look like: export default ({ nn }) => new Net(), where Net is a class that extends " +
  "nn.Module and has forward(x). To begin with one: hpctrain new model.";

/** The loss wants `outputs` of the last layer. */
export function userModel(file: UserFile, facts: Facts, outputs: number, settings: ModelSettings): Model {
  const made = file.make({ facts, outputs, settings });
  const name = file.path.split("/").at(-1)!.replace(/\.\w+$/, "");
  const built = made instanceof Module ? ofModule(name, made, file.path) : made;
  if (!isModel(built)) {
    throw new UserError(
      "usage",
      `${file.path}: the function returned ${describeValue(made)}, and not a model. ${MODEL_EXAMPLE}`,
    );
  }
  const names = built.root.stateDict().map(([name]) => name);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) {
    throw new UserError(
      "usage",
      `${file.path}: two tensors of the model are called ${twice}, and a checkpoint holds one of each name: give each part ` +
        "that this.child(name, module) or this.parameter(name, tensor) registers a name of its own.",
    );
  }
  if (parameterCount(built.root) === 0) {
    throw new UserError(
      "usage",
      `${file.path}: this model has no parameters. A module's own tensors are registered with this.parameter(name, tensor), ` +
        "and the modules in it with this.child(name, module).",
    );
  }
  return built;
}

interface WithForward {
  forward(x: Tensor): Tensor;
}

const hasForward = (root: Module): root is Module & WithForward =>
  "forward" in root && typeof root.forward === "function";

function ofModule(name: string, root: Module, path: string): Model {
  if (!hasForward(root)) {
    throw new UserError(
      "usage",
      `${path}: the class ${root.constructor.name} has no forward(x). ${MODEL_EXAMPLE}`,
    );
  }
  const run = (x: Activation): Activation => {
    let y: unknown;
    try {
      y = root.forward(x as Tensor);
    } catch (error) {
      throw error instanceof Error ? error : asMistake(error, path);
    }
    if (y instanceof Tensor) return y;
    const what = y === undefined
      ? "nothing: a return is missing"
      : y instanceof Promise
      ? "a Promise: it must not be async"
      : `${describeValue(y)}, and it must be one tensor`;
    throw new UserError("usage", `${path}: forward(x) of ${root.constructor.name} returned ${what}.`);
  };
  const block: Block = { name, module: root, forward: run };
  const parts = root.modules().length - 1;
  return model(name, root, [block], { layers: `${parts} modules` });
}

function isModel(value: unknown): value is Model {
  const { root, blocks, describe: describes } = (value ?? {}) as Partial<Model>;
  return root instanceof Module && Array.isArray(blocks) && blocks.length > 0 &&
    typeof describes === "function";
}

export const LOSS_EXAMPLE =
  "It should look like: export default ({ ops }) => (output, target) => ops.mean(...), the mean over the " +
  "samples of a batch. To begin with one: hpctrain new loss.";
export const SCHEDULE_EXAMPLE =
  "It should look like: export default (step, { total }) => 1 - step / total, the factor of the learning rate at a step.";
export const OPTIMIZER_EXAMPLE =
  "It should look like: export default ({ ops }) => ({ slots: [], update: ({ parameter, gradient, lr }) => ({ parameter: " +
  "ops.sub(parameter, gradient, lr) }) }). To begin with one: hpctrain new optimizer.";
export const METRICS_EXAMPLE =
  "It should look like: export default ({ ops }) => ({ name: (output, target) => ops.mean(...) }), each the " +
  "mean over the samples of a batch. To begin with one: hpctrain new metric.";

type Judge = (output: Tensor, target: Tensor) => Tensor;

/** A batch weighs as many samples as it has. */
export function userLoss(file: UserFile, facts: Facts): Loss {
  const made = file.make({ facts });
  const apply = typeof made === "function" ? made as Judge : (made as { loss?: Judge } | null)?.loss;
  if (typeof apply !== "function") {
    throw new UserError(
      "usage",
      `${file.path}: the function returned ${describeValue(made)}, and not a loss. ${LOSS_EXAMPLE}`,
    );
  }
  const { outputs = facts.outputs } = made as { outputs?: number }, classes = facts.task !== "regression";
  return {
    name: "own",
    outputs,
    ...(classes && { like: outputs === facts.outputs ? "cross_entropy" : "none" }),
    apply: (output, target) => checked(apply(output, target), `${file.path}: the loss`),
    validCount: (target) => target.shape[0],
  };
}

function checked(value: unknown, what: string): Tensor {
  if (value instanceof Tensor && value.numel === 1) return value;
  const found = value instanceof Tensor ? `a tensor of ${value.shape.join(" x ")}` : describeValue(value);
  throw new UserError(
    "usage",
    `${what} gave ${found}, and it must give one number as a tensor: the mean over the batch.`,
  );
}

/** @internal */
export interface UserMetrics {
  readonly names: readonly string[];
  /** The f64 vector has each metric's sum over the samples of this batch. */
  sums(output: Tensor, target: Tensor): Tensor;
}

export function userMetrics(file: UserFile, facts: Facts): UserMetrics {
  const made = file.make({ facts });
  const entries = Object.entries(made ?? {}) as [string, Judge][];
  if (
    Array.isArray(made) || entries.length === 0 || entries.some(([, judge]) => typeof judge !== "function")
  ) {
    throw new UserError(
      "usage",
      `${file.path}: the function returned ${
        describeValue(made)
      }, and not metrics by name. ${METRICS_EXAMPLE}`,
    );
  }
  const odd = entries.find(([name]) => !/^[\w][\w .\/-]*$/.test(name));
  if (odd) {
    throw new UserError(
      "usage",
      `${file.path}: a metric is called ${
        JSON.stringify(odd[0])
      }: its name should begin with a letter and have letters, digits, ` +
        "_, -, ., / or spaces.",
    );
  }
  return {
    names: entries.map(([name]) => name),
    sums(output, target) {
      const count = constant(target.shape[0], "f64", output.device);
      const values = entries.map(([name, judge]) => {
        const value = checked(judge(output, target), `${file.path}: the metric ${name}`);
        return reshape(toDtype(value, "f64"), []);
      });
      return mul(stack(values, 0), count);
    },
  };
}
