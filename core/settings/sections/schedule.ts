// Declares how the learning rate goes over a run. The names of schedules and of their arguments are PyTorch's where it has them.
import { choice, duration, float, int, text } from "../setting.ts";
import { namesThatRead, OPTIMIZER_READS, settingsOf } from "./optimizer.ts";

/** The schedulers, with the settings that each of them reads beside the warm-up. */
const SCHEDULER_READS = {
  cosine: ["min_lr"],
  linear: ["min_lr"],
  step: ["step_size", "gamma"],
  constant: [],
  onecycle: ["min_lr"],
  sgdr: ["min_lr", "restart_epochs", "restart_factor"],
  exponential: [],
  multistep: [],
  polynomial: ["min_lr"],
  cyclic: [],
  plateau: ["min_lr"],
  inverse_sqrt: [],
  wsd: ["min_lr"],
  table: [],
  lambda: [],
  multiplicative: [],
} as const;

export type SchedulerName = keyof typeof SCHEDULER_READS;

export const SCHEDULER_NAMES = Object.keys(SCHEDULER_READS) as SchedulerName[];

const followers = (setting: typeof SCHEDULER_READS[SchedulerName][number]): string =>
  namesThatRead(SCHEDULER_READS, setting);

/** PyTorch, Lightning and transformers call them so. */
export const SCHEDULER_WORDS: Readonly<Record<string, SchedulerName>> = {
  ...{ constant_with_warmup: "constant", ConstantLR: "constant", constantlr: "constant" },
  ...{ cosine_with_restarts: "sgdr", CosineAnnealingWarmRestarts: "sgdr", cosine_warm_restarts: "sgdr" },
  ...{ CosineAnnealingLR: "cosine", cosine_annealing: "cosine", cosine_with_min_lr: "cosine" },
  ...{ LinearLR: "linear", StepLR: "step", MultiStepLR: "multistep", ExponentialLR: "exponential" },
  ...{ PolynomialLR: "polynomial", poly: "polynomial", CyclicLR: "cyclic" },
  ...{ OneCycleLR: "onecycle", one_cycle: "onecycle" },
  ...{ ReduceLROnPlateau: "plateau", reduce_lr_on_plateau: "plateau" },
  ...{ warmup_stable_decay: "wsd", LambdaLR: "lambda", MultiplicativeLR: "multiplicative" },
};

/** A text with arguments, lengths or several stretches, and a file's name. */
const WRITTEN = /[(>]|\S\s+[\d.]|\.(ts|mts|js|mjs)$/i;

export const isWritten = (scheduler: string): boolean => WRITTEN.test(scheduler);

/** The TypeScript files that it names. */
export const codeFilesIn = (scheduler: string): string[] =>
  [...scheduler.matchAll(/'([^']+)'|"([^"]+)"|([^\s,()>'"=]+)/g)]
    .map(([, one, other, plain]) => one ?? other ?? plain)
    .filter((text) => /\.(ts|mts|js|mjs)$/.test(text));

/** The settings that each optimizer and each scheduler reads, and those that these texts read. */
export function settingsRead(
  optimizer: string,
  scheduler: string,
): Readonly<Record<"optimizer" | "scheduler", Readonly<Record<string, readonly string[]>>>> {
  const named = SCHEDULER_NAMES.filter((name) => new RegExp(`(^|[\\s>])${name}($|[\\s>(])`).test(scheduler));
  const read = named.flatMap((name): readonly string[] => SCHEDULER_READS[name]);
  return {
    optimizer: { ...OPTIMIZER_READS, [optimizer]: settingsOf(optimizer) },
    scheduler: { ...SCHEDULER_READS, [scheduler]: [...new Set(read)] },
  };
}

const NUMBER = { regex: /^(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i, says: "a number from 0 on" };

const SHARE = { regex: /^(0?\.\d+|0|1|1\.0*|0\.0*|\d\.?\d*e-\d+)$/i, says: "a number from 0 to 1" };

export const scheduler = {
  type: choice(SCHEDULER_NAMES, "cosine", {
    flag: "scheduler",
    spellings: ["lr-scheduler-type", "lr-scheduler"],
    common: true,
    aliases: ["training.scheduler"],
    words: SCHEDULER_WORDS,
    orFile: {
      regex: WRITTEN,
      says: "stretches such as 'linear 500steps > cosine(eta_min=1e-6)', or a TypeScript file",
    },
    unlike: {
      slurm: "It is how the learning rate changes; `hpctrain sbatch` makes a job for SLURM.",
      pbs: "It is how the learning rate changes; `hpctrain qsub` makes a job for PBS.",
      ChainedScheduler: "Stretches follow one another here: 'linear 500steps > cosine'.",
      SequentialLR: "Write its parts with their lengths: 'linear 500steps > cosine'.",
    },
    about: {
      sgdr: "cosine that begins again, after restart_epochs and then ever longer",
      exponential: "times gamma at each step: exponential(gamma=0.999)",
      multistep: "times gamma at some steps: multistep(milestones=[30ep, 80ep])",
      polynomial: "falls as a power of what is left: polynomial(power=2)",
      cyclic: "up and down, again and again: cyclic(base_lr=1e-4, max_lr=1e-2)",
      plateau: "falls when evaluations get no better (--monitor): plateau(factor=0.5, patience=5)",
      inverse_sqrt: "falls as one over the root of the step",
      wsd: "stays, and falls in the last tenth of the run: wsd(num_decay_steps=20%)",
      table: "rates of a file with the columns step (or epoch) and rate: table(rates.csv)",
      lambda: "a TypeScript file's function gives the factor of the rate: lambda(my.ts)",
      multiplicative: "such a function gives the factor from step to step: multiplicative(my.ts)",
    },
    help:
      "how the learning rate changes after warm-up: a name, a name with arguments, several with lengths, or a file",
  }),
  per: choice(["step", "epoch"], "step", {
    flag: "schedule-per",
    help:
      "when the learning rate changes: at each step, or at each epoch's end, as scripts do that call scheduler.step() there",
  }),
  warmup: duration("0", ["steps", "epochs", "samples", "tokens"], {
    flag: "warmup",
    spellings: ["warmup-steps"],
    common: true,
    aliases: ["training.warmup"],
    empty: "none",
    help: "time over which the learning rate rises from 0",
  }),
  warmup_start: text("", {
    pattern: SHARE,
    empty: "1/n for the last step, 1/(n+1) for the next one",
    help: "share of the highest rate that the first step of the warm-up has",
  }),
  warmup_peak: choice(["last", "next"], "last", {
    help:
      "the last of the n warm-up steps has the highest rate, or the one behind it, as with torch's LinearLR",
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
  weight_decay_end: text("", {
    pattern: NUMBER,
    empty: "it stays",
    help: "weight decay at the end of the run, to which a cosine leads from --weight-decay",
  }),
};
