// The settings of a run that trains as the script does, each with the script's line that it was read at.
import { OPTIMIZER_READS } from "../settings/sections/optimizer.ts";
import { type Group, type Seen, targetsOf } from "./seen.ts";

export interface Adopted {
  readonly path: string;
  readonly value: string | number | boolean | readonly string[];
  /** A line of the script, or how it was found. */
  readonly from: string;
}

const OPTIMIZERS: Readonly<Record<string, keyof typeof OPTIMIZER_READS>> = {
  ...{
    AdamW: "adamw",
    Adam: "adam",
    SGD: "sgd",
    RMSprop: "rmsprop",
    Adadelta: "adadelta",
    Adagrad: "adagrad",
  },
  ...{
    Adamax: "adamax",
    ASGD: "asgd",
    NAdam: "nadam",
    RAdam: "radam",
    Rprop: "rprop",
    Adafactor: "adafactor",
  },
};

/** torch keeps these as pairs. */
const PAIRS: Readonly<Record<string, readonly [key: string, at: number]>> = {
  ...{ beta1: ["betas", 0], beta2: ["betas", 1], etaminus: ["etas", 0], etaplus: ["etas", 1] },
  ...{
    step_size_min: ["step_sizes", 0],
    step_size_max: ["step_sizes", 1],
    eps1: ["eps", 0],
    eps2: ["eps", 1],
  },
};

/** Null where the optimizer is none of ours. */
export function adoptedOptimizer({ optimizer, groups, rates, where }: Seen): Adopted[] | null {
  const type = OPTIMIZERS[optimizer];
  if (type === undefined) return null;
  const from = where.optimizer ?? "", at = largest(groups), base = groups[at];
  const made: Adopted[] = [
    { path: "training.optimizer.type", value: type, from },
    { path: "training.optimizer.learning_rate", value: rateOf(base, rates.map((all) => all[at])), from },
  ];
  for (const name of OPTIMIZER_READS[type]) {
    const value = optionOf(base, name);
    if (value !== null) made.push({ path: `training.optimizer.${name}`, value, from });
  }
  const others = groups.flatMap((group, i) => {
    if (group.params.length === 0) return [];
    if (i === at) return clipOf(group).map((clip) => `${group.params.join(", ")}: ${clip}`);
    const changed = OPTIMIZER_READS[type].flatMap((name) => {
      const value = optionOf(group, name);
      return value !== null && value !== optionOf(base, name) ? [`${name}=${value}`] : [];
    });
    changed.push(...clipOf(group));
    const rate = rateOf(group, rates.map((all) => all[i]));
    if (rate !== rateOf(base, rates.map((all) => all[at]))) changed.unshift(`lr=${rate}`);
    return changed.length === 0 ? [] : [`${group.params.join(", ")}: ${changed.join(", ")}`];
  });
  return others.length === 0 ? made : [...made, { path: "training.param_groups", value: others, from }];
}

const largest = (groups: readonly Group[]): number =>
  groups.reduce((most, { size }, i) => size > groups[most].size ? i : most, 0);

/** Optimizers that take turns clip their own gradients. */
const clipOf = ({ clip_norm }: Group): string[] => clip_norm === undefined ? [] : [`clip_norm=${clip_norm}`];

function optionOf(group: Group, name: string): number | boolean | null {
  if (name === "fused") return group.fused === true; // torch's None is its form without
  const pair = PAIRS[name], whole = pair && group[pair[0]];
  const value = Array.isArray(whole) ? whole[pair[1]] : group[name];
  return typeof value === "number" || typeof value === "boolean" ? value : null;
}

/** Schedules begin from `initial_lr`. */
function rateOf(group: Group, rates: readonly number[]): number {
  const { initial_lr } = group;
  return typeof initial_lr === "number" ? initial_lr : Math.max(...rates);
}

/** Several inputs without a target are named, because the last would be taken for one. */
export function adoptedInputs(seen: Pick<Seen, "inputs" | "turns" | "where">): Adopted[] {
  const names = seen.inputs.filter(({ drawn }) => !drawn).map(({ name }) => name);
  if (names.length < 2 || targetsOf(seen).length > 0) return [];
  return [{ path: "data.features", value: names, from: seen.where.loss ?? "" }];
}

/** These are the same for each step. */
export function adoptedTraining(
  { micro, batch, groups, clip, clip_value, channels_last, ignored, amp, where }: Seen,
): Adopted[] {
  const clips = clip !== null || groups.some(({ clip_norm }) => clip_norm !== undefined);
  return [
    { path: "training.batch_size", value: batch, from: where.loader ?? "the first batch" },
    ...(micro > 1
      ? [{ path: "training.grad_accum", value: micro, from: `${micro} calls of backward in a step` }]
      : []),
    ...(clip === null ? [] : [{ path: "training.clip_norm", value: clip, from: where.clip }]),
    ...(clips ? [{ path: "training.clip_sums", value: "torch", from: where.clip ?? "" }] : []),
    ...(channels_last ? [{ path: "training.channels_last", value: "on", from: where.model ?? "" }] : []),
    ...(clip_value === null
      ? []
      : [{ path: "training.clip_value", value: clip_value, from: where.clip_value }]),
    ...(ignored === null
      ? []
      : [{ path: "training.ignore_index", value: ignored, from: "the targets that were seen" }]),
    ...(amp === "bfloat16" ? [{ path: "training.amp", value: "bf16", from: where.amp }] : []),
    ...(amp === "float16" ? [{ path: "training.amp", value: "fp16", from: where.amp }] : []),
  ];
}

/** How long the script would have trained, and its seed. */
export function adoptedLength({ length, seed, where }: Pick<Seen, "length" | "seed" | "where">): Adopted[] {
  const { epochs, steps, where: from = "" } = length ?? {};
  return [
    ...(epochs ? [{ path: "training.epochs", value: epochs, from }] : []),
    ...(steps ? [{ path: "training.max_steps", value: steps, from }] : []),
    ...(seed !== null && isSeed(seed)
      ? [{ path: "training.seed", value: seed, from: where.seed ?? "" }]
      : []),
  ];
}

/** torch takes others, too. */
const isSeed = (seed: number): boolean => Number.isSafeInteger(seed) && seed >= 0 && seed < 2 ** 32;

/** The arguments of torch's classes that our schedules of these names take. */
const SCHEDULES: Readonly<Record<string, readonly [name: string, ...args: string[]]>> = {
  StepLR: ["step", "step_size", "gamma"],
  ExponentialLR: ["exponential", "gamma"],
  CosineAnnealingLR: ["cosine", "T_max", "eta_min"],
  CosineAnnealingWarmRestarts: ["sgdr", "T_0", "T_mult", "eta_min"],
  LinearLR: ["linear", "start_factor", "end_factor", "total_iters"],
  ConstantLR: ["constant", "factor", "total_iters"],
  PolynomialLR: ["polynomial", "total_iters", "power"],
  MultiStepLR: ["multistep", "milestones", "gamma"],
  CyclicLR: [
    "cyclic",
    ...["base_lr", "max_lr", "step_size_up", "step_size_down", "mode", "gamma", "cycle_momentum"],
    ...["base_momentum", "max_momentum"],
  ],
  OneCycleLR: [
    "onecycle",
    ...["max_lr", "total_steps", "pct_start", "anneal_strategy", "cycle_momentum", "base_momentum"],
    ...["max_momentum", "div_factor", "final_div_factor", "three_phase"],
  ],
};

/** Those of transformers are functions of the step. */
const FUNCTIONS: Readonly<Record<string, string>> = {
  _get_constant_schedule_with_warmup_lr_lambda: "constant",
  _get_linear_schedule_with_warmup_lr_lambda: "linear",
  _get_cosine_schedule_with_warmup_lr_lambda: "cosine",
};

function scheduleByFunction(one: Scheduler, from: string): Adopted[] | null {
  const value = FUNCTIONS[String(one.function)], { num_warmup_steps: warmup, num_cycles = 0.5 } = one;
  if (value === undefined || typeof warmup !== "number" || num_cycles !== 0.5) return null;
  const of = (path: string, value: string | number) => ({ path: `training.scheduler.${path}`, value, from });
  const rise = [of("warmup", `${warmup}steps`), of("warmup_start", "0"), of("warmup_peak", "next")];
  return [of("type", value), ...(warmup > 0 ? rise : [])];
}

type Scheduler = Seen["schedulers"][number];

/** A schedule that moves momentum, too, is compared by its name: a table has rates alone. */
export const movesMomentum = ({ schedulers }: Seen): boolean =>
  schedulers.some(({ cycle_momentum }) => cycle_momentum === true);

/** Null where rates change in a way that is not known: their first steps are in a table then. */
export function adoptedSchedule({ schedulers, rates, steps, where }: Seen): Adopted[] | null {
  const path = "training.scheduler.type", from = where.scheduler ?? where.optimizer;
  const isConstant = rates.every((all) => all.every((rate, i) => rate === rates[0][i]));
  const [one] = schedulers;
  if (!one) return isConstant ? [{ path, value: "constant", from }] : null;
  const known = SCHEDULES[String(one.type)];
  if (!known) return schedulers.length > 1 ? null : scheduleByFunction(one, from);
  const [name, ...args] = known;
  const givenTo = (scheduler: Scheduler) =>
    args.flatMap((arg) => {
      const value = scheduler[arg];
      return value === undefined ? [] : [`${arg}=${Array.isArray(value) ? `[${value.join(", ")}]` : value}`];
    });
  const given = givenTo(one); // optimizers that take turns have one each
  if (schedulers.some((other) => other.type !== one.type || `${givenTo(other)}` !== `${given}`)) return null;
  const perEpoch = Number(one.last_epoch) < steps - 1;
  return [
    { path, value: `${name}(${given.join(", ")})`, from },
    ...(perEpoch ? [{ path: "training.scheduler.per", value: "epoch", from }] : []),
  ];
}

/** Rates step by step, of the group that run.yaml names one for. */
export const ratesOf = ({ rates, groups }: Seen): number[] => {
  const at = largest(groups);
  return rates.map((all) => all[at]);
};

/** The rates as they were seen, for the proof: a table of this name where they change. */
export function adoptedRates(
  seen: Seen,
  file: string,
): { table: string | null; settings: Adopted[] } {
  const of = ratesOf(seen), path = "training.scheduler.type", from = seen.where.scheduler ?? "";
  const base = rateOf(seen.groups[largest(seen.groups)], of);
  if (of.every((rate) => rate === base)) {
    return { table: null, settings: [{ path, value: "constant", from }] };
  }
  const table = ["step,rate", ...of.map((rate, step) => `${step},${rate}`)].join("\n") + "\n";
  return { table, settings: [{ path, value: `table('${file}', between=held)`, from }] };
}

/** As a file of settings, with the script's lines behind them. */
export function settingsYaml(all: readonly Adopted[]): string {
  const lines: string[] = [];
  const open: string[] = [];
  for (const { path, value, from } of all) {
    const words = path.split("."), key = words.pop()!;
    const same = words.findIndex((word, i) => open[i] !== word);
    open.length = same < 0 ? Math.min(open.length, words.length) : same;
    for (const word of words.slice(open.length)) lines.push(`${"  ".repeat(open.push(word) - 1)}${word}:`);
    const indent = "  ".repeat(words.length), comment = from === "" ? "" : ` # ${from}`;
    if (Array.isArray(value)) {
      lines.push(
        `${indent}${key}:${comment}`,
        ...value.map((item) => `${indent}  - ${JSON.stringify(item)}`),
      );
    } else {lines.push(
        `${indent}${key}: ${typeof value === "string" ? JSON.stringify(value) : value}${comment}`,
      );}
  }
  return lines.join("\n") + "\n";
}
