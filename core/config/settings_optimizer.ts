// Settings of training.optimizer and training.scheduler. Names and defaults are PyTorch's where it has them.
import { bool, choice, duration, float, int } from "./kinds.ts";

export const optimizer = {
  type: choice(["adamw", "adam", "sgd", "lamb"], "adamw", {
    flag: "optimizer",
    spellings: ["optim"],
    common: true,
    aliases: ["training.optimizer"],
    words: { adamw_torch: "adamw", adamw_torch_fused: "adamw" },
    help: "how weights are updated",
  }),
  learning_rate: float(3e-4, {
    min: 0,
    max: 1e6,
    flag: "lr",
    plain: ["LR", "LEARNING_RATE"],
    spellings: ["learning-rate"],
    common: true,
    aliases: ["training.lr", "training.learning_rate", "training.optimizer.lr"],
    help: "highest learning rate, before lr_scaling",
  }),
  weight_decay: float(0.01, {
    min: 0,
    max: 1e6,
    flag: "weight-decay",
    common: true,
    aliases: ["training.weight_decay"],
    help: "decoupled for adamw and lamb, added to the gradient for adam and sgd",
  }),
  momentum: float(0.9, { min: 0, max: 1, below: true, flag: "momentum", help: "momentum of sgd" }),
  nesterov: bool(false, { flag: "nesterov", help: "Nesterov's momentum (sgd)" }),
  beta1: float(0.9, {
    min: 0,
    max: 1,
    below: true,
    spellings: ["adam-beta1"],
    help: "decay of the first moment (adamw, adam, lamb)",
  }),
  beta2: float(0.999, {
    min: 0,
    max: 1,
    below: true,
    spellings: ["adam-beta2"],
    help: "decay of the second moment (adamw, adam, lamb)",
  }),
  eps: float(1e-8, {
    min: 0,
    max: 1,
    spellings: ["adam-epsilon"],
    help: "added to the denominator (adamw, adam, lamb)",
  }),
};

export const scheduler = {
  type: choice(["cosine", "linear", "step", "constant", "onecycle"], "cosine", {
    flag: "scheduler",
    spellings: ["lr-scheduler-type", "lr-scheduler"],
    common: true,
    aliases: ["training.scheduler"],
    words: { constant_with_warmup: "constant" },
    help: "how the learning rate changes after warm-up",
  }),
  warmup: duration("0", ["steps", "epochs", "samples", "tokens"], {
    flag: "warmup",
    spellings: ["warmup-steps"],
    common: true,
    aliases: ["training.warmup"],
    empty: "none",
    help: "time over which the learning rate rises from 0",
  }),
  min_lr: float(0, {
    min: 0,
    max: 1e6,
    flag: "min-lr",
    help: "learning rate at the end (cosine, linear, onecycle)",
  }),
  step_size: int(30, {
    min: 1,
    max: 1e9,
    help: "epochs from one fall of the learning rate to the next (step)",
  }),
  gamma: float(0.1, { min: 0, max: 1, above: true, help: "factor of each fall (step)" }),
};
