// Declares the section training: how much is trained, from what, and the parts that have files of their own.
import { bool, int, list, path, text } from "../setting.ts";
import { computing, precision } from "./computing.ts";
import { objective } from "./objective.ts";
import { optimizer, rates, scheduler } from "./optimizer.ts";
import { guards } from "./run.ts";

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
  early_stopping_patience: int(0, {
    min: 0,
    max: 1e9,
    flag: "early-stopping-patience",
    common: true,
    spellings: ["patience"],
    empty: "off",
    help: "stop after this many epochs without a better validation loss",
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
