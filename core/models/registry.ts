// Builds models by name from the settings and the facts of the data, whose sizes must agree.
import { MODEL_NAMES } from "../settings/sections/model.ts";
import type { Config } from "../settings/settings.ts";
import { didYouMean } from "../base/suggest.ts";
import { isCode, userFile } from "./user/file.ts";
import { userModel } from "./user/made.ts";
import { UserError } from "../base/errors.ts";
import { exportedModel, isExported } from "./exported/model.ts";
import { pixelShuffle } from "../../ffi/ops.ts";
import { adaptLayers } from "./nn/lora.ts";
import { block, type Facts, type Model } from "./model.ts";
import { convLstm } from "./zoo/convlstm.ts";
import { cosmoCnn, simpleConvnet } from "./zoo/convnets.ts";
import { convnext, type ConvnextName } from "./zoo/convnext.ts";
import { fno } from "./zoo/fno.ts";
import { gpt } from "./zoo/gpt.ts";
import { mlp } from "./zoo/mlp.ts";
import { resnet, type ResnetName } from "./zoo/resnet.ts";
import { checkUnetDepth, deepestUnet, unet } from "./zoo/unet.ts";
import { vit } from "./zoo/vit.ts";

/** @internal */
type Settings = Config["model"];
type Build = (settings: Settings, facts: Facts, outputs: number) => Model;

const product = (shape: readonly number[]) => shape.reduce((total, size) => total * size, 1);

/** A negative dropout stands for the model's own. */
const ownDropout = ({ dropout }: Settings) => dropout < 0 ? undefined : dropout;

const resnetBuilder = (name: ResnetName): Build => (settings, facts, outputs) =>
  resnet(name, {
    channels: imageSizes(settings, facts).channels,
    outputs,
    stochasticDepth: settings.stochastic_depth,
  });

const convnextBuilder = (name: ConvnextName): Build => (settings, facts, outputs) => {
  const { channels, height, width } = imageSizes(settings, facts);
  if (Math.min(height, width) < LEAST_SIDE) {
    throw new UserError(
      "usage",
      `${name} makes images ${LEAST_SIDE} times smaller, and these are ${height} x ${width}: make them larger ` +
        `(--resize ${LEAST_SIDE} or more), or choose another --model.`,
    );
  }
  return convnext(name, { channels, outputs, ...(settings.width > 0 && { width: settings.width }) });
};

/** Pixels: four for the stem, and two for each of three stages. */
const LEAST_SIDE = 32;

const builders: Readonly<Record<(typeof MODEL_NAMES)[number], Build>> = {
  mlp(settings, facts, outputs) {
    if (facts.task === "language" || facts.task === "segmentation") {
      refuseData("mlp", facts, "one answer per sample");
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
      filters: settings.width || 8, // These are enough for the statistics of fields, and quick on two cores.
      outputs,
      dropout: ownDropout(settings),
      padding: settings.padding,
    }),
  resnet18: resnetBuilder("resnet18"),
  resnet34: resnetBuilder("resnet34"),
  resnet50: resnetBuilder("resnet50"),
  resnet101: resnetBuilder("resnet101"),
  convnext_tiny: convnextBuilder("convnext_tiny"),
  convnext_small: convnextBuilder("convnext_small"),
  convnext_base: convnextBuilder("convnext_base"),
  unet(settings, facts, outputs) {
    if (facts.task === "classification") refuseData("unet", facts, "an answer per pixel");
    const { channels, sides } = mapSizes(settings, facts);
    const { padding, attention, residual } = settings;
    const depth = settings.depth || Math.max(1, Math.min(3, deepestUnet(sides, padding)));
    checkUnetDepth(depth, sides, padding);
    const filters = settings.width || 32, heads = settings.heads || 4;
    if (attention === "bottom") checkHeads(filters << depth, heads);
    return unet({
      ...{ channels, filters, outputs, depth, padding, residual, attention, heads },
      dims: sides.length === 3 ? 3 : 2,
      dropout: ownDropout(settings),
    });
  },
  convlstm(settings, facts, outputs) {
    if (facts.task === "classification") refuseData("convlstm", facts, "an answer per pixel");
    const { channels } = imageSizes(settings, facts), { history: steps = 1 } = facts.input;
    if (steps === 1) {
      throw new UserError(
        "usage",
        "the model convlstm follows steps of time, and a sample has one: give it several with --history 12, say.",
      );
    }
    const { layers, padding } = settings;
    if (layers === 0) throw new UserError("usage", "the model convlstm needs at least --layers 1.");
    return convLstm({
      ...{ channels, steps, layers, outputs, padding },
      filters: settings.width || 32,
      dropout: ownDropout(settings),
    });
  },
  fno(settings, facts, outputs) {
    if (facts.task === "classification") refuseData("fno", facts, "an answer per pixel");
    const { channels, height, width } = imageSizes(settings, facts);
    const most = Math.floor(Math.min(height, width) / 2);
    if (settings.modes > most || most === 0) {
      throw new UserError(
        "usage",
        most === 0
          ? `the model fno needs waves, and maps of ${height} x ${width} have none: choose another --model.`
          : `maps of ${height} x ${width} have ${most} frequencies a side, and model.modes is ${settings.modes}: ` +
            `set --modes to ${most} or less, or leave it out.`,
      );
    }
    const modes = settings.modes || Math.min(12, most);
    return fno({ channels, filters: settings.width || 32, layers: settings.layers, modes, outputs });
  },
  gpt(settings, facts, outputs) {
    if (facts.task !== "language") refuseData("gpt", facts, "sequences of tokens");
    return gpt({
      vocabulary: atLeast("vocab_size", settings.vocab_size, outputs, "tokens in its vocabulary"),
      context: atLeast("context", settings.context, facts.input.shape[0], "tokens in a sequence"),
      layers: settings.layers,
      ...attentionSizes(settings),
      dropout: ownDropout(settings),
      stochasticDepth: settings.stochastic_depth,
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
      stochasticDepth: settings.stochastic_depth,
      padding: settings.padding,
    });
  },
};

/** Their blocks add to what they are given. */
const RESIDUAL = /^(resnet\d+|vit|gpt)$/;

const isBuiltIn = (name: string): name is keyof typeof builders => Object.hasOwn(builders, name);

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
        `model.name is one of: ${MODELS.join(", ")}.`,
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

/** A setting of 0 takes the data's size, any other must equal it. */
function sized(key: string, setting: number, found: number, what: string): number {
  if (setting !== 0 && setting !== found) {
    throw new UserError(
      "usage",
      `model.${key} is ${setting}, but the data has ${found} ${what}: set model.${key} to ${found}, ` +
        "or leave it out.",
    );
  }
  return found;
}

/** A setting of 0 takes the data's size, any other must be as large. */
function atLeast(key: string, setting: number, found: number, what: string): number {
  if (setting !== 0 && setting < found) {
    throw new UserError(
      "usage",
      `model.${key} is ${setting}, but the data has ${found} ${what}: set model.${key} to ${found} or more, ` +
        "or leave it out.",
    );
  }
  return setting || found;
}

function imageSizes(
  settings: { name: string; channels: number; image_size: number },
  facts: Facts,
): { channels: number; height: number; width: number } {
  const shape = facts.input.shape;
  if (shape.length !== 3) refuseData(settings.name, facts, "images [channels, height, width]");
  const [channels, height, width] = shape;
  sized("channels", settings.channels, channels, "channels");
  for (const side of [height, width]) sized("image_size", settings.image_size, side, "pixels a side");
  return { channels, height, width };
}

/** Maps, or volumes of three dimensions. */
function mapSizes(settings: Settings, facts: Facts): { channels: number; sides: readonly number[] } {
  const [channels, ...sides] = facts.input.shape;
  if (sides.length !== 3) {
    const { channels, height, width } = imageSizes(settings, facts);
    return { channels, sides: [height, width] };
  }
  sized("channels", settings.channels, channels, "channels");
  for (const side of sides) sized("image_size", settings.image_size, side, "points a side");
  return { channels, sides };
}

function checkHeads(width: number, heads: number): void {
  if (width % heads === 0) return;
  throw new UserError(
    "usage",
    `the ${width} channels at the bottom of unet can't be shared by ${heads} heads: set --heads to a number that divides ` +
      "them, or --width to another.",
  );
}

/** Attention has so many where model.heads is 0. */
export const HEADS = 4;

function attentionSizes(settings: { embed: number; heads: number }): { embed: number; heads: number } {
  const embed = settings.embed || 128, heads = settings.heads || HEADS;
  if (embed % heads !== 0) {
    throw new UserError(
      "usage",
      `model.embed ${embed} can't be shared by ${heads} heads: set model.embed to a multiple of model.heads, ` +
        `e.g. ${Math.ceil(embed / heads) * heads}.`,
    );
  }
  return { embed, heads };
}

/** So many patches of one pixel each are too many to attend to. */
const MANY_PIXELS = 4096;

/** A setting of 0 takes the largest side that leaves at least 16 patches; images are padded to whole patches. */
function patchSize(setting: number, height: number, width: number): number {
  const divides = (side: number) => height % side === 0 && width % side === 0;
  const enough = (side: number) => height * width >= 16 * side * side;
  if (setting === 0) {
    const fitting = [16, 8, 4, 2].find((side) => divides(side) && enough(side));
    return fitting ?? (height * width > MANY_PIXELS ? 16 : 1);
  }
  if (setting > Math.min(height, width)) {
    throw new UserError(
      "usage",
      `model.patch_size ${setting} is larger than images of ${height} x ${width}: ` +
        `set --patch-size to ${Math.min(height, width)} or less, or leave it out.`,
    );
  }
  return setting;
}

function refuseData(name: string, facts: Facts, wanted: string): never {
  throw new UserError(
    "usage",
    `the model ${name} needs ${wanted}, but this data is for ${facts.task} ` +
      `with samples of shape [${facts.input.shape.join(", ")}]: choose another --model or other data.`,
  );
}
