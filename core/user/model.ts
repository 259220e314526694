// What a user's file returns -> a model for the trainer. May import errors, models, its siblings.
import { UserError } from "../errors.ts";
import {
  type Activation,
  type Block,
  type Facts,
  type Model,
  model,
  parameterCount,
} from "../models/model.ts";
import { Module } from "../models/nn/module.ts";
import { Tensor } from "../../ffi/tensor.ts";
import { describe, type UserFile } from "./export.ts";
import type { ModelSettings } from "./library.ts";
import { asMistake } from "./mistakes.ts";

export const LIKE_A_MODEL =
  "It should look like: export default ({ nn }) => new Net(), where Net is a class that extends " +
  "nn.Module and has forward(x). To begin with one: hpctrain new model.";

/** The model of this file for data of these facts; `outputs` is what the loss wants of the last layer. */
export function userModel(file: UserFile, facts: Facts, outputs: number, settings: ModelSettings): Model {
  const made = file.make({ facts, outputs, settings });
  const name = file.path.split("/").at(-1)!.replace(/\.\w+$/, "");
  const built = made instanceof Module ? ofModule(name, made, file.path) : made;
  if (!isModel(built)) {
    throw new UserError(
      "usage",
      `${file.path}: the function returned ${describe(made)}, and not a model. ${LIKE_A_MODEL}`,
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

/** One block: the whole module. */
function ofModule(name: string, root: Module, path: string): Model {
  const { forward } = root as Partial<WithForward>;
  if (typeof forward !== "function") {
    throw new UserError(
      "usage",
      `${path}: the class ${root.constructor.name} has no forward(x). ${LIKE_A_MODEL}`,
    );
  }
  const run = (x: Activation): Activation => {
    let y: unknown;
    try {
      y = (root as unknown as WithForward).forward(x as Tensor);
    } catch (error) {
      throw error instanceof Error ? error : asMistake(error, path);
    }
    if (y instanceof Tensor) return y;
    const what = y === undefined
      ? "nothing: a return is missing"
      : y instanceof Promise
      ? "a Promise: it must not be async"
      : `${describe(y)}, and it must be one tensor`;
    throw new UserError("usage", `${path}: forward(x) of ${root.constructor.name} returned ${what}.`);
  };
  const block: Block = { name, module: root, forward: run };
  const parts = root.modules().length - 1;
  return model(name, root, [block], { layers: `${parts} modules` });
}

function isModel(value: unknown): value is Model {
  const { root, blocks, describe: said } = (value ?? {}) as Partial<Model>;
  return root instanceof Module && Array.isArray(blocks) && blocks.length > 0 && typeof said === "function";
}
