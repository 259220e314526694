// Converts between live training state and a checkpoint's tree. The tree has PyTorch's own keys, so that
// torch.load and load_state_dict take it as it is, and ours under "hpctrain".
import type { DType } from "../../ffi/dtype.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { borrowBytes, readBytes, toDevice, toNumbers, uninitialised, writeBytes } from "../../ffi/make.ts";
import { copy_ } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { dict, field, memoryStorage, OrderedDict, tensorBytes, TensorData, type Value } from "./value.ts";
import { UserError } from "../base/errors.ts";
import type { BestPlace } from "./best_files.ts";
import { isAdapter, mergeAdapters } from "./adapters.ts";
import { type Positions, resampledPositions } from "./positions.ts";
import { type JointState, matchOptimizer, numbersBeside } from "./optimizer_state.ts";
import { knownNames } from "./known_names.ts";
import { compareStateDicts, findStateDict, type Fresh, leaveOut, withoutWrappers } from "./state_dict.ts";

/** Data of a CPU tensor is no copy: write it before the tensor changes. */
export function toData(t: Tensor): TensorData {
  const bytes = t.device === "cpu" && t.contiguous ? borrowBytes(t) : readBytes(t);
  return new TensorData(t.dtype, [...t.shape], memoryStorage(bytes));
}

/** PyTorch's optimizers keep their step count in a 0-dim f32 tensor. */
export function scalarData(value: number, dtype: DType = "f32"): TensorData {
  const numbers = dtype === "f64" ? Float64Array.of(value) : Float32Array.of(value);
  return new TensorData(dtype === "f64" ? "f64" : "f32", [], memoryStorage(new Uint8Array(numbers.buffer)));
}

export function copyInto(t: Tensor, data: TensorData): void {
  const bytes = tensorBytes(data);
  if (t.device === "cpu" && t.contiguous && t.dtype === data.dtype) return writeBytes(t, bytes);
  scope(() => {
    const host = uninitialised(data.shape, { dtype: data.dtype });
    writeBytes(host, bytes);
    noGrad(() => copy_(t, t.device === "cpu" ? host : toDevice(host, t.device)));
  });
}

/**
 * A schedule moves these beside the rate.
 * @internal
 */
export interface Moved {
  /** Momentum, or Adam's beta1. */
  readonly momentum?: number;
  /** The factor of the weight decay. */
  readonly decay?: number;
}

/** A run resumes from this and its tensors. It is plain data. */
export interface Cursor {
  epoch: number;
  /** These count optimizer steps, in all and in the epoch under way. */
  step: number;
  stepInEpoch: number;
  samples: number;
  sums: number[];
  best: { epoch: number; valLoss: number } | null;
  valLoss: number | null;
  /** Absent before the first evaluation, and in checkpoints of versions that monitored the validation loss alone. */
  judged?: Judgement;
  /** Present where the learning rate goes by the evaluations (--scheduler plateau). */
  plateau?: Plateau;
  /** By rank: micro-batches that run op by op, since compiled steps gave other gradients (core/train/compiled_refusals.ts). */
  refused?: readonly (readonly string[])[];
}

/** torch's ReduceLROnPlateau remembers this. */
export interface Plateau {
  readonly mode: "min" | "max";
  /** Null before the first that was a number. */
  readonly best: number | null;
  /** Evaluations since a better one, and those for which none counts. */
  readonly bad: number;
  readonly cooldown: number;
  readonly evaluations: number;
  /** The learning rate has come from `base` to this. */
  readonly rate: number;
  readonly base: number;
}

/** The evaluations so far came to this. */
export interface Judgement {
  readonly monitor: string;
  readonly mode: "min" | "max";
  /** The last one was made after this step. */
  readonly step: number;
  /** So many were made since the best one. */
  readonly since: number;
  /** Those whose checkpoints are kept, the best first. */
  readonly kept: readonly KeptEvaluation[];
  /** More than one was kept at a time. */
  readonly several: boolean;
}

export interface KeptEvaluation extends BestPlace {
  readonly value: number;
}

/** PyTorch's param_groups entry, but for lr and params. */
type Options = Readonly<Record<string, number | boolean | string | readonly number[] | null>>;

export interface StateParts {
  readonly names: readonly string[];
  readonly stateDict: readonly (readonly [string, Tensor])[];
  readonly optimizer: {
    readonly type: string;
    steps: number;
    /** A parameter that has no such state has a tensor without elements. */
    readonly slots: ReadonlyMap<string, readonly Tensor[]>;
    readonly numbers?: Record<string, number>;
    readonly joint?: JointState;
    readonly options: Options;
    /** Present where parameters have settings or beginnings of their own. */
    readonly groups?: {
      readonly of: readonly number[];
      readonly factors: readonly number[];
      readonly options: readonly Options[];
      steps: readonly number[];
      readonly numbers?: readonly Record<string, number>[];
    };
  };
  readonly scaler: { scale: number; goodSteps: number; skipped: number } | null;
  /** Averaged weights have the parameters' names; null where no average is kept. */
  readonly ema: readonly (readonly [string, Tensor])[] | null;
  /** Present where the average is of epochs' ends (--swa-start): of how many. Before the first there is none to save. */
  readonly swa?: { averaged: number } | null;
}

export interface CheckpointFacts {
  readonly version: string;
  readonly run: string;
  readonly seed: number;
  readonly learningRate: number;
  /** The state dict of torch's scheduler of its kind, and what that leaves in the optimizer's groups. */
  readonly scheduler: {
    readonly state: Readonly<Record<string, unknown>>;
    readonly perStep?: Readonly<Record<string, unknown>>;
    /** Rates, of which each group has its share, and numbers that are the same for all. */
    readonly group: Readonly<Record<string, number>>;
    readonly numbers?: Readonly<Record<string, number>>;
    /** The schedule has moved these, for the next step. */
    readonly moved?: Moved;
  };
  readonly config: unknown;
  /** The samples were normalised with these; other data must be, too. */
  readonly normalisation?: { readonly mean: readonly number[]; readonly std: readonly number[] } | null;
  /** These stand for missing inputs, in the data's own units; other data must have the same. */
  readonly fill?: readonly number[] | null;
  /** Means by season over the training samples; other data must be taken with the same. */
  readonly climatology?: SavedClimatology | null;
  /** The model gives targets less these means, divided by these deviations. */
  readonly targetScale?: { readonly mean: readonly number[]; readonly std: readonly number[] } | null;
  /** The training data's labels gave them; other data must be judged with the same. */
  readonly classWeights?: readonly number[] | null;
  /** Other data may not show the meaning of the model's outputs. */
  readonly answers?: {
    readonly task: string;
    readonly outputs: number;
    readonly names: readonly string[];
    /** Texts about each target, such as its units. */
    readonly about?: Readonly<Record<string, Readonly<Record<string, string>>>>;
    readonly upscale?: number;
  };
  /** The model was made from this: the data is not asked again. */
  readonly trainedOn?: object;
  /** A hash by which the tokenizer of its texts is recognised. */
  readonly tokenizer?: string | null;
  /** All attempts of the run share this W&B id; null without one. */
  readonly wandb?: string | null;
}

interface SavedClimatology {
  readonly seasons: string;
  readonly targets: readonly { readonly name: string; readonly shape: readonly number[] }[];
  readonly means: Readonly<
    Record<string, { readonly values: Float32Array; readonly shape: readonly number[] }>
  >;
}

function climatologyTree({ seasons, targets, means }: SavedClimatology): Value {
  const data = ({ values, shape }: SavedClimatology["means"][string]) =>
    new TensorData(
      "f32",
      [...shape],
      memoryStorage(new Uint8Array(values.buffer, values.byteOffset, values.byteLength)),
    );
  const tensors = Object.entries(means).map(([name, mean]) => [name, data(mean)] as const);
  return dict({ seasons, targets: plain(targets), means: new Map(tensors) });
}

export function toTree(
  parts: StateParts,
  cursor: Cursor,
  facts: CheckpointFacts,
  data: (t: Tensor) => TensorData = toData,
): Value {
  const { optimizer, scaler, swa } = parts, ema = swa?.averaged === 0 ? null : parts.ema;
  return dict({
    epoch: cursor.epoch,
    model_state_dict: weights(parts.stateDict, data),
    optimizer_state_dict: optimizerTree(parts, facts, data),
    scheduler_state_dict: plain(facts.scheduler.state),
    scaler_state_dict: scaler
      ? dict({ scale: scaler.scale, _growth_tracker: scaler.goodSteps, skipped: scaler.skipped })
      : dict({}),
    val_loss: cursor.valLoss,
    config: plain(facts.config),
    hpctrain: dict({
      version: facts.version,
      architecture: Deno.build.arch,
      run: facts.run,
      seed: facts.seed,
      optimizer: optimizer.type,
      optimizer_steps: optimizer.steps,
      ...(facts.scheduler.perStep && { scheduler_per_step: plain(facts.scheduler.perStep) }),
      cursor: plain(cursor),
      wandb_run_id: facts.wandb ?? null,
      normalisation: plain(facts.normalisation ?? null),
      ...(facts.fill ? { fill: plain(facts.fill) } : {}),
      ...(facts.targetScale ? { target_normalisation: plain(facts.targetScale) } : {}),
      ...(facts.climatology ? { climatology: climatologyTree(facts.climatology) } : {}),
      ...(facts.classWeights ? { class_weights: plain(facts.classWeights) } : {}),
      answers: plain(facts.answers ?? null),
      ...(facts.trainedOn ? { trained_on: plain(facts.trainedOn) } : {}),
      ...(facts.tokenizer ? { tokenizer: facts.tokenizer } : {}),
      ema_state_dict: ema ? weights(ema, data) : null,
      ...(swa ? { averaged_epochs: swa.averaged } : {}),
    }),
  });
}

export function* tensorsOf({ stateDict, optimizer, ema }: StateParts): Generator<Tensor> {
  for (const [, t] of stateDict) yield t;
  for (const slot of optimizer.slots.values()) yield* slot;
  for (const [, t] of ema ?? []) yield t;
}

function weights(named: readonly (readonly [string, Tensor])[], data: (t: Tensor) => TensorData): Value {
  const seen = new Map<Tensor, TensorData>(); // Tied weights share one storage, as in PyTorch.
  const once = (t: Tensor) => {
    const made = seen.get(t) ?? data(t);
    seen.set(t, made);
    return made;
  };
  return new OrderedDict(named.map(([name, t]) => [name, once(t)]));
}

/** torch.optim's state_dict has per-parameter state by number, then the parameter groups. */
function optimizerTree(
  { optimizer, names }: StateParts,
  { learningRate, scheduler }: Pick<CheckpointFacts, "learningRate" | "scheduler">,
  data: (t: Tensor) => TensorData,
): Value {
  const state = new Map<number, Value>(), { groups } = optimizer, all = [...names.keys()];
  const order = groups ? groups.factors.flatMap((_, g) => all.filter((i) => groups.of[i] === g)) : all;
  if (optimizer.joint) {
    if (optimizer.steps > 0) state.set(0, optimizer.joint.entry(optimizer, data));
  } else if (optimizer.steps > 0 && optimizer.slots.size > 0) {
    // torch.optim numbers parameters group by group.
    order.forEach((i, number) => {
      const own = [...optimizer.slots].filter(([, tensors]) => tensors[i].numel > 0);
      const entry = dict(Object.fromEntries(own.map(([slot, tensors]) => [slot, data(tensors[i])])));
      const numbers = numbersBeside(optimizer)[groups ? groups.of[i] : 0] ?? {};
      for (const [name, value] of Object.entries(numbers)) {
        if (!(name in optimizer.options)) entry.set(name, scalarData(value)); // else the group has it
      }
      const steps = groups ? groups.steps[groups.of[i]] : optimizer.steps;
      if (optimizer.type !== "sgd" || groups) entry.set("step", scalarData(steps));
      state.set(number, entry);
    });
  }
  const groupOf = (members: readonly number[], share: number, options: Options) => {
    const rates = Object.entries(scheduler.group).map(([name, rate]) => [name, rate * share]);
    const group = dict({
      lr: learningRate * share,
      ...Object.fromEntries(rates),
      ...Object.fromEntries(
        Object.entries(movedOptions(options, scheduler.moved)).map(([k, v]) => [k, plain(v)]),
      ),
      ...scheduler.numbers,
    });
    group.set("params", members.map((i) => order.indexOf(i)));
    group.set("param_names", members.map((i) => names[i])); // PyTorch writes this for an optimizer over named parameters.
    return group;
  };
  const list = groups
    ? groups.factors.map((factor, g) =>
      groupOf(order.filter((i) => groups.of[i] === g), factor, groups.options[g])
    )
    : [groupOf(order, 1, optimizer.options)];
  return dict({ state: state as Value, param_groups: list });
}

function movedOptions(
  options: Options,
  { momentum, decay }: Moved = {},
): Options {
  const { betas, momentum: own, weight_decay: before } = options;
  return {
    ...options,
    ...(momentum !== undefined && own !== undefined && { momentum }),
    ...(momentum !== undefined && Array.isArray(betas) && { betas: [momentum, ...betas.slice(1)] }),
    ...(decay !== undefined && typeof before === "number" && { weight_decay: before * decay }),
  };
}

export function plain(value: unknown): Value {
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Map) return new Map([...value].map(([k, v]) => [k, plain(v)]));
  if (typeof value === "object" && value !== null) {
    return new Map(Object.entries(value).map(([k, v]) => [k, plain(v)]));
  }
  return value as Value;
}

/** @internal */
type Named = readonly (readonly [string, Tensor])[];

interface Matched {
  put(): void;
  readonly notice?: string;
}

/**
 * Puts a file's weights into a model; every missing, extra or wrongly shaped tensor is listed at once. `fresh` tensors keep
 * the values that they have.
 */
export function loadWeights(named: Named, root: Value, path: string, fresh?: Fresh): { notice?: string } {
  const { put, notice } = match(named, root, path, fresh);
  put();
  return { notice };
}

function match(whole: Named, root: Value, path: string, fresh?: Fresh): Matched {
  const wanted = whole.map(([name, t]) => ({ name, shape: t.shape }));
  const given = findStateDict(root, path).tensors;
  const saved = wanted.some(({ name }) => isAdapter(name)) ? given : mergeAdapters(root, given);
  const unwrapped = withoutWrappers(wanted, saved);
  const known = knownNames(wanted, unwrapped.tensors);
  const fitted = fresh?.positions && fittedPositions(known.tensors, fresh.positions, {
    path,
    own: field(root, "hpctrain") instanceof Map,
  });
  const left = fresh && leaveOut(wanted, known.tensors, fresh);
  const tensors = left?.tensors ?? known.tensors;
  const named = left ? whole.filter(([name]) => !left.names.has(name)) : whole;
  const all = named.map(([name, t]) => ({ name, shape: t.shape, dtype: t.dtype }));
  const notices = [unwrapped.notice, known.notice, fitted, left?.notice].filter((one) => one !== undefined);
  const notice = notices.length > 0 ? notices.join("\n") : undefined;
  // Some writers store a tied weight once: its other names may be missing.
  const first = new Map<Tensor, string>();
  for (const [name, t] of named) {
    if (!first.has(t) || tensors.has(name) && !tensors.has(first.get(t)!)) first.set(t, name);
  }
  const expected = all.filter(({ name }, i) => tensors.has(name) || first.get(named[i][1]) === name);
  compareStateDicts(expected, tensors, path, fresh?.advice);
  return { put: () => first.forEach((name, t) => copyInto(t, tensors.get(name)!)), notice };
}

/** Replaces them; says so where they are others. */
function fittedPositions(
  tensors: Map<string, TensorData>,
  positions: Positions,
  from: { readonly path: string; readonly own: boolean },
): string | undefined {
  const saved = tensors.get(positions.name);
  if (saved === undefined) return undefined;
  const numbers = () =>
    scope(() => {
      const t = uninitialised(saved.shape, { dtype: saved.dtype });
      copyInto(t, saved);
      return toNumbers(t);
    });
  const made = resampledPositions(saved, numbers, positions, from);
  if (made) tensors.set(positions.name, made.tensor);
  return made?.notice;
}

interface Resumed {
  readonly cursor: Cursor;
  readonly notices: readonly string[];
}

/** Nothing is changed before everything was found. */
export function loadTraining(parts: StateParts, root: Value, path: string): Resumed {
  const own = field(root, "hpctrain");
  const place = field(own, "cursor");
  if (!own || !(place instanceof Map)) {
    throw new UserError(
      "checkpoint",
      `${path} has weights but no training state of hpctrain, so a run can't go on from it: ` +
        `start a new run from its weights with --init-from ${path}.`,
    );
  }
  const cursor = readCursor(place, path);
  const weights = match(parts.stateDict, root, path);
  const saved = field(own, "ema_state_dict");
  const epochs = field(own, "averaged_epochs"), ofEpochs = typeof epochs === "number";
  const sameKind = ofEpochs === Boolean(parts.swa);
  const averages = parts.ema && sameKind && saved instanceof Map ? match(parts.ema, saved, path) : null;
  const optimizer = matchOptimizer(parts, root, own, path);

  weights.put();
  if (averages) averages.put();
  else if (parts.ema) startAverages(parts.ema, parts.stateDict);
  if (parts.swa) parts.swa.averaged = averages && ofEpochs ? epochs : 0;
  optimizer.put(copyInto);
  const scaler = field(root, "scaler_state_dict");
  const scale = field(scaler, "scale"), scaled = typeof scale === "number";
  if (parts.scaler && scaled) {
    parts.scaler.scale = scale;
    parts.scaler.goodSteps = Number(field(scaler, "_growth_tracker") ?? 0);
    parts.scaler.skipped = Number(field(scaler, "skipped") ?? 0);
  }
  const notices = [
    weights.notice,
    optimizer.notice,
    otherArchitecture(field(own, "architecture")),
    parts.ema && !averages && !parts.swa &&
    "The averages of the weights (--ema) begin with the checkpoint's weights: it has none",
    !averages && saved instanceof Map &&
    `The checkpoint's averaged weights are left out: this run keeps ${
      parts.ema ? "another average" : "none"
    } (--ema, --swa-start)`,
    parts.scaler && !scaled &&
    `The loss scale of fp16 begins at ${parts.scaler.scale}: the checkpoint has none`,
    !parts.scaler && scaled && "The checkpoint's loss scale is left out: this run is not in fp16 (--amp)",
  ];
  return { cursor, notices: notices.filter((notice) => typeof notice === "string") };
}

/** Its vector instructions add up in another order. */
function otherArchitecture(saved: Value | undefined): string | null {
  if (typeof saved !== "string" || saved === Deno.build.arch) return null;
  return `The checkpoint is of a run on ${saved}, and this machine is ${Deno.build.arch}: ` +
    "losses stay close to what they would have been, but are not the same bits";
}

function readCursor(place: Value, path: string): Cursor {
  const wrong = (name: string): never => {
    throw new UserError(
      "checkpoint",
      `${path}: its training state is damaged: ${name} is not what hpctrain writes there. ` +
        `Resume from an older checkpoint, or start from the weights with --init-from ${path}.`,
    );
  };
  const count = (name: string): number => {
    const value = field(place, name);
    return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : wrong(name);
  };
  const number = (from: Value, name: string): number => {
    const value = field(from, name);
    return typeof value === "number" ? value : wrong(name);
  };
  const sums = field(place, "sums");
  if (!Array.isArray(sums) || !sums.every((sum) => typeof sum === "number")) return wrong("sums");
  const best = field(place, "best") ?? null;
  // Version 0.1 could mark an infinite loss as the best.
  const isBest = best !== null && Number.isFinite(number(best, "valLoss"));
  const valLoss = field(place, "valLoss") ?? null;
  const judged = field(place, "judged");
  const judgement = judged === undefined ? null : readJudgement(judged) ?? wrong("judged");
  const plateau = field(place, "plateau");
  const fallen = plateau === undefined ? null : readPlateau(plateau) ?? wrong("plateau");
  const refused = field(place, "refused");
  if (refused !== undefined && !isTable(refused)) return wrong("refused");
  return {
    epoch: count("epoch"),
    step: count("step"),
    stepInEpoch: count("stepInEpoch"),
    samples: count("samples"),
    sums,
    best: isBest ? { epoch: number(best, "epoch"), valLoss: number(best, "valLoss") } : null,
    valLoss: valLoss === null ? null : number(place, "valLoss"),
    ...(judgement && { judged: judgement }),
    ...(fallen && { plateau: fallen }),
    ...(refused && { refused }),
  };
}

/** Null where it is none. */
function readJudgement(of: Value): Judgement | null {
  const [monitor, mode, step, since, several, kept] = ["monitor", "mode", "step", "since", "several", "kept"]
    .map((name) => field(of, name));
  const evaluations = Array.isArray(kept) ? kept.map(readKept) : [null];
  if (typeof monitor !== "string" || mode !== "min" && mode !== "max") return null;
  if (typeof step !== "number" || typeof since !== "number" || typeof several !== "boolean") return null;
  if (!evaluations.every((one) => one !== null)) return null;
  return { monitor, mode, step, since, kept: evaluations, several }; // a run that was resumed writes the same bytes
}

/** Null where it is none. */
function readPlateau(of: Value): Plateau | null {
  const mode = field(of, "mode");
  const best = field(of, "best") ?? null;
  const numbers = ["bad", "cooldown", "evaluations", "rate", "base"].map((name) => field(of, name));
  if (mode !== "min" && mode !== "max" || !numbers.every((n) => typeof n === "number")) return null;
  if (best !== null && typeof best !== "number") return null;
  const [bad, cooldown, evaluations, rate, base] = numbers;
  return { mode, best, bad, cooldown, evaluations, rate, base };
}

function readKept(of: Value): KeptEvaluation | null {
  const [step, epoch, within, value] = ["step", "epoch", "within", "value"].map((name) => field(of, name));
  return typeof step === "number" && typeof epoch === "number" && typeof value === "number" &&
      typeof within === "boolean"
    ? { step, epoch, within, value }
    : null;
}

const isTable = (value: Value): value is string[][] =>
  Array.isArray(value) &&
  value.every((row) => Array.isArray(row) && row.every((text) => typeof text === "string"));

/** A run without averages saved none: they begin with its weights. */
function startAverages(averages: Named, stateDict: Named): void {
  const weights = new Map(stateDict);
  noGrad(() => averages.forEach(([name, t]) => copy_(t, weights.get(name)!)));
}

/** Where the run kept averages (--ema, --swa-start), they replace the weights: validation saw them. */
export function judgedWeights(root: Value): { root: Value; averaged: boolean } {
  const averages = field(field(root, "hpctrain"), "ema_state_dict");
  const weights = field(root, "model_state_dict");
  if (!(averages instanceof Map) || !(weights instanceof Map)) return { root, averaged: false };
  return { root: new OrderedDict([...weights, ...averages]), averaged: true };
}
