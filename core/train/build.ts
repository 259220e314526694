// Builds the model, loss and arena from settings and data.
import { manualSeed } from "../../ffi/context.ts";
import { requireGrad } from "../../ffi/autograd.ts";
import { toDevice } from "../../ffi/make.ts";
import type { Device, Tensor } from "../../ffi/tensor.ts";
import type { Config } from "../settings/settings.ts";
import { openData, type Opened } from "../data/open.ts";
import { UserError } from "../base/errors.ts";
import { createLoss, type Loss, unweighted } from "../models/losses.ts";
import type { Facts, Model } from "../models/model.ts";
import { checkRun, isExported, lossFor } from "../models/exported/model.ts";
import { ofPatches, paddingInPatches, type Patches, patchesOf, wholeMaps } from "../models/patches.ts";
import { createModel } from "../models/registry.ts";
import { type RolledOut, rolledOut } from "../models/rollout.ts";
import { isCode, userFile } from "../models/user/file.ts";
import { userMetrics } from "../models/user/made.ts";
import { measuredWeights } from "./class_weights.ts";
import { type Arena, packParameters, type Shared } from "./arena.ts";
import {
  allParameters,
  chooseParameters,
  restingBlocks,
  type TrainedParameters,
} from "./trained_parameters.ts";
import { keyedSeeds, type Pass, tokensAtOnce } from "./blocks.ts";
import { compiledMode } from "./compiled_mode.ts";
import { type Amp, chooseAmp } from "./precision.ts";
import { field, type Value } from "../checkpoint/value.ts";
import type { Climatology } from "../data/climatology.ts";
import type { Source, TargetTexts } from "../data/source.ts";
import { isOfLatitude, pointWeights } from "../data/weights.ts";
import { rolloutOf } from "../data/rollout.ts";
import { rolloutOver } from "../data/transforms/apply.ts";
import type { SavedScale } from "../data/transforms/scale_choice.ts";
import type { Normalisation } from "../data/transforms/values.ts";
import { traitsOf } from "./optimizers.ts";
import type { TrainedOn } from "./trained_on.ts";

export interface Built {
  readonly data: Opened;
  readonly model: Model;
  readonly arena: Arena;
  /** Those of the arena, and what is known of each. */
  readonly trained: TrainedParameters;
  readonly pass: Pass;
  readonly amp: Amp;
  readonly channelsLast: boolean;
  /** The training data's labels gave these to --class-weights auto; null without it. */
  readonly classWeights: readonly number[] | null;
}

/** Data that is not trained with. */
interface Look {
  readonly answers?: Answers | null;
  /** True where the data may lack targets. */
  readonly untold?: boolean;
  /** All of the data is looked at as one. */
  readonly unsplit?: boolean;
  /** The run's own. */
  readonly climatology?: Climatology | null;
}

/** `ranks` share the work: their gradients are added up. */
export function build(
  config: Config,
  device: Device,
  ranks = 1,
  look: Look | null = null,
  shared?: Shared,
  savedScale: SavedScale | null = null,
): Built {
  const { training } = config;
  const amp = chooseAmp(training.amp, device);
  if (amp === "fp16" && device === "cpu") {
    throw new UserError("usage", "--amp fp16 needs a GPU: on a CPU use --amp bf16 or --amp off.");
  }
  const { quiet, json } = config.output;
  const plain = look !== null, { answers = null, untold = false, unsplit = false } = look ?? {};
  const data = withAnswers(
    openData(
      config.data,
      {
        ...training,
        plain,
        learns: !plain,
        withoutTargets: untold,
        unsplit,
        climatology: look?.climatology,
        savedScale,
      },
      config.model,
      quiet || json,
    ),
    answers,
  );
  const patches = patchesIn(config), facts = ofPatches(data.train.facts, patches);
  if (patches && training.loss_weight !== "" && !plain) {
    throw unweighable(training.loss_weight, config.data.patch);
  }
  if (training.loss_weight !== "" && !plain) refuseTurned(training.loss_weight, config.data);
  const weights = training.loss_weight === "" || untold
    ? null
    : pointWeights(training.loss_weight, data.train);
  const classWeights = measuredWeights(training, data.train);
  const chosen = createLoss(
    {
      ...training,
      ...(classWeights && { class_weights: classWeights.map(String) }),
    },
    facts,
    weights,
  );
  manualSeed(BigInt(training.seed)); // the weights PyTorch would draw after torch.manual_seed(seed)
  const model = modelFor(config, data, chosen);
  if (data.rollout && ranks > 1 && training.sync_bn) {
    throw new UserError("usage", "--sync-bn can't go with --rollout: leave one of them out.");
  }
  const loss = lossFor(model, training.loss, chosen, facts, data.train.target.shape);
  if (weights && loss.weights !== weights) throw unweighted(loss.name);
  checkRun(model, {
    batch: training.batch_size,
    samples: [data.train.length, ...(data.val ? [data.val.length] : [])],
    syncBn: training.sync_bn && ranks > 1,
    changes: changesOf(config.data, data.normalisation !== null),
  });
  const trained = plain ? allParameters(model) : chooseParameters(model, config);
  const arena = packParameters(
    trained.named,
    device,
    ranks === 1 && !needsWholeGradient(training, amp) && compiledMode(training, device !== "cpu") === null,
    config.distributed.zero === 1 ? ranks : 1,
    shared,
  );
  moveBuffers(model, device, trained.frozen);
  for (const i of trained.waiting) requireGrad(arena.parameters[i], false);
  const cast = amp === "off" ? null : amp === "fp16" ? "f16" : "bf16";
  const pass: Pass = {
    model,
    loss,
    metrics: isCode(training.metric) ? userMetrics(userFile(training.metric), facts) : null,
    cast,
    onGpu: device !== "cpu",
    patches,
    rollout: "rollout" in model ? (model as RolledOut).rollout : null,
    ...(model.drawFor && { begin: (_, ids) => model.drawFor!(training.seed, ids) }),
    atRest: restingBlocks(model, trained, true),
    tokensAtOnce: facts.task === "language" ? tokensAtOnce(training.logits_mib, facts.outputs) : 0,
    seeds: keyedSeeds(model, training.seed, {
      unknown: isCode(config.model.name) || isCode(training.loss),
      once: device !== "cpu" && !training.gradient_checkpointing,
    }),
  };
  const channelsLast = isChannelsLast(training, model, device);
  return { data, model, arena, trained, pass, amp, channelsLast, classWeights };
}

/** The way in which batches of images lie in memory. */
export const isChannelsLast = (
  { channels_last }: Config["training"],
  { channelsLastOnCpu, convolutional }: Model,
  device: Device,
): boolean =>
  channels_last === "on" ||
  channels_last === "auto" && (device === "cpu" ? channelsLastOnCpu === true : convolutional);

/** Frozen weights lie outside of the arena, as buffers do. */
function moveBuffers({ root }: Model, device: Device, frozen: readonly Tensor[] = []): void {
  if (device === "cpu") return;
  for (const t of [...root.namedBuffers().map(([, buffer]) => buffer), ...frozen]) {
    t.replaceWith(toDevice(t, device));
  }
}

const patchesIn = ({ data, model, training }: Config): Patches | null =>
  patchesOf(data, model.padding, training.eval_batch_size || training.batch_size);

const inPatches = (config: Config, { whole }: Fed): Config["model"] => ({
  ...config.model,
  padding: paddingInPatches(config.model.padding, patchesIn(config), whole.slice(-2)),
});

/** A further model for the same data and loss, which is not trained: it answers whole maps. */
export function createOnDevice(config: Config, data: Opened, loss: Loss, device: Device): Model {
  return wholeMaps(onDevice(modelFor(config, data, loss), device), patchesIn(config));
}

/** The model with its weights there, for answers alone. */
export function onDevice(model: Model, device: Device): Model {
  packParameters(model.root.namedParameters(), device, true);
  moveBuffers(model, device);
  return model;
}

/** A checkpoint's model, made from what the checkpoint says alone: no data is opened. Its weights are still to be loaded. */
export function modelAsTrained(
  config: Config,
  { facts, whole, rollout: rows }: TrainedOn,
  normalisation: Normalisation | null,
): { readonly model: Model; readonly facts: Facts; readonly loss: Loss } {
  const most = rolloutOf(config.data)?.most;
  const rollout = rows && most
    ? rolloutOver({ ...rows, most }, config.data, facts.input.shape, normalisation)
    : null;
  const seen = ofPatches(facts, patchesIn(config)), loss = createLoss(config.training, seen);
  return { model: modelFor(config, { train: { facts }, whole, rollout }, loss), facts: seen, loss };
}

/** A model is made for such data. */
interface Fed extends Pick<Opened, "whole" | "rollout"> {
  readonly train: Pick<Source, "facts">;
}

/** The model of the settings, as the data feeds it. */
function modelFor(config: Config, data: Fed, loss: Loss): Model {
  const settings = inPatches(config, data), facts = ofPatches(data.train.facts, patchesIn(config));
  const { rollout } = data;
  if (!rollout) return createModel(settings, facts, loss.outputs);
  if (isExported(settings.name)) {
    throw new UserError(
      "usage",
      `--rollout feeds a model row by row, and the exported program ${settings.name} has one form of input: leave it out.`,
    );
  }
  const { most, history, channels, extra } = rollout, mask = config.data.mask_channel ? 1 : 0;
  const shape = facts.input.shape.with(0, history * channels + mask + extra);
  const { history: _, ...input } = facts.input;
  const one: Facts = {
    ...facts,
    outputs: facts.outputs / most,
    input: { ...input, shape, ...(history > 1 && { history }) },
  };
  const inner = createModel(settings, one, loss.outputs / most);
  return rolledOut(inner, rollout, loss.parts?.length ?? 1, loss.point ?? 0);
}

/** One map of weights does not say what the points of a patch weigh. */
const unweighable = (weight: string, patch: string): UserError =>
  new UserError(
    "usage",
    `--loss-weight ${weight} weighs the points of whole maps, and --patch ${patch} trains with patches of them: leave one ` +
      "of them out.",
  );

/** Weights stay where they are: a row that is mirrored left to right keeps its latitude, and nothing else does. */
function refuseTurned(weight: string, { flip, rotate }: Config["data"]): void {
  const moved = rotate
    ? "--rotate"
    : flip === "both" || (flip === "horizontal" && !isOfLatitude(weight))
    ? `--flip ${flip}`
    : null;
  if (moved === null) return;
  throw new UserError(
    "usage",
    `--loss-weight ${weight} weighs points by their place on the grid, and ${moved} moves them elsewhere: leave one of ` +
      `them out${isOfLatitude(weight) ? ", or use --flip horizontal" : ""}.`,
  );
}

function withAnswers(data: Opened, known: Answers | null): Opened {
  if (known === null) return data;
  const { rollout } = data; // it may be longer than the run's
  const answers = rollout ? { ...known, outputs: rollout.most * (1 + Math.max(...rollout.fed)) } : known;
  return {
    ...data,
    train: answering(data.train, answers),
    val: data.val && answering(data.val, answers),
    test: data.test && answering(data.test, answers),
  };
}

function changesOf({ scaling, mixup, cutmix }: Config["data"], normalised: boolean): string[] {
  return [
    ...(normalised ? ["--normalise"] : []),
    ...(scaling === "none" ? [] : ["--scaling"]),
    ...(mixup > 0 ? ["--mixup"] : []),
    ...(cutmix > 0 ? ["--cutmix"] : []),
  ];
}

export function needsWholeGradient(t: Config["training"], amp: Amp): boolean {
  const accumulates = t.grad_accum > 1 || t.fit_batch || t.global_batch_size > t.batch_size;
  return accumulates || t.deterministic === "world" || t.clip_norm > 0 || amp === "fp16" ||
    traitsOf(t.optimizer).wholeGradient;
}

export interface Answers {
  readonly task: Facts["task"];
  /** Classes, numbers to predict, or tokens in the vocabulary. */
  readonly outputs: number;
  /** Empty where classes or numbers have no names. */
  readonly names: readonly string[];
  readonly about?: TargetTexts;
  /** They are maps so many times finer than the input's. */
  readonly upscale?: number;
}

const MOST_NAMES = 10_000;

export const answersOf = ({ facts: { task, outputs, upscale }, names = [], about }: Source): Answers => ({
  task,
  outputs,
  names: names.length > MOST_NAMES ? [] : names,
  ...(about && { about }),
  ...(upscale && { upscale }),
});

/** Null in a checkpoint of an older version or another program. */
export function savedAnswers(root: Value): Answers | null {
  const known = field(field(root, "hpctrain"), "answers");
  const task = field(known, "task"), outputs = field(known, "outputs"), names = field(known, "names");
  if (typeof task !== "string" || typeof outputs !== "number") return null;
  const about = textsIn(field(known, "about")), upscale = field(known, "upscale");
  return {
    ...{ task: task as Facts["task"], outputs, names: Array.isArray(names) ? names.map(String) : [] },
    ...(about && { about }),
    ...(typeof upscale === "number" && { upscale }),
  };
}

function textsIn(about: Value | undefined): TargetTexts | null {
  if (!(about instanceof Map)) return null;
  const texts = [...about].map(([name, texts]) => [
    String(name),
    Object.fromEntries(
      texts instanceof Map ? [...texts].map(([key, text]) => [String(key), String(text)]) : [],
    ),
  ]);
  return Object.fromEntries(texts);
}

const answering = (source: Source, { task, outputs, upscale }: Answers): Source => ({
  ...source,
  facts: { ...source.facts, task, outputs, ...(upscale && { upscale }) },
  host: source.host && answering(source.host, { task, outputs, upscale, names: [] }),
});
