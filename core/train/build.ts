// Builds the model, loss and arena from settings and data.
import { manualSeed } from "../../ffi/context.ts";
import { requireGrad } from "../../ffi/autograd.ts";
import type { Device } from "../../ffi/tensor.ts";
import type { Config } from "../settings/settings.ts";
import { openData, type Opened } from "../data/open/open.ts";
import { movingStep, withWords } from "../data/transforms/steps.ts";
import { UserError } from "../base/errors.ts";
import { createLoss, type Loss, unweighted } from "../models/losses.ts";
import type { Model } from "../models/model.ts";
import { checkRun, isExported, lossFor, notLogs, takesLogs } from "../models/exported/model.ts";
import { ofPatches } from "../models/patches.ts";
import type { RolledOut } from "../models/rollout.ts";
import { isCode, userFile } from "../models/user/file.ts";
import { userMetrics } from "../models/user/made.ts";
import { type Answers, measuredWeights } from "./data_facts.ts";
import { requestedIn } from "./requested_metrics.ts";
import { type Arena, packParameters, type Shared } from "./arena.ts";
import {
  allParameters,
  chooseParameters,
  restingBlocks,
  type TrainedParameters,
} from "./trained_parameters.ts";
import { keyedSeeds, type Pass, tokensAtOnce } from "./blocks.ts";
import { modelFor, moveBuffers, patchesIn } from "./fed_model.ts";
import { compiledMode } from "./compiled_choice.ts";
import { type Amp, chooseAmp } from "./precision.ts";
import type { Source } from "../data/source/source.ts";
import { isOfLatitude, pointWeights } from "../data/source/weights.ts";
import { weightsDtype } from "../settings/precision.ts";
import type { SavedScale } from "../data/transforms/scale_choice.ts";
import { needsWholeGradient } from "./clipping.ts";

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
interface PlainData {
  readonly answers?: Answers | null;
  /** True where the data may lack targets. */
  readonly silent?: boolean;
  /** All of the data is looked at as one. */
  readonly unsplit?: boolean;
  /** Each sample is predicted by itself. */
  readonly predicts?: boolean;
  /** The run's own. */
  readonly climatology?: Opened["climatology"];
}

/** `ranks` share the work: their gradients are added up. */
export function build(
  config: Config,
  device: Device,
  ranks = 1,
  plainData: PlainData | null = null,
  shared?: Shared,
  savedScale: SavedScale | null = null,
): Built {
  const { training } = config;
  const amp = chooseAmp(training.amp, device);
  if (amp === "fp16" && device === "cpu") {
    throw new UserError("usage", "--amp fp16 needs a GPU: on a CPU use --amp bf16 or --amp off.");
  }
  const plain = plainData !== null, silent = plainData?.silent ?? false;
  const data = openedFor(config, plainData, savedScale);
  const patches = patchesIn(config), facts = ofPatches(data.train.facts, patches);
  if (patches && training.loss_weight !== "" && !plain) {
    throw unweighable(training.loss_weight, config.data.patch);
  }
  if (training.loss_weight !== "" && !plain) refuseTurned(training.loss_weight, config.data);
  const weights = training.loss_weight === "" || silent
    ? null
    : pointWeights(training.loss_weight, data.train, weightsDtype(training));
  const classWeights = measuredWeights(training, data.train);
  const chosen = createLoss(
    {
      ...training,
      ...(classWeights && { class_weights: classWeights.map(String) }),
    },
    facts,
    weights,
    data.train.names ?? config.data.targets,
  );
  refuseScores(chosen, config.model.name);
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
    changes: changesOf(withWords(config.data), data.normalisation !== null),
  });
  const trained = plain ? allParameters(model) : chooseParameters(model, config);
  const whole = needsWholeGradient(training, amp) ||
    trained.grouping?.groups.some(({ clipNorm }) => clipNorm > 0) === true;
  const packed = packParameters(
    trained.named,
    device,
    ranks === 1 && !whole && (amp === "fp64" || compiledMode(training, device !== "cpu") === null),
    config.distributed.zero === 1 ? ranks : 1,
    shared,
  );
  const channelsLast = isChannelsLast(training, model, device);
  const arena = {
    ...packed,
    ...(trained.grouping && { order: trained.order }),
    ...(training.clip_sums === "torch" && { sumsAsTorch: { channelsLast } }),
  };
  moveBuffers(model, device, trained.frozen);
  for (const i of trained.waiting.keys()) requireGrad(arena.parameters[i], false);
  const cast = amp === "fp16" ? "f16" : amp === "bf16" ? "bf16" : null;
  const pass: Pass = {
    model,
    loss,
    metrics: isCode(training.metric) ? userMetrics(userFile(training.metric), facts) : null,
    requested: silent ? null : requestedIn(training),
    cast,
    onGpu: device !== "cpu",
    patches,
    rollout: "rollout" in model ? (model as RolledOut).rollout : null,
    ...(model.drawFor && { begin: (_, ids) => model.drawFor!(training.seed, ids) }),
    atRest: restingBlocks(model, trained, 0),
    tokensAtOnce: facts.task === "language" ? tokensAtOnce(training.logits_mib, facts.outputs) : 0,
    seeds: keyedSeeds(model, training.seed, {
      unknown: isCode(config.model.name) || isCode(training.loss),
      once: device !== "cpu" && !training.gradient_checkpointing,
    }),
  };
  return { data, model, arena, trained, pass, amp, channelsLast, classWeights };
}

/** A model that is built in gives scores. */
function refuseScores(loss: Loss, model: string): void {
  if (takesLogs(loss) && !isCode(model) && !isExported(model)) throw notLogs(`${model} gives scores`);
}

/** The way in which batches of images lie in memory. */
export const isChannelsLast = (
  { channels_last }: Config["training"],
  { channelsLastOnCpu, convolutional }: Model,
  device: Device,
): boolean =>
  channels_last === "on" ||
  channels_last === "auto" && (device === "cpu" ? channelsLastOnCpu === true : convolutional);

/** One map of weights does not say what the points of a patch weigh. */
const unweighable = (weight: string, patch: string): UserError =>
  new UserError(
    "usage",
    `--loss-weight ${weight} weighs the points of whole maps, and --patch ${patch} trains with patches of them: leave one ` +
      "of them out.",
  );

/** Weights stay where they are: a row that is mirrored left to right keeps its latitude, and nothing else does. */
/** The data of a run; `plain` is only looked at. */
export function openedFor(
  { data, training, model, output: { quiet, json } }: Config,
  plain: PlainData | null,
  savedScale: SavedScale | null = null,
): Opened {
  const { answers = null, silent = false, unsplit = false, predicts = false, climatology } = plain ?? {};
  const classes = answers?.task === "segmentation" ? answers.outputs : undefined;
  const asked = {
    ...{ plain: plain !== null, learns: plain === null, withoutTargets: silent, unsplit, predicts },
    ...{ classes, climatology, savedScale },
  };
  return withAnswers(
    openData(data, { ...training, ...asked }, model, quiet || json),
    answers,
  );
}

function refuseTurned(weight: string, { flip, rotate, augment }: Config["data"]): void {
  const moving = movingStep(augment, isOfLatitude(weight) ? ["horizontal_flip"] : []);
  const moved = rotate
    ? "--rotate"
    : moving
    ? `"${moving.text}" of --augment`
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

const answering = (source: Source, { task, outputs, upscale }: Answers): Source => ({
  ...source,
  facts: { ...source.facts, task, outputs, ...(upscale && { upscale }) },
  host: source.host && answering(source.host, { task, outputs, upscale, names: [] }),
});
