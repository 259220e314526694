// Declares how weights are updated. The names and defaults of the optimizer are PyTorch's where it has them.
import { bool, choice, float, int, list } from "../setting.ts";

const BETAS = ["weight_decay", "beta1", "beta2", "eps"] as const;

/**
 * The optimizers, with the settings that each of them reads beside its learning rate. An optimizer is given no others; the help's
 * exceptions and a run's warning of settings that have no effect are made of it.
 */
export const OPTIMIZER_READS = {
  adamw: [...BETAS, "amsgrad", "maximize", "fused"],
  adam: [...BETAS, "amsgrad", "maximize", "fused"],
  sgd: ["weight_decay", "momentum", "nesterov", "dampening", "maximize"],
  lamb: BETAS,
  lion: ["weight_decay", "beta1", "lion_beta2"],
  muon: [...BETAS, "muon_momentum"],
  schedule_free: BETAS,
  prodigy: [
    ...BETAS,
    ...[
      "beta3",
      "decouple",
      "use_bias_correction",
      "safeguard_warmup",
      "d0",
      "d_coef",
      "growth_rate",
    ] as const,
  ],
  soap: [...BETAS, "shampoo_beta", "precondition_frequency", "max_precond_dim", "normalize_grads"],
  shampoo: [
    ...BETAS,
    ...["momentum", "nesterov", "shampoo_beta", "precondition_frequency", "max_precond_dim"] as const,
  ],
  adadelta: ["weight_decay", "rho", "eps", "maximize"],
  adafactor: ["weight_decay", "beta2_decay", "eps1", "eps2", "d", "maximize"],
  adagrad: ["weight_decay", "lr_decay", "initial_accumulator_value", "eps", "maximize"],
  adamax: [...BETAS, "maximize"],
  asgd: ["weight_decay", "lambd", "alpha", "t0", "maximize"],
  lbfgs: [
    ...["max_iter", "max_eval", "tolerance_grad", "tolerance_change", "history_size"] as const,
    ...["line_search_fn", "maximize"] as const,
  ],
  nadam: [...BETAS, "momentum_decay", "decoupled_weight_decay", "maximize"],
  radam: [...BETAS, "decoupled_weight_decay", "maximize"],
  rmsprop: ["weight_decay", "alpha", "eps", "momentum", "centered", "maximize"],
  rprop: ["etaminus", "etaplus", "step_size_min", "step_size_max", "maximize"],
} as const;

/** An optimizer reads these. One of the user's own, whose file is its name, is given all. */
export const settingsOf = (type: string): readonly string[] =>
  Object.hasOwn(OPTIMIZER_READS, type)
    ? OPTIMIZER_READS[type as OptimizerName]
    : [...new Set(Object.values(OPTIMIZER_READS).flat())];

type OptimizerName = keyof typeof OPTIMIZER_READS;
type Own = typeof OPTIMIZER_READS[OptimizerName][number];

/** An optimizer's own defaults, torch.optim's or its authors', where they are not those of the settings. */
export const OPTIMIZER_DEFAULTS: { readonly [T in OptimizerName]?: Readonly<Record<string, number>> } = {
  adadelta: { learning_rate: 1, weight_decay: 0, eps: 1e-6 },
  adafactor: { learning_rate: 0.01, weight_decay: 0 },
  adagrad: { learning_rate: 0.01, weight_decay: 0, eps: 1e-10 },
  adamax: { learning_rate: 0.002, weight_decay: 0 },
  asgd: { learning_rate: 0.01, weight_decay: 0, alpha: 0.75 },
  nadam: { learning_rate: 0.002, weight_decay: 0 },
  radam: { learning_rate: 0.001, weight_decay: 0 },
  rmsprop: { learning_rate: 0.01, weight_decay: 0, momentum: 0 },
  rprop: { learning_rate: 0.01 },
  lbfgs: { learning_rate: 1 },
  prodigy: { learning_rate: 1, weight_decay: 0 },
  soap: { learning_rate: 0.003, beta1: 0.95, beta2: 0.95 },
  shampoo: { learning_rate: 0.001, momentum: 0, max_precond_dim: 1024 },
};

const OPTIMIZER_NAMES = Object.keys(OPTIMIZER_READS) as OptimizerName[];

/** "sgd", "all but sgd and lion" */
export function namesThatRead(table: Readonly<Record<string, readonly string[]>>, setting: string): string {
  const names = Object.keys(table), reads = (name: string) => table[name].includes(setting);
  const some = names.filter(reads), others = names.filter((name) => !reads(name));
  if (others.length === 0) return "all";
  return others.length < some.length ? `all but ${together(others)}` : together(some);
}

/** "a, b and c" */
const together = (names: readonly string[]): string => names.join(", ").replace(/, (?=\w+$)/, " and ");

/** ", 0.01 for rmsprop and rprop": what it is by default there. */
function ownDefaults(setting: string): string {
  const of = new Map<number, string[]>();
  for (const [name, { [setting]: value }] of Object.entries(OPTIMIZER_DEFAULTS)) {
    if (value !== undefined) of.set(value, [...of.get(value) ?? [], name]);
  }
  return [...of].map(([value, names]) => `, ${value} for ${together(names)}`).join("");
}

const readers = (setting: Own): string => namesThatRead(OPTIMIZER_READS, setting);

const SPARSE =
  "Its gradients are sparse, and all gradients are dense here: take adam, which does the same with them.";
const NOT_HERE = { SparseAdam: SPARSE, sparse_adam: SPARSE, sparseadam: SPARSE };

export const optimizer = {
  type: choice(OPTIMIZER_NAMES, "adamw", {
    flag: "optimizer",
    spellings: ["optim"],
    common: true,
    aliases: ["training.optimizer"],
    words: {
      adamw_torch: "adamw",
      adamw_torch_fused: "adamw",
      schedule_free_adamw: "schedule_free",
      LBFGS: "lbfgs",
      distributed_shampoo: "shampoo",
    },
    unlike: NOT_HERE,
    orFile: { regex: /\.(ts|mts|js|mjs)$/i, says: "a TypeScript file" },
    about: {
      adafactor: "keeps the second moment of a matrix as a row and a column",
      adagrad: "rates fall with the sum of squared gradients",
      asgd: "SGD that keeps the mean of its weights as ax",
      lbfgs: "directions from the last gradients; a step evaluates its batch several times",
      rprop: "a step for each weight, for gradients of all samples at once",
      muon: "makes the update of hidden matrices orthogonal; all other parameters have adamw",
      prodigy: "Adam that finds its rate by itself: lr scales it, and stays 1",
      soap: "Adam in the eigenbases of Shampoo's matrices, for each dimension of a parameter",
      shampoo: "gradients times roots of their products' matrices, with the length of Adam's step",
      schedule_free: "AdamW that evaluates a mean of its weights, with --scheduler constant",
    },
    help: "how weights are updated; or a TypeScript file with an update of your own",
  }),
  learning_rate: float(3e-4, {
    min: 0,
    max: 1e6,
    flag: "lr",
    plain: ["LR", "LEARNING_RATE"],
    spellings: ["learning-rate"],
    common: true,
    aliases: ["training.lr", "training.learning_rate", "training.optimizer.lr"],
    help: `highest learning rate, before lr_scaling${ownDefaults("learning_rate")}`,
  }),
  weight_decay: float(0.01, {
    min: 0,
    max: 1e6,
    flag: "weight-decay",
    common: true,
    aliases: ["training.weight_decay"],
    help:
      `decoupled for adamw, lamb, lion, muon, schedule_free, soap, shampoo, prodigy and adafactor, added to the gradient for others (${
        readers("weight_decay")
      })${ownDefaults("weight_decay")}`,
  }),
  momentum: float(0.9, {
    min: 0,
    max: 1,
    below: true,
    flag: "momentum",
    help: `momentum (${readers("momentum")})${ownDefaults("momentum")}`,
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
    help: `added to the denominator (${readers("eps")})${ownDefaults("eps")}`,
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
  maximize: bool(false, { help: `steps climb: the objective grows (${readers("maximize")})` }),
  amsgrad: bool(false, {
    help: `the denominator has the largest second moment so far, not the last (${readers("amsgrad")})`,
  }),
  fused: bool(true, {
    help: `one kernel; false has the bits of torch.optim's default on a CPU, op by op (${readers("fused")})`,
  }),
  dampening: float(0, {
    min: 0,
    max: 1,
    help: `share of the gradient that does not go into the momentum (${readers("dampening")})`,
  }),
  alpha: float(0.99, {
    min: 0,
    max: 1e6,
    help: `rmsprop: decay of the mean of squared gradients; asgd: power by which rates fall${
      ownDefaults("alpha")
    }`,
  }),
  centered: bool(false, {
    help: `divides by the gradient's variance, not its square (${readers("centered")})`,
  }),
  rho: float(0.9, { min: 0, max: 1, help: `decay of the means of squares (${readers("rho")})` }),
  lr_decay: float(0, {
    min: 0,
    max: 1e6,
    help: `fall of the learning rate from step to step (${readers("lr_decay")})`,
  }),
  initial_accumulator_value: float(0, {
    min: 0,
    max: 1e6,
    help: `what the sum of squares begins with (${readers("initial_accumulator_value")})`,
  }),
  lambd: float(1e-4, { min: 0, max: 1e6, help: `decay of weights and rates (${readers("lambd")})` }),
  t0: float(1e6, { min: 0, max: 1e12, help: `step from which on weights are averaged (${readers("t0")})` }),
  momentum_decay: float(4e-3, {
    min: 0,
    max: 1e6,
    help: `how soon the momentum reaches beta1 (${readers("momentum_decay")})`,
  }),
  decoupled_weight_decay: bool(false, {
    help: `weight decay as in adamw (${readers("decoupled_weight_decay")})`,
  }),
  etaminus: float(0.5, {
    ...{ min: 0, max: 1, above: true, below: true },
    help: `factor of a step whose gradient turned (${readers("etaminus")})`,
  }),
  etaplus: float(1.2, {
    ...{ min: 1, max: 1e6, above: true },
    help: `factor of a step whose gradient kept its sign (${readers("etaplus")})`,
  }),
  step_size_min: float(1e-6, { min: 0, max: 1e6, help: `the smallest step (${readers("step_size_min")})` }),
  step_size_max: float(50, { min: 0, max: 1e6, help: `the largest step (${readers("step_size_max")})` }),
  beta2_decay: float(-0.8, {
    min: -1e6,
    max: 0,
    help: `power of the step by which the second moment takes up less (${readers("beta2_decay")})`,
  }),
  eps1: float(2 ** -23, {
    min: 0,
    max: 1,
    help: `smallest root of a second moment; PyTorch's None, the precision of f32 (${readers("eps1")})`,
  }),
  eps2: float(1e-3, {
    min: 0,
    max: 1e6,
    help: `smallest scale of a parameter, to which steps are in proportion (${readers("eps2")})`,
  }),
  beta3: float(0, {
    ...{ min: 0, max: 1, below: true, empty: "the root of beta2" },
    help: `decay of the sums by which the rate is found (${readers("beta3")})`,
  }),
  decouple: bool(true, { help: `weight decay as in adamw (${readers("decouple")})` }),
  use_bias_correction: bool(false, { help: `Adam's bias correction (${readers("use_bias_correction")})` }),
  safeguard_warmup: bool(false, {
    help: `small rates of a warm-up don't count in the estimate (${readers("safeguard_warmup")})`,
  }),
  d0: float(1e-6, {
    ...{ min: 0, max: 1e6, above: true },
    help: `distance to the best weights that it begins with (${readers("d0")})`,
  }),
  d_coef: float(1, {
    ...{ min: 0, max: 1e6, above: true },
    help: `factor of the estimated distance, and so of the rate (${readers("d_coef")})`,
  }),
  growth_rate: float(0, {
    ...{ min: 0, max: 1e6, empty: "unlimited" },
    help: `largest factor of the distance from step to step, such as 1.02 (${readers("growth_rate")})`,
  }),
  shampoo_beta: float(-1, {
    ...{ min: -1, max: 1, below: true, empty: "beta2" },
    help: `decay of Shampoo's matrices (${readers("shampoo_beta")})`,
  }),
  precondition_frequency: int(10, {
    ...{ min: 1, max: 1e9 },
    help: `steps from one eigendecomposition to the next (${readers("precondition_frequency")})`,
  }),
  max_precond_dim: int(10_000, {
    ...{ min: 1, max: 1e9 },
    help: `longest dimension that has a matrix; shampoo cuts longer ones into blocks (${
      readers("max_precond_dim")
    })${ownDefaults("max_precond_dim")}`,
  }),
  normalize_grads: bool(false, {
    help: `each update has a mean square of 1 (${readers("normalize_grads")})`,
  }),
  max_iter: int(20, { ...{ min: 1, max: 1e6 }, help: `most iterations of a step (${readers("max_iter")})` }),
  max_eval: int(0, {
    ...{ min: 0, max: 1e6, empty: "1.25 times max_iter" },
    help: `most evaluations of the loss in a step (${readers("max_eval")})`,
  }),
  tolerance_grad: float(1e-7, {
    ...{ min: 0, max: 1e6 },
    help: `a step ends where no number of the gradient is larger (${readers("tolerance_grad")})`,
  }),
  tolerance_change: float(1e-9, {
    ...{ min: 0, max: 1e6 },
    help: `a step ends where loss or weights change by less (${readers("tolerance_change")})`,
  }),
  history_size: int(100, {
    ...{ min: 1, max: 10_000 },
    help: `changes of weights and gradients that are kept (${readers("history_size")})`,
  }),
  line_search_fn: choice(["none", "strong_wolfe"], "none", {
    help: `how the length of a step is found; none takes the learning rate (${readers("line_search_fn")})`,
  }),
  d: float(1, { min: 1, max: 1e6, help: `largest root mean square of an update (${readers("d")})` }),
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
  param_groups: list({
    separator: ";",
    flag: "param-group",
    empty: "one for all parameters",
    help:
      "settings of parameters by patterns, 'PATTERN, ...: lr=1e-4, weight_decay=0'; a pattern is a name, norms, biases, " +
      "embeddings, head, ndim<2 or blocks[0-3]",
  }),
  no_decay: list({
    flag: "no-decay",
    empty: "ndim<2 for gpt and vit",
    before: ["none"],
    help:
      "patterns of parameters without weight decay, written like those of param_groups: norms,biases; none: all decay",
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
  clip_sums: choice(["exact", "torch"], "exact", {
    help: "how a CPU adds up the squares of one gradient for its norm",
    about: {
      exact: "right to six digits",
      torch: "as PyTorch does, for its bits: of more than 65,536 numbers it is wrong in the fourth digit",
    },
  }),
  clip_value: float(0, {
    min: 0,
    max: 1e9,
    flag: "clip-value",
    empty: "off",
    help: "largest number of a gradient, behind clip_norm; those beyond are cut off",
  }),
  clip_adaptive: float(0, {
    min: 0,
    max: 1e9,
    flag: "clip-adaptive",
    empty: "off",
    help:
      "longest gradient of a layer's output, as a share of the length of its weights (AGC), such as 0.01; the head's is left alone",
  }),
  gradient_noise: float(0, {
    min: 0,
    max: 1e9,
    flag: "gradient-noise",
    empty: "off",
    help: "variance of normal noise that is added to gradients, falling as (1 + step)^-0.55",
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
