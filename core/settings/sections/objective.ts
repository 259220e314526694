// Declares what is minimised, and what is measured beside it.
import { choice, CODE_FILE, float, int, list, path, text } from "../setting.ts";

const LOSSES = [
  "auto",
  "cross_entropy",
  "mse",
  "l1",
  "huber",
  "gaussian_nll",
  "bce",
  "focal",
  "dice",
  "quantile",
  "crps",
  "spectral",
  "graph",
] as const;

/** Their targets are classes; bce takes numbers, too. */
export const CLASS_LOSSES: readonly string[] = ["cross_entropy", "focal", "dice"];

export const objective = {
  loss: choice(LOSSES, "auto", {
    flag: "loss",
    common: true,
    orFile: CODE_FILE,
    words: { pinball: "quantile" },
    about: {
      auto: "cross_entropy for classes, mse for numbers, graph where an exported program gives its own loss",
      cross_entropy:
        "of classes, or of a class for each pixel; with --class-weights a weighted mean, as PyTorch's",
      mse: "squared error",
      l1: "absolute error",
      huber: "squared error up to huber_delta, absolute beyond",
      gaussian_nll:
        "likelihood of a normal distribution; the model gives the means, then the logarithms of the variances",
      bce: "of logits, for two classes or numbers between 0 and 1, as torch's BCEWithLogitsLoss",
      focal: "cross entropy that counts what is predicted well less, by focal_gamma",
      dice: "overlap of areas, for a class for each pixel: of each sample and class, as MONAI's DiceLoss",
      quantile:
        "pinball loss of --quantiles; the model gives all targets' first quantile, then all targets' second, ...",
      crps:
        "ranked probability score of a normal distribution, in the target's units; outputs as for gaussian_nll",
      spectral:
        "squared error of maps, and spectral_weight times that of their amplitudes at each wavelength",
      graph: "the loss that an exported program gives",
    },
    help:
      "what is minimised; auto takes cross_entropy for classes and mse for numbers, but graph where an exported program " +
      "gives its own loss; or a TypeScript file",
  }),
  metric: path("", {
    flag: "metric",
    empty: "the task's own alone",
    pattern: CODE_FILE,
    help: "a TypeScript file with further metrics",
  }),
  label_smoothing: float(0, {
    min: 0,
    max: 1,
    below: true,
    flag: "label-smoothing",
    spellings: ["label-smoothing-factor"],
    help: "share of the target spread over all classes (cross_entropy)",
  }),
  ignore_index: int(-100, {
    min: -(2 ** 31),
    max: 2 ** 31 - 1,
    help: "class whose samples do not count (cross_entropy)",
  }),
  loss_weight: text("", {
    flag: "loss-weight",
    empty: "all points alike",
    help:
      "how much each point of a map counts in loss and metrics: cos(latitude), or a variable on the targets' grid",
  }),
  huber_delta: float(1, { min: 0, above: true, max: 1e9, help: "where huber turns from squared to linear" }),
  class_weights: list({
    flag: "class-weights",
    empty: "all alike",
    help:
      "what each class counts, in their order, such as 1,5,0.5; auto is the inverse of its share of the training labels (cross_entropy, focal)",
  }),
  focal_gamma: float(2, { min: 0, max: 100, help: "how much less counts what is predicted well (focal)" }),
  spectral_weight: float(1, {
    min: 0,
    max: 1e9,
    help: "what amplitudes count beside the squared error (spectral)",
  }),
  quantiles: list({
    flag: "quantiles",
    empty: "0.1,0.5,0.9",
    help: "which quantiles of each target the model gives, in rising order (quantile)",
  }),
};
