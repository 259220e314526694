// Declares the section training: how much is trained, from what, what is minimised and measured, what computes and in which
// precision; and the parts that have files of their own.
import { bool, choice, duration, float, int, list, path, text } from "../setting.ts";
import { optimizer, rates } from "./optimizer.ts";
import { guards } from "./run.ts";
import { scheduler } from "./schedule.ts";
import { LOSS_EXPRESSION, LOSS_NAMES, LOSS_WORDS, LOSSES, LOSSES_OF_PAIRS } from "../losses.ts";

const CODE_FILE = { regex: /\.(ts|mts|js|mjs)$/, says: "a TypeScript file" };

const AUTO = "chosen by itself";

const precision = {
  amp: choice(["auto", "bf16", "fp16", "off", "fp64"], "auto", {
    flag: "amp",
    spellings: ["precision", "mixed-precision", "use-amp"],
    common: true,
    aliases: ["training.use_amp"],
    yes: "auto",
    no: "off",
    shortcuts: { bf16: "bf16", fp16: "fp16" },
    words: {
      "bf16-mixed": "bf16",
      "16-mixed": "fp16",
      "16": "fp16",
      "32-true": "off",
      "32": "off",
      fp32: "off",
      "64-true": "fp64",
      "64": "fp64",
      double: "fp64",
    },
    unlike: {
      "bf16-true": "Weights stay in fp32 here: bf16 computes in it.",
      "16-true": "Weights stay in fp32 here: fp16 computes in it.",
      fp8: "No fp8 is to be had here: bf16 is the nearest.",
    },
    help:
      "mixed precision; auto takes bf16 on a GPU that has it, fp16 on an older one, off on CPU; fp64: all in double precision",
  }),
  tf32: bool(true, { flag: "tf32", help: "TensorFloat-32 for fp32 matrix products on GPUs that have it" }),
  channels_last: choice(["auto", "on", "off"], "auto", {
    flag: "channels-last",
    yes: "on",
    no: "off",
    help:
      "memory layout of images; auto is on for convolutions on a GPU, and on a CPU for models that are faster so",
  }),
  loss_scale_init: float(65536, { min: 0, above: true, max: 2 ** 40, help: "first loss scale of fp16" }),
  loss_scale_growth_interval: int(2000, {
    min: 1,
    max: 1e9,
    help: "steps without an overflow before the loss scale of fp16 doubles",
  }),
  loss_scale_min: float(1, {
    min: 0,
    above: true,
    max: 2 ** 40,
    help: "the loss scale of fp16 never falls below",
  }),
  max_skipped_steps: int(20, {
    min: 1,
    max: 1e6,
    help: "non-finite steps in a row after which training gives up (exit code 6)",
  }),
};

const computing = {
  device: choice(["auto", "cpu", "cuda"], "auto", {
    flag: "device",
    spellings: ["accelerator"],
    common: true,
    words: { gpu: "cuda" },
    unlike: {
      mps: "hpctrain computes on CPUs and on GPUs that CUDA drives.",
      tpu: "hpctrain computes on CPUs and on GPUs that CUDA drives.",
    },
    shortcuts: { "use-cpu": "cpu", "no-cuda": "cpu" },
    help: "where to compute; auto takes a GPU when there is one",
  }),
  threads: int(0, {
    min: 0,
    max: 4096,
    flag: "threads",
    empty: AUTO,
    help: "CPU threads a rank computes with",
  }),
  seed: int(0, {
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    flag: "seed",
    common: true,
    help: "start of all random numbers",
  }),
  deterministic: choice(["off", "on", "world"], "off", {
    flag: "deterministic",
    yes: "on",
    no: "off",
    bare: true,
    help: "the same bits on every run, at some speed; with =world also on any number of ranks",
  }),
  sync_bn: bool(false, {
    flag: "sync-bn",
    spellings: ["sync-batchnorm"],
    help: "batch norm over the samples of all ranks instead of each rank's own",
  }),
  virtual_shards: int(8, {
    min: 1,
    max: 1024,
    help:
      "parts of each global batch that are computed alone and added up in a fixed order (--deterministic=world)",
  }),
  compile: choice(["auto", "on", "fast", "exact", "off"], "auto", {
    flag: "compile",
    spellings: ["torch-compile"],
    yes: "on",
    no: "off",
    bare: true,
    once: { true: "auto" }, // it was the default, and had no effect on a CPU
    help: "training steps as one: captured as a CUDA graph on a GPU, made into machine code on a CPU",
    about: {
      auto: "fast on a GPU; on a CPU exact, where steps are faster so",
      on: "on a CPU: exact with --deterministic, else fast; op by op where that is faster",
      fast: "products, loops and functions of its own, which round a little differently",
      exact: "the bits of the same run without it; on a GPU: libtorch's own kernels, captured",
    },
  }),
  logits_mib: int(512, {
    min: 0,
    help:
      "gpt's head computes the logits of as many tokens at once as have so many MiB in fp32; 0: of a whole micro-batch",
  }),
  memory_check: choice(["refuse", "warn", "off"], "refuse", {
    flag: "memory-check",
    help:
      "what to do on a CPU before the first step where training can't fit into memory; where it may not, a warning says so",
  }),
  gradient_checkpointing: bool(false, {
    flag: "gradient-checkpointing",
    help: "compute activations twice instead of keeping them: less memory, more time",
  }),
  profile_training: bool(false, { flag: "profile-training", help: "write where the time of a step goes" }),
  log_gpu_memory: bool(false, { flag: "log-gpu-memory", help: "log GPU memory with each logged step" }),
  log_interval: int(100, {
    min: 1,
    max: 1e9,
    flag: "log-interval",
    spellings: ["logging-steps", "log-every-n-steps"],
    common: true,
    help: "optimizer steps from one logged step to the next",
  }),
  save_interval: duration("0", ["steps", "epochs", "seconds"], {
    flag: "save-interval",
    spellings: ["save-steps"],
    common: true,
    empty: "at the end of each epoch only",
    help:
      "save a checkpoint this often, besides at the end of each epoch; in epochs (5ep) at those ends alone, besides for a new best and at the end of the run",
  }),
};

const objective = {
  loss: choice(LOSS_NAMES, "auto", {
    flag: "loss",
    common: true,
    orFile: CODE_FILE,
    orText: { regex: LOSS_EXPRESSION, says: "a sum such as cross_entropy + 0.5*dice" },
    words: LOSS_WORDS,
    unlike: LOSSES_OF_PAIRS,
    about: Object.fromEntries(Object.entries(LOSSES).map(([name, { about }]) => [name, about])),
    help:
      "what is minimised; auto takes cross_entropy for classes and mse for numbers, but graph where an exported program " +
      "gives its own loss; with arguments (huber(delta=0.5)), as a sum (cross_entropy + 0.5*dice), for each target " +
      "(wind: mse, rain: bce); or a TypeScript file",
  }),
  metric: path("", {
    flag: "metric",
    empty: "the task's own alone",
    pattern: CODE_FILE,
    help: "a TypeScript file with further metrics",
  }),
  metrics: text("", {
    flag: "metrics",
    empty: "the task's own alone",
    help:
      "further metrics of evaluations, such as 'top3, f1(average=weighted), auroc' or 'pearson, mape'; docs/reference/losses.md lists them",
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

/** Stands for the word "auto", which resolve.ts turns into fit_batch: the number that it hides counts. */
export const AUTO_BATCH = 0;

const amount = {
  epochs: int(100, {
    min: 1,
    max: 1e9,
    flag: "epochs",
    plain: ["EPOCHS"],
    spellings: ["num-train-epochs", "max-epochs", "num-epochs"],
    common: true,
    help: "passes over the training data",
  }),
  max_steps: int(0, {
    min: 0,
    max: 1e12,
    flag: "max-steps",
    common: true,
    empty: "no limit",
    help: "stop after this many optimizer steps",
  }),
  batch_size: int(64, {
    min: 1,
    words: { auto: AUTO_BATCH },
    max: 1e9,
    flag: "batch-size",
    plain: ["BATCH_SIZE"],
    spellings: ["per-device-train-batch-size", "train-batch-size", "micro-batch-size"],
    common: true,
    help: "samples a rank takes at once; auto measures how many, and a step keeps its samples",
  }),
  fit_batch: bool(false, {
    help:
      "batch_size: auto sets it: what stood there otherwise, or global_batch_size, is a step's samples, and accumulation makes up for what a rank takes at once",
  }),
  global_batch_size: int(0, {
    min: 0,
    max: 1e9,
    flag: "global-batch-size",
    empty: "batch size x ranks x accumulation",
    help: "samples in one optimizer step over all ranks; accumulation is derived from it",
  }),
  grad_accum: int(1, {
    min: 1,
    max: 1e6,
    flag: "grad-accum",
    spellings: ["gradient-accumulation-steps", "accumulate-grad-batches"],
    common: true,
    aliases: ["training.gradient_accumulation_steps"],
    help: "batches whose gradients are added up before a step",
  }),
  eval_batch_size: int(0, {
    min: 0,
    max: 1e9,
    flag: "eval-batch-size",
    spellings: ["per-device-eval-batch-size", "val-batch-size"],
    empty: "the training batch size",
    help: "samples a rank evaluates at once",
  }),
  eval_interval: duration("1ep", ["epochs", "steps", "seconds"], {
    flag: "eval-interval",
    spellings: ["check-val-every-n-epoch"],
    common: true,
    help:
      "evaluate the validation data this often (2ep, 500steps, 10min), and at the end of the run; 0: there alone",
  }),
  eval_batches: int(0, {
    min: 0,
    max: 1e9,
    flag: "eval-batches",
    spellings: ["limit-val-batches"],
    empty: "all of the validation data",
    help: "batches that an evaluation takes at most, the first ones each time",
  }),
  monitor: text("val_loss", {
    flag: "monitor",
    spellings: ["metric-for-best-model"],
    help:
      "what an evaluation is judged by: val_loss or one of its metrics; the best checkpoints and early stopping go by it",
  }),
  monitor_mode: choice(["auto", "min", "max"], "auto", {
    flag: "monitor-mode",
    words: { minimize: "min", maximize: "max" },
    help:
      "whether the least or the most is best; auto knows r2, accuracy, IoU and their like, and takes the least of others",
  }),
  early_stopping_patience: int(0, {
    min: 0,
    max: 1e9,
    flag: "early-stopping-patience",
    common: true,
    spellings: ["patience"],
    empty: "off",
    help: "stop after this many evaluations without a better one (--monitor)",
  }),
};

const start = {
  resume: path("", {
    flag: "resume",
    plain: ["RESUME"],
    spellings: ["resume-from-checkpoint", "ckpt-path"],
    common: true,
    empty: "start afresh",
    help: "go on from a checkpoint; auto takes the newest good one of this run, if any",
  }),
  init_from: path("", {
    flag: "init-from",
    empty: "PyTorch's initialisation",
    help:
      "take the first weights from a checkpoint or state dict: ours, PyTorch's, torchvision's, timm's or Hugging Face's",
  }),
  new_head: text("", {
    flag: "new-head",
    bare: true,
    yes: "auto",
    empty: "every tensor has to fit",
    help:
      "leave the head of --init-from's file out and train a new one; bare: the model's last layer, or patterns of names: --new-head=fc,neck*",
  }),
  freeze: list({
    flag: "freeze",
    empty: "all are trained",
    help:
      "patterns of parameters that stay as they are: layer[1-3]*,conv1; batch norms among them keep their statistics; a new head is never frozen",
  }),
  freeze_until: int(0, {
    min: 0,
    max: 1e9,
    flag: "freeze-until",
    empty: "to the end",
    help: "epochs after which --freeze's parameters are trained, too",
  }),
  unfreeze: list({
    separator: ",",
    flag: "unfreeze",
    empty: "none",
    help: "epochs after which some of --freeze's parameters are trained, by patterns: 'layer4: 2, layer3: 4'",
  }),
  force: bool(false, {
    flag: "force",
    help: "resume although model, data, seed or optimizer have other settings than in the checkpoint",
  }),
};

export const training = {
  ...amount,
  ...objective,
  optimizer,
  ...rates,
  scheduler,
  ...precision,
  ...computing,
  ...guards,
  ...start,
};
