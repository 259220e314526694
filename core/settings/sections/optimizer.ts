// Declares how weights are updated. The names and defaults of the optimizer and the scheduler are PyTorch's where it has
// them.
import { bool, choice, duration, float, int, list } from "../setting.ts";

const ADAM = ["weight_decay", "beta1", "beta2", "eps"] as const;

/**
 * The optimizers, with the settings that each of them reads beside its learning rate. An optimizer is given no others; the help's
 * exceptions and a run's warning of settings that have no effect are made of it.
 */
export const OPTIMIZER_READS = {
  adamw: ADAM,
  adam: ADAM,
  sgd: ["weight_decay", "momentum", "nesterov"],
  lamb: ADAM,
  lion: ["weight_decay", "beta1", "lion_beta2"],
  muon: [...ADAM, "muon_momentum"],
  schedule_free: ADAM,
} as const;

type OptimizerName = keyof typeof OPTIMIZER_READS;
type Own = typeof OPTIMIZER_READS[OptimizerName][number];

const OPTIMIZER_NAMES = Object.keys(OPTIMIZER_READS) as OptimizerName[];

/** The schedulers, with the settings that each of them reads beside the warm-up. */
export const SCHEDULER_READS = {
  cosine: ["min_lr"],
  linear: ["min_lr"],
  step: ["step_size", "gamma"],
  constant: [],
  onecycle: ["min_lr"],
  sgdr: ["min_lr", "restart_epochs", "restart_factor"],
} as const;

type SchedulerName = keyof typeof SCHEDULER_READS;

const SCHEDULER_NAMES = Object.keys(SCHEDULER_READS) as SchedulerName[];

/** "sgd", "all but sgd and lion" */
function namesThatRead(table: Readonly<Record<string, readonly string[]>>, setting: string): string {
  const names = Object.keys(table), reads = (name: string) => table[name].includes(setting);
  const some = names.filter(reads), others = names.filter((name) => !reads(name));
  return others.length < some.length ? `all but ${others.join(" and ")}` : some.join(" and ");
}

const readers = (setting: Own): string => namesThatRead(OPTIMIZER_READS, setting);
const followers = (setting: typeof SCHEDULER_READS[SchedulerName][number]): string =>
  namesThatRead(SCHEDULER_READS, setting);

export const optimizer = {
  type: choice(OPTIMIZER_NAMES, "adamw", {
    flag: "optimizer",
    spellings: ["optim"],
    common: true,
    aliases: ["training.optimizer"],
    words: { adamw_torch: "adamw", adamw_torch_fused: "adamw", schedule_free_adamw: "schedule_free" },
    about: {
      muon: "makes the update of hidden matrices orthogonal; all other parameters have adamw",
      schedule_free: "AdamW that evaluates a mean of its weights, with --scheduler constant",
    },
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
    help: "decoupled for adamw, lamb, lion, muon and schedule_free, added to the gradient for adam and sgd",
  }),
  momentum: float(0.9, {
    min: 0,
    max: 1,
    below: true,
    flag: "momentum",
    help: `momentum (${readers("momentum")})`,
  }),
  nesterov: bool(false, { flag: "nesterov", help: `Nesterov's momentum (${readers("nesterov")})` }),
  beta1: float(0.9, {
    min: 0,
    max: 1,
    below: true,
    spellings: ["adam-beta1"],
    help: `decay of the first moment (${readers("beta1")}); lion's share of momentum in an update`,
  }),
  beta2: float(0.999, {
    min: 0,
    max: 1,
    below: true,
    spellings: ["adam-beta2"],
    help: `decay of the second moment (${readers("beta2")})`,
  }),
  eps: float(1e-8, {
    min: 0,
    max: 1,
    spellings: ["adam-epsilon"],
    help: `added to the denominator (${readers("eps")})`,
  }),
  lion_beta2: float(0.99, {
    min: 0,
    max: 1,
    below: true,
    help: `decay of the momentum (${readers("lion_beta2")})`,
  }),
  muon_momentum: float(0.95, {
    min: 0,
    max: 1,
    below: true,
    help: `momentum of the hidden matrices (${readers("muon_momentum")})`,
  }),
};

export const scheduler = {
  type: choice(SCHEDULER_NAMES, "cosine", {
    flag: "scheduler",
    spellings: ["lr-scheduler-type", "lr-scheduler"],
    common: true,
    aliases: ["training.scheduler"],
    words: { constant_with_warmup: "constant", cosine_with_restarts: "sgdr" },
    unlike: {
      slurm: "It is how the learning rate changes; `hpctrain sbatch` makes a job for SLURM.",
      pbs: "It is how the learning rate changes; `hpctrain qsub` makes a job for PBS.",
    },
    about: { sgdr: "cosine that begins again, after restart_epochs and then ever longer" },
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
    help: `learning rate at the end (${followers("min_lr")})`,
  }),
  step_size: int(30, {
    min: 1,
    max: 1e9,
    help: `epochs from one fall of the learning rate to the next (${followers("step_size")})`,
  }),
  gamma: float(0.1, { min: 0, max: 1, above: true, help: `factor of each fall (${followers("gamma")})` }),
  restart_epochs: int(10, {
    min: 1,
    max: 1e9,
    help: `epochs until the learning rate first begins again (${followers("restart_epochs")})`,
  }),
  restart_factor: int(2, {
    min: 1,
    max: 1000,
    help: `how many times longer each stretch is than the one before (${followers("restart_factor")})`,
  }),
};

/** Around the optimizer: learning rates by name and depth, clipping, averages of weights. */
export const rates = {
  lr_scaling: choice(["none", "linear"], "none", {
    flag: "lr-scaling",
    help:
      "linear multiplies the learning rate by global batch / base batch; a preset's linear is for its own rate, not for a typed one",
  }),
  lr_for: list({
    flag: "lr-for",
    empty: "learning_rate for all",
    help: "learning rates of parameters by patterns: head*=1e-3,layer4*=1e-4; the first that fits counts",
  }),
  layer_decay: float(0, {
    min: 0,
    max: 1,
    flag: "layer-decay",
    empty: "off",
    help: "factor of the learning rate from each block of the model to the one before it, such as 0.75",
  }),
  base_batch_size: int(64, {
    min: 1,
    max: 1e9,
    help: "batch size the learning rate was chosen for (lr_scaling)",
  }),
  clip_norm: float(0, {
    min: 0,
    max: 1e9,
    flag: "clip-norm",
    spellings: ["max-grad-norm", "gradient-clip-val"],
    common: true,
    empty: "off",
    aliases: ["training.gradient_clip_norm"],
    help: "longest gradient, by its 2-norm over all parameters",
  }),
  ema: float(0, {
    min: 0,
    max: 1,
    below: true,
    flag: "ema",
    empty: "off",
    help: "decay of an average of the weights that is evaluated and saved beside them",
  }),
  swa_start: int(0, {
    min: 0,
    max: 1e9,
    flag: "swa-start",
    empty: "off",
    help:
      "epoch from which on the weights at the ends of epochs are averaged (SWA); the average is evaluated and saved beside them",
  }),
  swa_lr: float(0, {
    min: 0,
    max: 1e6,
    flag: "swa-lr",
    empty: "the scheduler's",
    help:
      "learning rate while weights are averaged (--swa-start), reached by a cosine over swa_anneal_epochs",
  }),
  swa_anneal_epochs: int(10, {
    min: 0,
    max: 1e9,
    help: "epochs from the scheduler's learning rate to swa_lr",
  }),
};
