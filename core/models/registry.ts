// Models by name: from settings and what the data says to a model. May import core/errors, config, model, zoo.
import type { Config } from "../config/settings.ts";
import { didYouMean } from "../config/suggest.ts";
import { UserError } from "../errors.ts";
import type { Facts, Model } from "./model.ts";
import { refuse, sized } from "./sizes.ts";
import { mlp } from "./zoo/mlp.ts";

type Settings = Config["model"];
type Build = (settings: Settings, facts: Facts, outputs: number) => Model;

const product = (shape: readonly number[]) => shape.reduce((total, size) => total * size, 1);

const builders: Readonly<Record<string, Build>> = {
  mlp(settings, facts, outputs) {
    if (facts.task === "language" || facts.task === "segmentation") {
      refuse("mlp", facts, "one row per sample");
    }
    const inputs = sized(
      "input_size",
      settings.input_size,
      product(facts.input.shape),
      "features per sample",
    );
    const { hidden_size: hidden, layers, dropout } = settings;
    return mlp({
      inputs,
      hidden,
      layers,
      outputs,
      dropout: Math.max(0, dropout),
      flatten: facts.input.shape.length > 1,
    });
  },
};

/** Every model's name, for help and "did you mean". */
export const MODELS: readonly string[] = Object.keys(builders);

/**
 * The model of the settings, with fresh weights. `outputs` is what the last layer gives, the loss's wish
 * (Loss.outputs): it differs from facts.outputs for a loss that needs two numbers per target.
 */
export function createModel(settings: Settings, facts: Facts, outputs = facts.outputs): Model {
  if (!Object.hasOwn(builders, settings.name)) {
    throw new UserError(
      "usage",
      `there is no model "${settings.name}".${didYouMean(settings.name, MODELS)} ` +
        `model.name is one of: ${MODELS.join(", ")}.`,
    );
  }
  const what = facts.task === "regression" ? "targets per sample" : "classes";
  if (settings.output_size > facts.outputs && facts.task !== "regression" && outputs === facts.outputs) {
    outputs = settings.output_size; // classes that this data lacks do no harm
  } else sized("output_size", settings.output_size, facts.outputs, what);
  return builders[settings.name](settings, facts, outputs);
}
