// Builds models by name, from the settings and the facts of the data: those of the zoo, and users' own.
import { MODEL_NAMES } from "../settings/sections/model.ts";
import { PARTS, type Parts } from "../parts.ts";
import { type Build, type Settings, sized } from "./builder.ts";
import { didYouMean } from "../base/suggest.ts";
import { isCode, userFile } from "./user/file.ts";
import { userModel } from "./user/made.ts";
import { UserError } from "../base/errors.ts";
import { exportedModel, isExported } from "./exported/model.ts";
import { pixelShuffle } from "../../ffi/ops.ts";
import { adaptLayers } from "./nn/lora.ts";
import { block, type Facts, type Model } from "./model.ts";

const ZOO: Parts<{ readonly models: Readonly<Record<string, Build>> }> = PARTS.models;

const builders: Readonly<Record<string, Build>> = Object.assign(
  {},
  ...await Promise.all(Object.values(ZOO).map(async ({ load }) => (await load()).models)),
);

/** Their blocks add to what they are given. */
const RESIDUAL = /^(resnet\d+|vit|gpt)$/;

const isBuiltIn = (name: string): boolean => Object.hasOwn(builders, name);

/** Every model's name, for help and "did you mean". */
export const MODELS: readonly string[] = MODEL_NAMES;

/**
 * The model of the settings, with fresh weights. `outputs` is what the last layer gives, the loss's wish
 * (Loss.outputs): it differs from facts.outputs for a loss that needs two numbers per target.
 */
export function createModel(settings: Settings, facts: Facts, outputs = facts.outputs): Model {
  if (settings.stochastic_depth > 0 && !RESIDUAL.test(settings.name)) {
    throw new UserError(
      "usage",
      `--stochastic-depth leaves residual branches out, and ${settings.name} has none that are known: take one of resnet18 to ` +
        "resnet101, vit and gpt, or leave it out.",
    );
  }
  const model = plainModel(settings, facts, outputs);
  if (settings.lora_rank > 0 && !isExported(settings.name)) adaptLayers(model.root, loraOf(settings));
  return model;
}

/** The head of a model of ours is its last layer; a file of the user's may have several. */
const loraOf = (
  { name, lora_rank: rank, lora_alpha: alpha, lora_for: only, lora_dropout: dropout }: Settings,
) => ({ rank, alpha, only, dropout, butLast: !isCode(name) });

function plainModel(settings: Settings, facts: Facts, outputs: number): Model {
  if (isCode(settings.name)) return userModel(userFile(settings.name), facts, outputs, { ...settings });
  if (isExported(settings.name)) {
    const { blocks, inputs } = settings, lora = settings.lora_rank > 0 ? loraOf(settings) : null;
    return exportedModel(settings.name, { facts, outputs, blocks, inputs, lora });
  }
  const { name } = settings;
  if (!isBuiltIn(name)) {
    throw new UserError(
      "usage",
      `there is no model "${name}".${didYouMean(name, MODELS)} ` +
        `--model is one of: ${MODELS.join(", ")}.`,
    );
  }
  const what = facts.task === "regression" ? "targets per sample" : "classes";
  if (settings.output_size > facts.outputs && facts.task !== "regression" && outputs === facts.outputs) {
    outputs = settings.output_size; // Classes that this data lacks do no harm.
  } else sized("output_size", settings.output_size, facts.outputs, what);
  const k = UPSCALING.includes(name) ? facts.upscale ?? 1 : 1;
  return upscaled(builders[name](settings, facts, outputs * k * k), k);
}

const UPSCALING: readonly string[] = ["unet", "convlstm", "fno"];

/** Each pixel's answers are k * k points of a finer map: sub-pixel convolution, as in ESPCN. */
const upscaled = (model: Model, k: number): Model =>
  k === 1 ? model : {
    ...model,
    blocks: [...model.blocks, block("upscale", null, (x) => pixelShuffle(x, k))],
    describe: () => `${model.describe()}, for maps ${k} times finer`,
  };
