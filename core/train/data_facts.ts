// A checkpoint's facts about its run's data: how inputs and targets were scaled and filled, the climatology, the weights of
// classes, the meaning of the outputs, the columns and shapes that the model was made from. Other data is seen through them.
import { isFloating } from "../../ffi/dtype.ts";
import { toNumbers } from "../../ffi/make.ts";
import { sumDim } from "../../ffi/ops.ts";
import { scope } from "../../ffi/tensor.ts";
import { openCheckpoint, toJson } from "../checkpoint/open.ts";
import type { CheckpointFacts as Saved } from "../checkpoint/training_state.ts";
import { field, tensorBytes, TensorData, type Value } from "../checkpoint/value.ts";
import { UserError } from "../base/errors.ts";
import type { Climatology } from "../data/source/climate.ts";
import type { Fill } from "../data/source/missing.ts";
import { hasColumns } from "../data/open/formats.ts";
import type { Opened } from "../data/open/open.ts";
import type { RolloutRows } from "../data/source/rollout.ts";
import {
  batchOf,
  type Normalisation,
  plainPart,
  type Source,
  type TargetTexts,
} from "../data/source/source.ts";
import { tokenizerMark } from "../data/text/open.ts";
import type { SavedScale } from "../data/transforms/scale_choice.ts";
import type { Facts } from "../models/model.ts";
import type { Config } from "../settings/settings.ts";
import { settingsIn } from "./run_folder.ts";

/** They go from the opened data into every checkpoint, as one value. */
export type DataFacts = Pick<
  Saved,
  | ("normalisation" | "targetScale" | "fill" | "climatology")
  | ("classWeights" | "answers" | "trainedOn" | "tokenizer")
>;

export const dataFacts = (
  { data, classWeights }: { readonly data: Opened; readonly classWeights: readonly number[] | null },
  config: Config,
): DataFacts => ({
  normalisation: data.normalisation,
  targetScale: data.train.targetScale,
  fill: data.fill,
  climatology: data.climatology,
  classWeights,
  answers: answersOf(data.train),
  trainedOn: trainedOn(data),
  tokenizer: data.train.facts.task === "language" ? tokenizerMark(config.data) : null,
});

export interface TrainedOn {
  /** Their names in the data; null where it has no columns. */
  readonly columns: { readonly features: readonly string[]; readonly targets: readonly string[] } | null;
  readonly facts: Facts;
  /** An input's shape before patches are cut out of it. */
  readonly whole: readonly number[];
  /** Null where the model is not fed with its own predictions. */
  readonly rollout: SavedRollout | null;
}

type SavedRollout = Pick<RolloutRows, "ahead" | "channels" | "fed"> & {
  readonly extra: number;
  readonly fill: Fill;
};

function trainedOn({ train, chosen, whole, rollout }: Opened): TrainedOn {
  const names = (columns: readonly { readonly name: string }[]) => columns.map(({ name }) => name);
  const { columns: _, ...input } = train.facts.input; // the graph of an exported program knows its inputs itself
  return {
    columns: chosen ? { features: names(chosen.features), targets: names(chosen.targets) } : null,
    facts: { ...train.facts, input },
    whole,
    rollout: rollout &&
      (({ ahead, channels, fed, extra, fill }) => ({ ahead, channels, fed, extra, fill }))(rollout),
  };
}

/** Null in a checkpoint of an older version or another program. */
export function savedTrainedOn(root: Value): TrainedOn | null {
  const own = toJson(saved(root, "trained_on") ?? null, true) as TrainedOn | null;
  const whole = (list: unknown) => Array.isArray(list) && list.every(Number.isSafeInteger);
  return whole(own?.facts?.input?.shape) && whole(own?.whole) ? own : null;
}

/** Data is seen by the columns that the model was trained with, whatever else it has and in whatever order. */
function columnsAsTrained(data: Config["data"], root: Value): Config["data"] {
  const columns = savedTrainedOn(root)?.columns;
  if (!columns || !hasColumns(data)) return data;
  const names = (own: string[], trained: readonly string[]) => own.length > 0 ? own : [...trained];
  return {
    ...data,
    features: names(data.features, columns.features),
    targets: names(data.targets, columns.targets),
  };
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

const answersOf = ({ facts: { task, outputs, upscale }, names = [], about }: Source): Answers => ({
  task,
  outputs,
  names: names.length > MOST_NAMES ? [] : names,
  ...(about && { about }),
  ...(upscale && { upscale }),
});

/** Null in a checkpoint of an older version or another program. */
export function savedAnswers(root: Value): Answers | null {
  const known = saved(root, "answers");
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

/** A model sees other data through its own training data's columns and statistics, unless somebody gives others. */
export function withOwnStatistics(config: Config, root: Value): Config {
  const { training } = config, data = columnsAsTrained(config.data, root);
  const inputs = scaleIn(root, "normalisation"), targets = scaleIn(root, "target_normalisation");
  const fill = texts(saved(root, "fill")), weights = texts(saved(root, "class_weights"));
  const measured = data.normalise === "measured" && data.mean.length === 0 && data.std.length === 0;
  const scaled = data.normalise_targets === "on" && data.target_mean.length === 0;
  return {
    ...config,
    data: {
      ...data,
      ...(inputs && measured && inputs),
      ...(targets && scaled && { target_mean: targets.mean, target_std: targets.std }),
      ...(fill && data.fill.join() === "mean" && { fill }),
    },
    ...(weights && isAuto(training.class_weights) && { training: { ...training, class_weights: weights } }),
  };
}

/** A checkpoint says it under this name, beside what is PyTorch's own. */
const saved = (root: Value, name: string): Value | undefined => field(field(root, "hpctrain"), name);

/** No digit is lost. */
const texts = (value: Value | undefined): string[] | null => Array.isArray(value) ? value.map(String) : null;

function scaleIn(root: Value, name: string): { mean: string[]; std: string[] } | null {
  const mean = texts(field(saved(root, name), "mean")), std = texts(field(saved(root, name), "std"));
  return mean && std && { mean, std };
}

function numbersIn(root: Value, name: string): Normalisation | null {
  const scale = scaleIn(root, name);
  return scale && { mean: scale.mean.map(Number), std: scale.std.map(Number) };
}

/** Null where nothing was normalised. */
export const savedNormalisation = (root: Value): Normalisation | null => numbersIn(root, "normalisation");

/** Null where targets were not normalised. */
const savedTargetScale = (root: Value): Normalisation | null => numbersIn(root, "target_normalisation");

/** Null in a file of another program, or that can't be read: whoever takes its weights says so. */
export function savedScale(path: string, goesOn: boolean): SavedScale | null {
  try {
    using file = openCheckpoint(path);
    const data = (settingsIn(file.root) as Partial<Config> | null)?.data;
    return data
      ? {
        normalise: data.normalise === "auto" ? "usual" : data.normalise, // of a run before there was a choice
        normalise_targets: data.normalise_targets === "on" || (data.normalise_targets as unknown) === true
          ? "on"
          : "off",
        ...{ normalisation: savedNormalisation(file.root), targetScale: savedTargetScale(file.root), goesOn },
      }
      : null;
  } catch (error) {
    if (error instanceof UserError) return null;
    throw error;
  }
}

/** Null where the run has none. */
export function savedClimatology(root: Value): Climatology | null {
  const own = saved(root, "climatology");
  const seasons = field(own, "seasons"), means = field(own, "means"), targets = field(own, "targets");
  if ((seasons !== "month" && seasons !== "day") || !(means instanceof Map) || !Array.isArray(targets)) {
    return null;
  }
  const read = ([name, data]: [unknown, Value]) =>
    data instanceof TensorData
      ? [
        [String(name), {
          values: new Float32Array(tensorBytes(data).slice().buffer),
          shape: data.shape,
        }] as const,
      ]
      : [];
  const spans = targets.map((one) => ({
    name: String(field(one, "name")),
    shape: (field(one, "shape") as number[] | undefined ?? []).map(Number),
  }));
  return { seasons, targets: spans, means: Object.fromEntries([...means].flatMap(read)) };
}

const isAuto = (weights: readonly string[]): boolean => weights.join() === "auto";

/** Shares of classes settle long before. */
const MOST_SAMPLES = 4096;

const AT_ONCE = 64;

/**
 * Labels / (classes * labels of the class), scikit-learn's "balanced", of samples spread evenly over the data; a
 * class that none of them has counts 1. Null where nothing is to be measured.
 */
export function measuredWeights(
  { class_weights, ignore_index: ignored }: Config["training"],
  source: Source,
) {
  const { task, outputs } = source.facts;
  if (!isAuto(class_weights) || task === "regression") return null;
  const samples = Math.min(source.length, MOST_SAMPLES), counts = new Float64Array(outputs);
  for (let from = 0; from < samples; from += AT_ONCE) {
    const ids = Int32Array.from(
      { length: Math.min(AT_ONCE, samples - from) },
      (_, i) => Math.floor((from + i) * source.length / samples),
    );
    scope(() => {
      const { target } = batchOf(source, plainPart(ids));
      if (isFloating(target.dtype) && target.shape.length === 2) { // shares of classes
        toNumbers(sumDim(target, [0])).forEach((sum, label) => counts[label] += sum);
      } else for (const label of toNumbers(target)) if (label !== ignored && label >= 0) counts[label]++;
    });
  }
  const all = counts.reduce((sum, count) => sum + count, 0);
  return Array.from(counts, (count) => count === 0 ? 1 : all / (outputs * count));
}
