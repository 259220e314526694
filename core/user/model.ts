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
import type { Tensor } from "../../ffi/tensor.ts";
import { describe, type UserFile } from "./export.ts";
import type { ModelSettings } from "./library.ts";

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
    const y = (root as unknown as WithForward).forward(x as Tensor);
    if (y instanceof Promise || y === undefined) {
      const what = y === undefined ? "nothing: a return is missing" : "a Promise: it must not be async";
      throw new UserError("usage", `${path}: forward(x) of ${root.constructor.name} returned ${what}.`);
    }
    return y;
  };
  const block: Block = { name, module: root, forward: run };
  const parts = root.modules().length - 1;
  return model(name, root, [block], { layers: `${parts} modules` });
}

function isModel(value: unknown): value is Model {
  const { root, blocks, describe: said } = (value ?? {}) as Partial<Model>;
  return root instanceof Module && Array.isArray(blocks) && blocks.length > 0 && typeof said === "function";
}
