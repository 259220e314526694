// Each value of a finished batch is scaled; then each channel is brought to mean 0 and deviation 1.
import { isFloating, opmathType } from "../../../ffi/dtype.ts";
import { constant, constantRowBeside, sub } from "../../../ffi/make.ts";
import { asinh, div, div_, log1p, minValue } from "../../../ffi/ops.ts";
import { describe, scope, type Tensor } from "../../../ffi/tensor.ts";
import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";
import { formatPlural } from "../../base/format.ts";
import type { Normalisation } from "../source/source.ts";

/** A missing mean or deviation changes nothing. */
export function givenIn({ mean, std }: Pick<Config["data"], "mean" | "std">): Normalisation {
  const deviations = numbers("std", std, 1);
  const low = deviations.find((value) => value <= 0);
  if (low !== undefined) {
    throw new UserError(
      "usage",
      `data.std (--std) has ${low}: values are divided by it, so it must be above 0.`,
    );
  }
  return { mean: numbers("mean", mean, 0), std: deviations };
}

function numbers(name: "mean" | "std", texts: readonly string[], otherwise: number): number[] {
  if (texts.length === 0) return [otherwise];
  return texts.map((text) => {
    const value = text.trim() === "" ? NaN : Number(text);
    if (Number.isFinite(value)) return value;
    throw new UserError(
      "usage",
      `data.${name} (--${name}) has "${text}", which is not a number: ` +
        `give one for all channels, or one for each, such as 0.485,0.456,0.406.`,
    );
  });
}

/**
 * Null means that nothing is asked for. The first dimension of `shape` is channels or features. A constant
 * channel is only centred, and `notes` says so.
 */
export function valuesOf(
  data: Pick<Config["data"], "scaling" | "softening">,
  shape: readonly number[],
  normalisation: Normalisation | null,
  notes: string[] = [],
): ((x: Tensor) => Tensor) | null {
  const scale = scaling(data);
  const normalise = normalisation && normaliser(normalisation, shape, notes);
  if (!scale && !normalise) return null;
  return (x) => {
    if (!isFloating(x.dtype)) {
      throw new UserError(
        "usage",
        `values of ${describe(x)} can't be scaled or normalised: leave --scaling, --mean and --std out.`,
      );
    }
    return scope(() => {
      const scaled = scale ? scale(x) : x;
      return normalise ? normalise(scaled) : scaled;
    });
  };
}

function scaling({ scaling: kind, softening }: Pick<Config["data"], "scaling" | "softening">) {
  if (kind === "none") return null;
  const soft = (x: Tensor) =>
    softening === 1 ? x : div(x, constant(softening, opmathType(x.dtype), x.device));
  if (kind === "asinh") return (x: Tensor) => asinh(soft(x));
  let looked = false;
  return (x: Tensor) => {
    if (!looked) refuseBelow(minValue(x).item(), softening); // in the first batch: to look at each would wait for the device
    looked = true;
    return log1p(soft(x));
  };
}

function refuseBelow(least: number, softening: number): void {
  if (!(least <= -softening)) return;
  throw new UserError(
    "data",
    `--scaling log takes log(1 + x / ${softening}), and there are values as low as ${
      Number(least.toPrecision(4))
    }, where that is not ` +
      "finite: use --scaling asinh, which takes any value, or a larger --softening.",
  );
}

/** Subtraction, then division give the bits of torchvision's Normalize. */
function normaliser({ mean, std }: Normalisation, shape: readonly number[], notes: string[]) {
  const channels = shape[0] ?? 1;
  for (const [name, { length }] of [["mean", mean], ["std", std]] as const) {
    if (length === 1 || length === channels) continue;
    throw new UserError(
      "usage",
      `Samples of [${shape.join(", ")}] have ${formatPlural(channels, "channel")}, but there are ` +
        `${length} values of ${name} to normalise with (--${name}, or what --normalise takes): ` +
        "give one for all channels, or one for each.",
    );
  }
  const constants = std.flatMap((value, i) => value === 0 ? [i] : []);
  if (constants.length > 0) {
    notes.push(
      `${constants.length === 1 ? "Channel" : "Channels"} ${constants.join(", ")} (counted from 0) never ` +
        `${constants.length === 1 ? "varies" : "vary"}: only the mean is subtracted there`,
    );
  }
  const row = (values: readonly number[]) =>
    constantRowBeside(values, [values.length, ...shape.slice(1).map(() => 1)]);
  const centre = row(mean), deviation = row(std.map((value) => value || 1));
  return (x: Tensor) => div_(sub(x, centre(x)), deviation(x));
}

/** torchvision's constants for models that see photographs. */
export const IMAGENET: Normalisation = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };

export const USUAL: Readonly<Record<string, Normalisation>> = {
  mnist: { mean: [0.1307], std: [0.3081] },
  imagefolder: IMAGENET,
};
