// A loss and metrics from users' files. May import ffi, errors, models (types), its siblings.
import { constant } from "../../ffi/make.ts";
import { mul, reshape, stack, toDtype } from "../../ffi/ops.ts";
import { Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../errors.ts";
import type { Loss } from "../models/losses.ts";
import type { Facts } from "../models/model.ts";
import { describe, type UserFile } from "./export.ts";

export const LIKE_A_LOSS =
  "It should look like: export default ({ ops }) => (output, target) => ops.mean(...), the mean over the " +
  "samples of a batch. To begin with one: hpctrain new loss.";
export const LIKE_METRICS =
  "It should look like: export default ({ ops }) => ({ name: (output, target) => ops.mean(...) }), each the " +
  "mean over the samples of a batch. To begin with one: hpctrain new metric.";

type Judge = (output: Tensor, target: Tensor) => Tensor;

/** Counts samples: its mean over a batch weighs as many as there are in it. */
export function userLoss(file: UserFile, facts: Facts): Loss {
  const made = file.make({ facts });
  const apply = typeof made === "function" ? made as Judge : (made as { loss?: Judge } | null)?.loss;
  if (typeof apply !== "function") {
    throw new UserError(
      "usage",
      `${file.path}: the function returned ${describe(made)}, and not a loss. ${LIKE_A_LOSS}`,
    );
  }
  const { outputs = facts.outputs } = made as { outputs?: number };
  return {
    name: "own",
    outputs,
    apply: (output, target) => checked(apply(output, target), `${file.path}: the loss`),
    validCount: (target) => target.shape[0],
  };
}

function checked(value: unknown, what: string): Tensor {
  if (value instanceof Tensor && value.numel === 1) return value;
  const found = value instanceof Tensor ? `a tensor of ${value.shape.join(" x ")}` : describe(value);
  throw new UserError(
    "usage",
    `${what} gave ${found}, and it must give one number as a tensor: the mean over the batch.`,
  );
}

/** @internal */
export interface UserMetrics {
  readonly names: readonly string[];
  /** Each metric's sum over the samples of this batch, as one f64 vector. */
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
      `${file.path}: the function returned ${describe(made)}, and not metrics by name. ${LIKE_METRICS}`,
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
