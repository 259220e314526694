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
import { checkRun } from "../models/exported/model.ts";
import { createModel } from "../models/registry.ts";
import { isCode } from "../user/export.ts";
import { userMetrics } from "../user/judging.ts";
import { userFile } from "../user/opened.ts";
import { type Arena, packParameters } from "./arena.ts";
import type { Pass } from "./blocks.ts";
import { keyedSeeds } from "./keyed_seeds.ts";
import { type Amp, chooseAmp } from "./precision.ts";

export interface Built {
  readonly data: Opened;
  readonly model: Model;
  readonly arena: Arena;
  readonly pass: Pass;
  readonly amp: Amp;
  readonly channelsLast: boolean;
}

/** `ranks` share the work: their gradients are added up as a whole. `plain`: samples are looked at, not trained with. */
export function build(config: Config, device: Device, ranks = 1, plain = false): Built {
  const { training } = config;
  const amp = chooseAmp(training.amp, device);
  if (amp === "fp16" && device === "cpu") {
    throw new UserError("usage", "--amp fp16 needs a GPU: on a CPU use --amp bf16 or --amp off.");
  }
  const { quiet, json } = config.output;
  const data = openData(config.data, { ...training, plain }, config.model, quiet || json);
  const { facts } = data.train;
  const loss = createLoss(training, facts);
  manualSeed(BigInt(training.seed)); // the weights PyTorch would draw after torch.manual_seed(seed)
  const model = createModel(config.model, facts, loss.outputs);
  checkRun(model, {
    batch: training.batch_size,
    samples: [data.train.length, ...(data.val ? [data.val.length] : [])],
    syncBn: training.sync_bn && ranks > 1,
  });
  const arena = packParameters(
    model.root.namedParameters(),
    device,
    ranks === 1 && !needsWholeGradient(training, amp),
    config.distributed.zero === 1 ? ranks : 1, // each has as much of it
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
    seeds: keyedSeeds(model, training.seed),
  } as const;
  const channelsLast = training.channels_last === "on" ||
    (training.channels_last === "auto" && device !== "cpu" && model.convolutional);
  return { data, model, arena, pass, amp, channelsLast };
}

/** Does anything look at all gradients at once, or add several up? */
export function needsWholeGradient(t: Config["training"], amp: Amp): boolean {
  const accumulates = t.grad_accum > 1 || t.global_batch_size > t.batch_size;
  return accumulates || t.deterministic === "world" || t.clip_norm > 0 || amp === "fp16" ||
    t.optimizer.type === "lamb";
}
