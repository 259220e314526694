import { DATA_KIND_NAMES, DATA_KINDS } from "../formats.ts";
import { quote } from "../../base/shell.ts";
import { bool, choice, float, int, list, path, text } from "../setting.ts";

const DATA_FILE = {
  regex: /\.(ts|mts|js|mjs|py)$/,
  says: "a TypeScript or Python file",
  unlike: (text: string) =>
    `Its code gives the samples. Files of data are named by another flag: --data-path ${quote(text)}.`,
};

/** It stands for every sample that files have; none has more. */
export const ALL_SAMPLES = 1e12;

export const data = {
  type: choice(["auto", ...DATA_KIND_NAMES], "auto", {
    flag: "data-type",
    plain: ["DATA_TYPE"],
    common: true,
    aliases: ["data"],
    about: DATA_KINDS,
    help: "kind of data; auto looks at the data path, and is synthetic without one",
  }),
  data_path: path("", {
    flag: "data-path",
    plain: ["DATA_PATH", "DATA_DIR"],
    spellings: ["data-dir"],
    common: true,
    aliases: ["data.path"],
    empty: "none",
    help:
      "file or folder the data is read from, or the address of a Zarr store; several files by a glob in quotes, or with commas",
  }),
  validation_path: path("", {
    flag: "validation-path",
    empty: "a part of the data path",
    help: "file or folder of the samples to validate with, of the same variables on the same grid",
  }),
  test_path: path("", {
    flag: "test-path",
    empty: "none",
    help: "file or folder of samples that training never sees, for eval --on test",
  }),
  code: path("", {
    flag: "data",
    empty: "none",
    pattern: DATA_FILE,
    help: "a TypeScript or Python file that gives the samples",
  }),
  python: text("", {
    flag: "data-python",
    empty: "python3 on PATH",
    help: "program that runs a Python file of --data",
  }),
  features: list({
    flag: "features",
    common: true,
    empty: "all but the targets",
    help: "columns or variables the model sees",
  }),
  targets: list({
    flag: "targets",
    common: true,
    empty: "the last one",
    help: "columns or variables the model predicts",
  }),
  sel: list({
    flag: "sel",
    empty: "all",
    help: "part of named dimensions by their coordinates: time=1979..2012,lat=60..90,level=850,500",
  }),
  resample: text("", {
    flag: "resample",
    empty: "off",
    help:
      "means over steps of time: time=month, time=day or time=6 for six steps each, of the points that are there",
  }),
  coarsen: list({
    flag: "coarsen",
    empty: "off",
    help: "means over so many neighbouring places of dimensions, of the points that are there: lat=4,lon=4",
  }),
  sample_dim: text("", {
    flag: "sample-dim",
    empty: "the first one",
    help: "dimension that samples lie along; file means that each file is one sample",
  }),
  token_type: choice(["auto", "uint8", "uint16", "uint32"], "auto", {
    flag: "token-type",
    help:
      "what a file of tokens holds; auto tells uint16, uint32 and text apart, and uint8 takes any bytes as tokens",
  }),
  windows: choice(["shifted", "random", "fixed"], "shifted", {
    flag: "windows",
    before: "fixed",
    help: "where windows of tokens begin",
    about: {
      shifted: "side by side, from another place in each epoch: an epoch reads each token about once",
      random: "anywhere, each drawn again in each epoch, as nanoGPT does",
      fixed: "anywhere, each drawn once: every epoch has the same windows",
    },
  }),
  shuffle: bool(true, { flag: "shuffle", help: "a new order of the training samples each epoch" }),
  sampling: text("", {
    flag: "sampling",
    empty: "each once",
    pattern: { regex: /^(balanced|weights:\s*\S.*)$/, says: "balanced or weights:COLUMN" },
    help:
      "training samples that an epoch takes: balanced takes each class equally often, weights:COLUMN draws each sample as " +
      "often as a column of a table or grid says",
  }),
  validation_split: float(0.1, {
    min: 0,
    max: 1,
    below: true,
    flag: "validation-split",
    spellings: ["val-split"],
    common: true,
    help: "share held out for validation, where the data has no validation set of its own",
  }),
  split: text("auto", {
    flag: "split",
    common: true,
    pattern: {
      regex: /^(auto|random|time|blocks|file|stratified|fold:[1-9]\d{0,2}\/[1-9]\d{0,2}|group:\s*\S.*)$/,
      says: "auto, random, time, blocks, file, stratified, fold:2/5 or group:COLUMN",
    },
    help:
      "how the validation split of a table or grid is chosen: sample by sample at random, the last steps in time, " +
      "blocks of steps, the second of five parts of the time (fold:2/5), whole files, whole groups (group:COLUMN), or " +
      "with each class's share; auto is random, and time for samples of several steps",
  }),
  folds: int(0, {
    min: 0,
    max: 10_000,
    flag: "folds",
    empty: "off",
    help: "cross-validation: parts that the split makes, of which --fold validates",
  }),
  fold: int(1, { min: 1, max: 10_000, flag: "fold", help: "see folds; counted from 1" }),
  validate_on: text("", {
    flag: "validate-on",
    empty: "the validation split",
    help: "samples to validate with: times such as 2010..2014 or 2010-05, or COLUMN=VALUE,VALUE",
  }),
  test_on: text("", {
    flag: "test-on",
    empty: "none",
    help: "samples that training never sees, for eval --on test: times such as 2015.., or COLUMN=VALUE,VALUE",
  }),
  history: int(1, {
    min: 1,
    max: 10_000,
    flag: "history",
    help: "steps of time that are a sample's inputs: its own and those before it",
  }),
  lead: text("", {
    flag: "lead",
    common: true,
    empty: "the same step",
    pattern: {
      regex: /^\d{1,4}(\.\.\d{1,4})?(,\d{1,4}(\.\.\d{1,4})?)*$/,
      says: "steps such as 1, 1..6 or 1,3,6",
    },
    help: "steps of time from a sample's last input to its targets; each is an output of its own, NAME+1",
  }),
  rollout: text("", {
    flag: "rollout",
    empty: "off",
    pattern: {
      regex: /^[1-9]\d{0,3}(\.\.[1-9]\d{0,3})?$/,
      says: "steps such as 4, or 1..4 to begin training with 1",
    },
    help:
      "steps that a model of --lead 1 goes by its own predictions, in training, evaluation and predictions; forcings and " +
      "static features come from the data; 1..4 begins training with one step and ends with four",
  }),
  num_workers: int(8, {
    min: 0,
    max: 1024,
    flag: "num-workers",
    spellings: ["workers", "dataloader-num-workers"],
    common: true,
    help: "threads that load data (never more than there are cores); 0 loads in the training thread",
  }),
  train_samples: int(100_000, {
    min: 1,
    max: ALL_SAMPLES,
    words: { all: ALL_SAMPLES },
    flag: "train-samples",
    plain: ["TRAIN_SAMPLES"],
    spellings: ["max-train-samples"],
    common: true,
    help:
      "training samples to make, or the most to use of files; the default and a preset's number are for data that is " +
      "made, and files are used whole",
  }),
  val_samples: int(10_000, {
    min: 0,
    max: ALL_SAMPLES,
    words: { all: ALL_SAMPLES },
    flag: "val-samples",
    spellings: ["max-eval-samples"],
    common: true,
    help: "validation samples to make, or the most to use of files, which are used whole without it",
  }),
  stage: path("", {
    flag: "stage",
    empty: "off",
    help: "node-local folder to copy the data to before training",
  }),
  bad_samples: choice(["fail", "skip"], "fail", {
    flag: "bad-samples",
    help: "what a sample that cannot be read or is not finite does: end the run, or be left out",
  }),
  missing: choice(["auto", "fail", "mask"], "auto", {
    flag: "missing",
    help:
      "what a missing point (NaN, _FillValue) means: fail counts its sample as bad, mask keeps it out of losses, " +
      "metrics and statistics; auto masks maps, unless bad samples are skipped, and fails for plain numbers",
  }),
  fill: list({
    flag: "fill",
    empty: "0 after normalising",
    help:
      "stands for a missing input: mean, climatology (the mean of that point and season), nearest (the nearest point " +
      "of the map that is there), a number in the data's own units (one for all channels or one for each), or none: it " +
      "stays NaN",
  }),
  anomaly: list({
    flag: "anomaly",
    empty: "none",
    help:
      "features and targets taken as differences from their climatology over the training samples; predictions and " +
      "metrics are of the values themselves",
  }),
  climatology: choice(["auto", "month", "day"], "auto", {
    flag: "climatology",
    help:
      "seasons that climatologies are means over: months, or days of the year; auto is days for steps of days",
  }),
  climatology_channel: bool(false, {
    flag: "climatology-channel",
    help: "the climatology of each target, at the times that are predicted, as further channels of the input",
  }),
  mask_channel: bool(false, {
    flag: "mask-channel",
    help: "another channel of the input is 1 where nothing was missing and 0 elsewhere",
  }),
  in_memory: choice(["auto", "yes", "no"], "auto", {
    flag: "in-memory",
    help: "hold the data in memory; auto does where it takes no more than a quarter of what is free",
  }),
  external_files: bool(false, {
    flag: "external-files",
    help: "follow an HDF5 or NetCDF-4 file's links and storage into other files",
  }),
  prefetch_mib: int(256, {
    min: 1,
    max: 1_000_000,
    flag: "prefetch-mib",
    help: "most memory for batches that threads have read ahead, in MiB",
  }),
  normalise: choice(["auto", "none", "usual", "measured", "imagenet"], "auto", {
    flag: "normalise",
    common: true,
    aliases: ["data.normalize"],
    words: { off: "none", false: "none" },
    once: { auto: "usual" },
    before: "usual",
    about: {
      auto: "measured for a built-in model and a regression of data from files, else usual",
      none: "inputs as they are, and targets too, unless --normalise-targets is given",
      usual:
        "what the kind of data is used with: MNIST's own figures, ImageNet's for photographs, none for numbers",
      measured: "as measured over the training samples",
      imagenet: "ImageNet's figures, for values from 0 to 1",
    },
    help:
      "bring each channel to mean 0 and deviation 1: as measured over the training samples, or by ImageNet's " +
      "figures; auto is what the kind of data is used with, and measured for a built-in model's regression of files",
  }),
  mean: list({ flag: "mean", empty: "see normalise", help: "of each channel, to normalise with" }),
  std: list({ flag: "std", empty: "see normalise", help: "of each channel, to normalise with" }),
  normalise_targets: choice(["auto", "on", "off"], "auto", {
    flag: "normalise-targets",
    aliases: ["data.normalize_targets"],
    spellings: ["normalize-targets"],
    yes: "on",
    no: "off",
    bare: true,
    before: "off",
    help:
      "the loss sees each target with mean 0 and deviation 1, as measured over the training samples; metrics and " +
      "predictions are in its own units; auto does so for a built-in model's regression of files",
  }),
  target_mean: list({ empty: "measured", help: "of each target, to normalise with (normalise_targets)" }),
  target_std: list({ empty: "measured", help: "of each target, to normalise with (normalise_targets)" }),
  scaling: choice(["none", "log", "asinh"], "none", {
    flag: "scaling",
    help: "taken of each input value, before normalising: log(1 + x / softening), or asinh(x / softening)",
  }),
  softening: float(1, { min: 0, above: true, flag: "softening", help: "see scaling" }),
  resize: int(0, {
    min: 0,
    max: 65536,
    flag: "resize",
    empty: "off",
    help: "length of an image's shorter side",
  }),
  centre_crop: int(0, {
    min: 0,
    max: 65536,
    flag: "centre-crop",
    aliases: ["data.center_crop"],
    empty: "off",
    help: "side of the square taken from an image's middle",
  }),
  random_crop: int(0, {
    min: 0,
    max: 65536,
    flag: "random-crop",
    empty: "off",
    help: "side of the square taken from a random place in training, and from the middle in validation",
  }),
  patch: text("", {
    flag: "patch",
    empty: "whole maps",
    pattern: {
      regex: /^[1-9]\d{0,4}(x[1-9]\d{0,4})?$/,
      says: "rows x columns, such as 64x64, or one number for both",
    },
    help:
      "train with random patches of maps, such as 64x64; evaluation and predictions are of whole maps, of overlapping " +
      "patches whose answers are blended",
  }),
  patch_overlap: float(0.25, {
    min: 0,
    max: 0.9,
    flag: "patch-overlap",
    help: "share of a patch's sides that neighbours have in common in evaluation and predictions",
  }),
  patches_per_sample: int(1, {
    min: 1,
    max: 1_000_000,
    flag: "patches-per-sample",
    help: "random patches of each sample in an epoch",
  }),
  crop_padding: int(0, {
    min: 0,
    max: 65536,
    flag: "crop-padding",
    help: "zeros around an image before a random crop",
  }),
  flip: choice(["none", "horizontal", "both"], "none", {
    flag: "flip",
    help: "mirror training images at random",
  }),
  rotate: bool(false, { flag: "rotate", help: "turn training images by a random multiple of 90 degrees" }),
  vectors: list({
    flag: "vectors",
    empty: "none",
    help:
      "pairs of features or targets that are components of vectors, along longitude (x) and latitude (y): u10,v10; they " +
      "change signs and places where maps are mirrored or turned",
  }),
  augment: text("", {
    flag: "augment",
    empty: "off",
    help:
      "transforms of training samples, by torchvision's names: random_resized_crop(224), horizontal_flip, rand_augment(2, 9)",
  }),
  mixup: float(0, {
    min: 0,
    max: 100,
    flag: "mixup",
    empty: "off",
    help: "alpha of the Beta distribution that pairs of training samples are mixed with",
  }),
  cutmix: float(0, {
    min: 0,
    max: 100,
    flag: "cutmix",
    empty: "off",
    help: "alpha of the Beta distribution of the patch that one training image takes from another",
  }),
  one_hot: bool(false, { flag: "one-hot", help: "class labels as vectors of 0 and 1" }),
};
