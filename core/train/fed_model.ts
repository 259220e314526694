// The model of the settings, as data feeds it: with its patches, roll-outs and shapes.
import { UserError } from "../base/errors.ts";
import { rolloutOf } from "../data/source/rollout.ts";
import type { Opened } from "../data/open/open.ts";
import type { Normalisation, Source } from "../data/source/source.ts";
import { rolloutOver } from "../data/transforms/apply.ts";
import { isExported } from "../models/exported/model.ts";
import { createLoss, type Loss } from "../models/losses.ts";
import type { Facts, Model } from "../models/model.ts";
import { ofPatches, paddingInPatches, type Patches, patchesOf, wholeMaps } from "../models/patches.ts";
import { createModel } from "../models/registry.ts";
import { rolledOut } from "../models/rollout.ts";
import { weightsDtype } from "../settings/precision.ts";
import type { Config } from "../settings/settings.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { toDevice } from "../../ffi/make.ts";
import { toCopy } from "../../ffi/ops.ts";
import type { Device, Tensor } from "../../ffi/tensor.ts";
import { packParameters } from "./arena.ts";
import type { TrainedOn } from "./data_facts.ts";

export const patchesIn = ({ data, model, training }: Config): Patches | null =>
  patchesOf(data, model.padding, training.eval_batch_size || training.batch_size);

const inPatches = (config: Config, { whole }: Fed): Config["model"] => ({
  ...config.model,
  padding: paddingInPatches(config.model.padding, patchesIn(config), whole.slice(-2)),
});

/** A further model for the same data and loss, which is not trained: it answers whole maps. */
export function createOnDevice(config: Config, data: Opened, loss: Loss, device: Device): Model {
  return wholeMaps(placeModel(modelFor(config, data, loss), device), patchesIn(config));
}

/** The model with its weights there, for answers alone. */
export function placeModel(model: Model, device: Device): Model {
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
  const seen = ofPatches(facts, patchesIn(config)),
    loss = createLoss(config.training, seen, null, config.data.targets);
  return { model: modelFor(config, { train: { facts }, whole, rollout }, loss), facts: seen, loss };
}

/** A model is made for such data. */
interface Fed extends Pick<Opened, "whole" | "rollout"> {
  readonly train: Pick<Source, "facts">;
}

/** The model of the settings, as the data feeds it. */
export const modelFor = (config: Config, data: Fed, loss: Loss): Model =>
  inPrecision(fedModel(config, data, loss), config.training);

function fedModel(config: Config, data: Fed, loss: Loss): Model {
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

/** Weights are drawn as f32, and so are those of --amp fp64: as PyTorch's model.double() leaves them. */
function inPrecision(model: Model, training: Config["training"]): Model {
  const wanted = weightsDtype(training), { root } = model;
  if (isExported(model.name)) {
    const odd = root.namedParameters().find(([, { dtype }]) => dtype !== wanted);
    if (odd) throw otherPrecision(model.name, odd[0], odd[1].dtype);
  } else if (wanted === "f64") {
    for (const [, t] of [...root.namedParameters(), ...root.namedState()]) {
      if (t.dtype === "f32") t.replaceWith(noGrad(() => toCopy(t, "f64")));
    }
  }
  return model;
}

const otherPrecision = (path: string, parameter: string, dtype: string): UserError =>
  new UserError(
    "usage",
    dtype === "f64"
      ? `${path}: its parameter ${parameter} is f64: train it in double precision with --amp fp64, or call model.float() ` +
        "before torch.export.export."
      : `${path}: its parameter ${parameter} is ${dtype}, and --amp fp64 trains in double precision: call model.double(), ` +
        "and export it with an example input of torch.float64.",
  );

/** Frozen weights lie outside of the arena, as buffers do. */
export function moveBuffers({ root }: Model, device: Device, frozen: readonly Tensor[] = []): void {
  if (device === "cpu") return;
  for (const t of [...root.namedBuffers().map(([, buffer]) => buffer), ...frozen]) {
    t.replaceWith(toDevice(t, device));
  }
}
