// Models by name: from settings and what the data says to a model. May import core/errors, config, model, zoo.
import { MODEL_NAMES } from "../config/settings_model.ts";
import type { Config } from "../config/settings.ts";
import { didYouMean } from "../config/suggest.ts";
import { isCode } from "../user/export.ts";
import { userModel } from "../user/model.ts";
import { userFile } from "../user/opened.ts";
import { UserError } from "../errors.ts";
import { exportedModel, isExported } from "./exported/model.ts";
import type { Facts, Model } from "./model.ts";
import { atLeast, attentionSizes, imageSizes, patchSize, refuse, sized } from "./sizes.ts";
import { cosmoCnn } from "./zoo/cosmo_cnn.ts";
import { gpt } from "./zoo/gpt.ts";
import { mlp } from "./zoo/mlp.ts";
import { resnet, type ResnetName } from "./zoo/resnet.ts";
import { simpleConvnet } from "./zoo/simple_convnet.ts";
import { unet } from "./zoo/unet.ts";
import { vit } from "./zoo/vit.ts";

/** @internal */
type Settings = Config["model"];
type Build = (settings: Settings, facts: Facts, outputs: number) => Model;

const product = (shape: readonly number[]) => shape.reduce((total, size) => total * size, 1);

/** A negative dropout stands for the model's own. */
const ownDropout = ({ dropout }: Settings) => dropout < 0 ? undefined : dropout;

const resnetBuilder = (name: ResnetName): Build => (settings, facts, outputs) =>
  resnet(name, { channels: imageSizes(settings, facts).channels, outputs });

const builders: Readonly<Record<(typeof MODEL_NAMES)[number], Build>> = {
  mlp(settings, facts, outputs) {
    if (facts.task === "language" || facts.task === "segmentation") {
      refuse("mlp", facts, "one answer per sample");
    }
    const shape = facts.input.shape;
    const inputs = sized("input_size", settings.input_size, product(shape), "features per sample");
    const { hidden_size: hidden, layers } = settings;
    return mlp({ inputs, hidden, layers, outputs, dropout: ownDropout(settings), flatten: shape.length > 1 });
  },
  "simple-convnet": (settings, facts, outputs) =>
    simpleConvnet({ ...imageSizes(settings, facts), outputs, dropout: ownDropout(settings) }),
  "cosmo-cnn": (settings, facts, outputs) =>
    cosmoCnn({
      ...imageSizes(settings, facts),
      filters: settings.width || 8, // enough for the statistics of fields, and quick on two cores
      outputs,
      dropout: ownDropout(settings),
    }),
  resnet18: resnetBuilder("resnet18"),
  resnet34: resnetBuilder("resnet34"),
  resnet50: resnetBuilder("resnet50"),
  resnet101: resnetBuilder("resnet101"),
  unet(settings, facts, outputs) {
    if (facts.task === "classification") refuse("unet", facts, "an answer per pixel");
    const { channels } = imageSizes(settings, facts);
    return unet({ channels, filters: settings.width || 32, outputs });
  },
  gpt(settings, facts, outputs) {
    if (facts.task !== "language") refuse("gpt", facts, "sequences of tokens");
    return gpt({
      vocabulary: atLeast("vocab_size", settings.vocab_size, outputs, "tokens in its vocabulary"),
      context: atLeast("context", settings.context, facts.input.shape[0], "tokens in a sequence"),
      layers: settings.layers,
      ...attentionSizes(settings),
      dropout: ownDropout(settings),
    });
  },
  vit(settings, facts, outputs) {
    const { channels, height, width } = imageSizes(settings, facts);
    return vit({
      channels,
      height,
      width,
      patch: patchSize(settings.patch_size, height, width),
      layers: settings.layers,
      ...attentionSizes(settings),
      outputs,
      dropout: ownDropout(settings),
    });
  },
};

/** Every model's name, for help and "did you mean". */
export const MODELS: readonly string[] = MODEL_NAMES;

/**
 * The model of the settings, with fresh weights. `outputs` is what the last layer gives, the loss's wish
 * (Loss.outputs): it differs from facts.outputs for a loss that needs two numbers per target.
 */
export function createModel(settings: Settings, facts: Facts, outputs = facts.outputs): Model {
  if (isCode(settings.name)) return userModel(userFile(settings.name), facts, outputs, { ...settings });
  if (isExported(settings.name)) {
    return exportedModel(settings.name, { facts, outputs, blocks: settings.blocks, inputs: settings.inputs });
  }
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
  return builders[settings.name as keyof typeof builders](settings, facts, outputs);
}
