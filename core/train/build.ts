// From settings and data to a model on the device, with its loss and arena: what training and evaluation share.
// May import ffi, models, data, its siblings.
import { manualSeed } from "../../ffi/random.ts";
import { toDevice } from "../../ffi/make.ts";
import type { Device } from "../../ffi/tensor.ts";
import type { Config } from "../config/settings.ts";
import { openData, type Opened } from "../data/open.ts";
import { UserError } from "../errors.ts";
import { createLoss } from "../models/losses.ts";
import type { Model } from "../models/model.ts";
import { lossFor } from "../models/exported/loss.ts";
import { checkRun } from "../models/exported/model.ts";
import { createModel } from "../models/registry.ts";
import { isCode } from "../user/export.ts";
import { userMetrics } from "../user/judging.ts";
import { userFile } from "../user/opened.ts";
import { type Arena, packParameters, type Shared } from "./arena.ts";
import type { Pass } from "./blocks.ts";
import { keyedSeeds } from "./keyed_seeds.ts";
import { answering, type Answers } from "./known.ts";
import { type Amp, chooseAmp } from "./precision.ts";

export interface Built {
  readonly data: Opened;
  readonly model: Model;
  readonly arena: Arena;
  readonly pass: Pass;
  readonly amp: Amp;
  readonly channelsLast: boolean;
}

/** Data that is looked at and not trained with. */
export interface Look {
  /** What the model answers, where that is known without the data. */
  readonly answers?: Answers | null;
  /** Whether the data need not say what the answers should be. */
  readonly untold?: boolean;
}

/** `ranks` share the work: their gradients are added up as a whole. `look`: samples are looked at, not trained with. */
export function build(
  config: Config,
  device: Device,
  ranks = 1,
  look: Look | null = null,
  shared?: Shared,
): Built {
  const { training } = config;
  const amp = chooseAmp(training.amp, device);
  if (amp === "fp16" && device === "cpu") {
    throw new UserError("usage", "--amp fp16 needs a GPU: on a CPU use --amp bf16 or --amp off.");
  }
  const { quiet, json } = config.output;
  const plain = look !== null, { answers = null, untold = false } = look ?? {};
  const data = told(
    openData(config.data, { ...training, plain, untold }, config.model, quiet || json),
    answers,
  );
  const { facts } = data.train;
  const chosen = createLoss(training, facts);
  manualSeed(BigInt(training.seed)); // the weights PyTorch would draw after torch.manual_seed(seed)
  const model = createModel(config.model, facts, chosen.outputs);
  const loss = lossFor(model, training.loss, chosen, facts);
  checkRun(model, {
    batch: training.batch_size,
    samples: [data.train.length, ...(data.val ? [data.val.length] : [])],
    syncBn: training.sync_bn && ranks > 1,
    changes: changesOf(config.data, data.normalisation !== null),
  });
  const arena = packParameters(
    model.root.namedParameters(),
    device,
    ranks === 1 && !needsWholeGradient(training, amp),
    config.distributed.zero === 1 ? ranks : 1, // each has as much of it
    shared,
  );
  if (device !== "cpu") {
    for (const [, buffer] of model.root.namedBuffers()) buffer.replaceWith(toDevice(buffer, device));
  }
  const cast = amp === "off" ? null : amp === "fp16" ? "f16" : "bf16";
  const pass = {
    model,
    loss,
    metrics: isCode(training.metric) ? userMetrics(userFile(training.metric), facts) : null,
    cast,
    onGpu: device !== "cpu",
    seeds: keyedSeeds(model, training.seed, isCode(config.model.name) || isCode(training.loss)),
  } as const;
  const channelsLast = training.channels_last === "on" ||
    (training.channels_last === "auto" &&
      (device === "cpu" ? model.channelsLastOnCpu === true : model.convolutional));
  return { data, model, arena, pass, amp, channelsLast };
}

const told = (data: Opened, answers: Answers | null): Opened =>
  answers
    ? { ...data, train: answering(data.train, answers), val: data.val && answering(data.val, answers) }
    : data;

/** What is done to the values of features, as the user wrote it. */
function changesOf({ scaling, mixup, cutmix }: Config["data"], normalised: boolean): string[] {
  return [
    ...(normalised ? ["--normalise"] : []),
    ...(scaling === "none" ? [] : ["--scaling"]),
    ...(mixup > 0 ? ["--mixup"] : []),
    ...(cutmix > 0 ? ["--cutmix"] : []),
  ];
}

/** Does anything look at all gradients at once, or add several up? */
export function needsWholeGradient(t: Config["training"], amp: Amp): boolean {
  const accumulates = t.grad_accum > 1 || t.global_batch_size > t.batch_size;
  return accumulates || t.deterministic === "world" || t.clip_norm > 0 || amp === "fp16" ||
    t.optimizer.type === "lamb";
}
