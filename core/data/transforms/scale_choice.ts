// Decides what `auto` of data.normalise and data.normalise_targets comes to, once the data is open: to what the kind of data is used
// with, and else, for a built-in model and a regression of data from files, to what is measured. A checkpoint keeps the choice.
import { isFloating } from "../../../ffi/dtype.ts";
import { isOfAnyScale } from "../../settings/losses.ts";
import type { Config } from "../../settings/settings.ts";
import { batchOf, type Normalisation, plainPart, type Source } from "../source/source.ts";
import { scope } from "../../../ffi/tensor.ts";
import { deviations, mergeMoments, type Moments } from "./statistics.ts";
import { UserError } from "../../base/errors.ts";
import { momentsOf } from "./targets.ts";
import type { InputColumn } from "../../models/model.ts";

/** Nothing of it is `auto`. */
export interface ScaleChoice {
  readonly normalise: Exclude<Config["data"]["normalise"], "auto">;
  readonly normalise_targets: Exclude<Config["data"]["normalise_targets"], "auto">;
}

/** How the run of a checkpoint scaled its data. */
export interface SavedScale extends ScaleChoice {
  readonly normalisation: Normalisation | null;
  readonly targetScale: Normalisation | null;
  /** The run goes on; else a new one takes its weights. */
  readonly goesOn: boolean;
}

export interface ScaleRequest {
  readonly loss: string;
  /** The model is built in, its weights are new, and the data is of files. */
  readonly byDefault: boolean;
  readonly saved: SavedScale | null;
}

interface Chosen {
  /** The settings with no `auto` left, and with a checkpoint's numbers where they hold. */
  readonly data: Config["data"];
  readonly choice: ScaleChoice;
  /** Nobody asked for these scales, so a large data set is not read from end to end for them. */
  readonly unasked: { readonly inputs: boolean; readonly targets: boolean };
  readonly notes: readonly string[];
}

export function chooseScale(data: Config["data"], train: Source, request: ScaleRequest): Chosen {
  const inputs = inputsOf(data, train, request), targets = targetsOf(data, train, request);
  const choice = { normalise: inputs.choice, normalise_targets: targets.choice };
  const of = (
    how: How["how"],
  ) => [...(inputs.how === how ? ["inputs"] : []), ...(targets.how === how ? ["targets"] : [])];
  return {
    data: {
      ...{ ...data, ...choice },
      ...(inputs.numbers && { mean: texts(inputs.numbers.mean), std: texts(inputs.numbers.std) }),
      ...(targets.numbers &&
        { target_mean: texts(targets.numbers.mean), target_std: texts(targets.numbers.std) }),
    },
    choice,
    unasked: { inputs: inputs.how === "default", targets: targets.how === "default" },
    notes: [
      ...notesOf(
        of("default"),
        "scaled to mean 0 and deviation 1 by the training samples (--normalise off leaves them as they are)",
      ),
      ...notesOf(of("checkpoint"), "scaled by the checkpoint's means and deviations"),
    ],
  };
}

interface How<C = unknown> {
  readonly choice: C;
  readonly how: "asked" | "default" | "checkpoint";
  readonly numbers?: Normalisation;
}

function inputsOf(
  data: Config["data"],
  train: Source,
  { loss, byDefault, saved }: ScaleRequest,
): How<ScaleChoice["normalise"]> {
  const { normalise, mean, std } = data, given = mean.length > 0 || std.length > 0;
  const known = !given && saved?.normalise === "measured" ? saved.normalisation : null;
  if (normalise !== "auto") {
    return normalise === "measured" && known && saved?.goesOn
      ? { choice: normalise, how: "checkpoint", numbers: known }
      : { choice: normalise, how: "asked" };
  }
  const { input: { shape } } = train;
  const fits = known && (data.rollout !== "" || [1, shape[0] ?? 1].includes(known.mean.length));
  if (known && fits) return { choice: "measured", how: "checkpoint", numbers: known };
  return byDefault && !given && learnsNumbers(train, loss)
    ? { choice: "measured", how: "default" }
    : { choice: "usual", how: "asked" };
}

function targetsOf(
  data: Config["data"],
  train: Source,
  { loss, byDefault, saved }: ScaleRequest,
): How<ScaleChoice["normalise_targets"]> {
  const { normalise, normalise_targets: targets, rollout, target_mean: given } = data;
  const known = given.length === 0 && saved?.normalise_targets === "on" ? saved.targetScale : null;
  if (targets !== "auto") {
    return targets === "on" && known && saved?.goesOn
      ? { choice: targets, how: "checkpoint", numbers: known }
      : { choice: targets, how: "asked" };
  }
  const can = normalise !== "none" && rollout === "" && learnsNumbers(train, loss);
  if (can && known?.mean.length === (train.target.shape[0] ?? 1)) {
    return { choice: "on", how: "checkpoint", numbers: known };
  }
  return can && byDefault ? { choice: "on", how: "default" } : { choice: "off", how: "asked" };
}

/** Images have their usual figures, and their targets are left as they are. */
const learnsNumbers = (
  { facts: { task, targetless }, input: { dtype }, usual, units }: Source,
  loss: string,
): boolean =>
  task === "regression" && isFloating(dtype) && !targetless && !usual && !units && isOfAnyScale(loss);

/** No digit is lost. */
const texts = (values: readonly number[]): string[] => values.map(String);

function notesOf(what: readonly string[], how: string): string[] {
  if (what.length === 0) return [];
  const all = what.join(" and ");
  return [`${all[0].toUpperCase()}${all.slice(1)} are ${how}`];
}

/** Samples that are looked at, and numbers of them: the first ones, so that little of a large file is read. */
const MOST_SAMPLES = 1000, MOST_NUMBERS = 2 ** 22;

interface Odd {
  readonly which: number;
  readonly mean: number;
  readonly std: number;
}

interface OddRequest {
  readonly inputs: boolean;
  readonly targets: boolean;
  /** The inputs' names, where each channel has one. */
  readonly features: readonly string[];
}

export function oddScales(train: Source, { inputs, targets, features }: OddRequest): string[] {
  const { input, target, facts, usual, names = [] } = train;
  const ofInputs = inputs && isFloating(input.dtype) && !usual;
  const ofTargets = targets && facts.task === "regression" && !facts.targetless;
  if (!ofInputs && !ofTargets) return [];
  const looked = momentsOfSources(train, ofInputs, ofTargets);
  if (looked === null) return [];
  const said = (field: "Input" | "Target", name: string | undefined, odd: Odd, flag: string) =>
    `${field} ${name ?? `${odd.which} (counted from 0)`} of ${train.name} has mean ${
      digits(odd.mean)
    } and deviation ${
      digits(odd.std)
    }, from which a model that doesn't scale it itself hardly learns: ${flag}.`;
  const whole = wholeChannels(facts.input.columns ?? []);
  const a = looked.input && oddOf(looked.input, whole), b = looked.target && oddOf(looked.target);
  const own = (list: readonly string[], count: number, { which }: Odd) =>
    list.length === count ? list[which] : undefined;
  return [
    ...(a
      ? [
        said(
          "Input",
          own(features, input.shape[0] ?? 1, a),
          a,
          "--normalise measured brings inputs to mean 0 and deviation 1, and --normalise off says that they are meant so",
        ),
      ]
      : []),
    ...(b
      ? [
        said(
          "Target",
          own(names, target.shape[0] ?? 1, b),
          b,
          "--normalise-targets lets the loss see targets of mean 0 and deviation 1, and --no-normalise-targets says that they are meant so",
        ),
      ]
      : []),
  ];
}

const digits = (value: number) => String(Number(value.toPrecision(3)));

/** Null where a sample can't be read: training says that better. */
function momentsOfSources(train: Source, ofInputs: boolean, ofTargets: boolean) {
  const each = train.input.shape.reduce((all, side) => all * side, 1);
  const count = Math.min(train.length, MOST_SAMPLES, Math.max(1, Math.floor(MOST_NUMBERS / each)));
  try {
    const parts: { input: Moments | null; target: Moments | null }[] = [];
    for (let from = 0; from < count; from += 100) {
      const ids = Int32Array.from({ length: Math.min(100, count - from) }, (_, i) => from + i);
      parts.push(scope(() => {
        const { input, target } = batchOf(train, plainPart(ids));
        return { input: ofInputs ? momentsOf(input) : null, target: ofTargets ? momentsOf(target) : null };
      }));
    }
    const all = (of: "input" | "target") => {
      const some = parts.flatMap((part) => part[of] ?? []);
      return some.length > 0 ? mergeMoments(some) : null;
    };
    return { input: all("input"), target: all("target") };
  } catch (error) {
    if (error instanceof UserError) return null;
    throw error;
  }
}

/** Classes and masks are no quantities. */
const wholeChannels = (columns: readonly InputColumn[]): boolean[] =>
  columns.flatMap(({ layout, whole }) => Array<boolean>(layout[0] ?? 1).fill(whole));

/** A channel that never varies tells a model nothing, on any scale. */
function oddOf(moments: Moments, skipped: readonly boolean[] = []): Odd | null {
  const std = deviations(moments), { mean } = moments;
  const which = mean.findIndex((mean, k) =>
    !skipped[k] && Number.isFinite(mean) && std[k] > 0 &&
    (Math.abs(mean) > 10 * std[k] || std[k] > 100 || std[k] < 0.01)
  );
  return which < 0 ? null : { which, mean: mean[which], std: std[which] };
}
