import { PARTS } from "../../parts.ts";
import { bool, choice, float, int, list, text } from "../setting.ts";

/** core/models/registry.ts builds each. */
export const MODEL_NAMES: readonly string[] = Object.values(PARTS.models).flatMap(({ names }) => names);

/** A sample of theirs is an image or a map. */
export const takesImages = (name: string): boolean =>
  MODEL_NAMES.includes(name) && name !== "mlp" && name !== "gpt";

const size = (help: string, more: { flag?: string; empty?: string } = {}) =>
  int(0, { min: 0, max: 1_000_000_000, empty: "the model's own default", help, ...more });

export const model = {
  name: choice<string>(MODEL_NAMES, "mlp", {
    flag: "model",
    common: true,
    aliases: ["model"],
    orFile: { regex: /\.(ts|mts|js|mjs|pt2)$/i, says: "a file of a model's own (.ts, .pt2)" },
    help: "the model to train, by name or by file",
  }),
  code: text("", {
    empty: "none",
    help: "hash of the user's own files (.ts, .pt2), noted by the program",
  }),
  blocks: size("most blocks that an exported model is cut into, for gradient checkpointing (.pt2)", {
    flag: "blocks",
    empty: "as many as there are",
  }),
  inputs: list({
    flag: "inputs",
    empty: "by their names, or in their order",
    help: "which columns each input of an exported program takes (.pt2): x=temp,salinity,mask=mask",
  }),
  input_size: size("features a sample has (mlp)", { flag: "input-size", empty: "taken from the data" }),
  hidden_size: int(64, {
    min: 1,
    max: 1_000_000,
    flag: "hidden-size",
    help: "width of the hidden layers (mlp)",
  }),
  output_size: size("numbers the model predicts, or classes", {
    flag: "output-size",
    empty: "taken from the data",
  }),
  layers: int(2, {
    min: 0,
    max: 10_000,
    flag: "layers",
    help: "hidden layers of mlp; blocks of gpt, vit, fno and convlstm",
  }),
  dropout: float(-1, {
    min: -1,
    max: 1,
    below: true,
    flag: "dropout",
    empty: "the model's own",
    help: "share of activations dropped while training",
  }),
  stochastic_depth: float(0, {
    min: 0,
    max: 1,
    below: true,
    flag: "stochastic-depth",
    spellings: ["drop-path", "drop-path-rate"],
    empty: "off",
    help:
      "share of the samples that go without the last residual branch while training, growing from 0 at the first (resnet, vit, gpt)",
  }),
  channels: size("channels of the input images", { empty: "taken from the data" }),
  image_size: size("height and width of the input images, in pixels", { empty: "taken from the data" }),
  width: size("channels of the first stage (cosmo-cnn, unet, convnext) or of all layers (fno, convlstm)", {
    flag: "width",
  }),
  depth: size("times that maps are halved (unet)", {
    flag: "depth",
    empty: "3, or as often as small maps can be",
  }),
  residual: bool(false, {
    flag: "residual",
    help: "the input of each pair of convolutions is added to what they make of it, as in ResNet (unet)",
  }),
  attention: choice(["none", "gates", "bottom"], "none", {
    flag: "attention",
    about: {
      gates: "the level below says which points of a skip connection count (Attention U-Net)",
      bottom: "each point at the deepest level sees all others, with --heads 4",
    },
    help: "attention (unet): gates on the skip connections, or each point of the bottom over all others",
  }),
  modes: size("lowest frequencies of each dimension that a layer works on (fno)", {
    flag: "modes",
    empty: "12, or half of the shorter side",
  }),
  padding: choice(["zeros", "replicate", "reflect", "circular", "longitude"], "zeros", {
    flag: "padding",
    words: { zero: "zeros", constant: "zeros", edge: "replicate", wrap: "circular", periodic: "circular" },
    about: {
      zeros: "0",
      replicate: "the nearest value of the edge",
      reflect: "the map as in a mirror at its edge",
      circular: "the opposite edge, in both directions: periodic boxes",
      longitude:
        "the opposite edge in the last dimension (longitude), the nearest value in the other (latitude): global maps",
    },
    help:
      "what lies beyond the borders of maps (unet, convlstm, cosmo-cnn, vit), for convolutions and where sides are no multiples; longitude is " +
      "circular in the last dimension and replicates the edge in the other",
  }),
  lora_rank: int(0, {
    min: 0,
    max: 1_000_000,
    flag: "lora-rank",
    empty: "off",
    help: "train low-rank adapters of this rank beside frozen layers (LoRA); export merges them",
  }),
  lora_alpha: float(16, {
    min: 0,
    above: true,
    max: 1e6,
    flag: "lora-alpha",
    help: "what adapters add counts lora_alpha / lora_rank",
  }),
  lora_for: list({
    flag: "lora-for",
    empty: "all linear and convolutional layers but the head",
    help: "patterns of the layers that get adapters: transformer.h.*.attn",
  }),
  lora_dropout: float(0, {
    min: 0,
    max: 1,
    below: true,
    flag: "lora-dropout",
    help: "share of an adapter's inputs that is dropped while training",
  }),
  vocab_size: size("tokens in the vocabulary (gpt)", { empty: "taken from the data" }),
  context: size("longest sequence, in tokens (gpt)", { flag: "context" }),
  heads: size("attention heads (gpt, vit, unet)", { flag: "heads" }),
  embed: size("embedding width (gpt, vit)", { flag: "embed" }),
  bias: bool(true, {
    flag: "bias",
    help: "layers and norms have biases (gpt); nanoGPT's own models have none: --no-bias",
  }),
  patch_size: size("height and width of a patch, in pixels (vit)", { flag: "patch-size" }),
};
