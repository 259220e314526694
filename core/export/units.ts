// A model between the data's own units: what scaled its inputs and targets in training becomes a part of the program, so that who
// runs it need not know of that. Figures that everybody knows, such as ImageNet's, stay outside, as they do elsewhere.
import { cat, narrow } from "../../ffi/ops.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { scaleIn, unscaling } from "../data/transforms/targets.ts";
import { givenIn, valuesOf } from "../data/transforms/values.ts";
import type { Normalisation } from "../data/source/source.ts";
import type { Loss } from "../models/losses.ts";
import type { Activation, Facts, Model } from "../models/model.ts";
import type { Config } from "../settings/settings.ts";
import { shiftedParts } from "../train/metrics.ts";

interface InUnits {
  readonly model: Model;
  /** The program has these figures of the checkpoint in it. */
  readonly within: readonly ("normalisation" | "target_normalisation")[];
}

/**
 * `data` has the run's own numbers, and `normalisation` what its inputs were normalised by, in whatever way. A model that is fed with
 * its own predictions scales its rows itself.
 */
export function inUnits(
  model: Model,
  data: Config["data"],
  facts: Pick<Facts, "input" | "outputs">,
  loss: Loss,
  normalisation: Normalisation | null = null,
): InUnits {
  const inputs = data.rollout === "" ? scalingOf(data, facts, normalisation) : null;
  const targets = data.normalise_targets === "on" ? scaleIn(data) : null;
  if (!inputs && !targets) return { model, within: [] };
  const unscaled = targets && unscaling(targets);
  const blocks = [
    ...(inputs ? [{ name: "inputs", module: null, forward: first(inputs.values) }] : []),
    ...model.blocks,
    ...(unscaled
      ? [{ name: "units", module: null, forward: first((y) => unscaled(y, shiftedParts(loss))) }]
      : []),
  ];
  return {
    model: { ...model, blocks },
    within: [
      ...(inputs?.normalises ? ["normalisation" as const] : []),
      ...(targets ? ["target_normalisation" as const] : []),
    ],
  };
}

const first = (change: (x: Tensor) => Tensor) => (x: Activation): Activation =>
  Array.isArray(x) ? [change(x[0]), ...x.slice(1)] : change(x as Tensor);

/** Channels that came later (a mask's, a climatology's) are as they are. */
function scalingOf(
  data: Config["data"],
  { input: { shape }, outputs }: Pick<Facts, "input" | "outputs">,
  normalisation: Normalisation | null,
) {
  const isGiven = data.mean.length > 0 || data.std.length > 0;
  if (!isGiven && data.scaling === "none") return null;
  const by = isGiven ? givenIn(data) : normalisation; // a scaling comes before it, so both are within, or none
  const all = shape[0] ?? 1, own = channelsOf(by, all, outputs, data);
  const values = valuesOf(data, own === all ? shape : shape.with(0, own), by)!;
  return {
    normalises: by !== null,
    values: own === all
      ? values
      : (x: Tensor) => cat([values(narrow(x, 1, 0, own)), narrow(x, 1, own, all - own)], 1),
  };
}

function channelsOf(by: Normalisation | null, all: number, outputs: number, data: Config["data"]): number {
  const named = Math.max(by?.mean.length ?? 1, by?.std.length ?? 1);
  return named > 1 ? named : all - (data.mask_channel ? 1 : 0) - (data.climatology_channel ? outputs : 0);
}
