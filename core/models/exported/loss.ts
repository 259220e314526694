// A loss that is in the graph: to training a loss like any other. May import core/errors, losses (types), model (types),
// its siblings.
import type { Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../errors.ts";
import type { Loss } from "../losses.ts";
import type { Facts, Model } from "../model.ts";
import type { ExportedModel } from "./model.ts";
import type { Runner } from "./run.ts";
import type { Signature } from "./signature.ts";

/** Taken for a mean over the samples: a batch weighs as much as it has of them. */
export function graphLoss(runner: Runner, signature: Signature, facts: Facts | undefined): Loss {
  return {
    name: "graph",
    outputs: facts?.outputs ?? 0,
    like: facts ? likeness(signature, facts) : "none",
    apply: (_, target: Tensor) => runner.loss(target),
    validCount: (target) => target.shape[0],
  };
}

/** What the prediction can be compared with the targets as, for metrics. */
function likeness(
  { prediction }: Signature,
  { task, outputs, targetless }: Facts,
): NonNullable<Loss["like"]> {
  if (targetless) return "none";
  const sizes = prediction?.meta.sizes ?? [];
  const enough = (size: unknown) => typeof size === "number" && size >= outputs;
  switch (task) {
    case "classification":
      return sizes.length === 2 && enough(sizes[1]) ? "cross_entropy" : "none";
    case "segmentation":
      return sizes.length === 4 && enough(sizes[1]) ? "cross_entropy" : "none";
    case "language":
      return sizes.length === 3 && enough(sizes[2]) ? "cross_entropy" : "none";
    case "regression":
      return sizes.length === 2 && sizes[1] === outputs ? "mse" : "none";
  }
}

/** The loss to train with: the graph's own where it has one and no other was asked for. */
export function lossFor(model: Model, asked: string, chosen: Loss, facts: Facts): Loss {
  const { loss = null, labels = null, predicts = true, name } = model as Partial<ExportedModel>;
  if (asked === "graph" && !loss) {
    throw new UserError(
      "usage",
      `--loss graph takes the loss that an exported program (.pt2) has among its outputs, and ${name} has none: name ` +
        "one, such as --loss mse, or give an output the name loss in Python.",
    );
  }
  if (loss && (asked === "auto" || asked === "graph")) {
    if (facts.targetless && labels !== null) {
      throw nothingToPredict(`the loss of ${name} takes targets as ${labels}`);
    }
    return loss;
  }
  if (facts.targetless) {
    const why = loss ? `--loss ${asked} judges by targets` : `${name} has no loss of its own`;
    throw nothingToPredict(why);
  }
  if (loss && !predicts) {
    throw new UserError(
      "usage",
      `${name}: forward gives its loss alone, so --loss ${asked} has nothing to judge: leave --loss out.`,
    );
  }
  return chosen;
}

const nothingToPredict = (why: string) =>
  new UserError(
    "data",
    `All columns of the data are features, and ${why}: name what it predicts with --targets.`,
  );
