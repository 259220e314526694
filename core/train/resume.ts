// Chooses the checkpoint that --resume means, and finds where the run begins.
import { isAuto } from "./class_weights.ts";
import { isAdapter } from "../checkpoint/adapters.ts";
import { openCheckpoint } from "../checkpoint/open.ts";
import { field, tensorBytes, TensorData, type Value } from "../checkpoint/value.ts";
import type { Climatology } from "../data/climatology.ts";
import type { SavedScale } from "../data/transforms/scale_choice.ts";
import type { Normalisation } from "../data/transforms/values.ts";
import type { Config } from "../settings/settings.ts";
import { UserError } from "../base/errors.ts";
import { type Found, isAnothers, look, lookOver, nameIn, settingsIn } from "./checkpoint_run.ts";
import { checkpointsOf, foldersOf, latestOf, newestRun } from "./run_folder.ts";
import { adopt } from "../checkpoint/adopt.ts";
import { type Cursor, loadTraining, loadWeights, type Parts } from "../checkpoint/training_state.ts";
import { matcher } from "../base/patterns.ts";
import type { Fresh } from "../checkpoint/state_dict.ts";
import { headOf } from "../models/heads.ts";
import { isExported } from "../models/exported/model.ts";
import type { Model } from "../models/model.ts";
import { isCode } from "../models/user/file.ts";
import type { BatchPlan } from "./batches.ts";
import { columnsAsTrained } from "./trained_on.ts";

export interface Resume {
  readonly path: string;
  /** Null begins a new run. */
  readonly run: string | null;
  readonly from?: string | null;
  /** That run has this id at W&B. */
  readonly wandb?: string | null;
  /** Null in another program's file. */
  readonly saved?: unknown;
  /** Reasons why it is another one than was asked for. */
  readonly notices?: readonly string[];
}

/** Null starts afresh. `own` goes on whatever --resume is. */
export function resumeFrom(config: Config, preset: string | null, own: string | null = null): Resume | null {
  const found = chosen(config, preset, own);
  if (found === null || found.run === null || !isAnothers(config, { ...found, run: found.run })) return found;
  const { logs, checkpoints } = foldersOf(config, found.run);
  const notice =
    `The run ${found.run} goes on as a new one: its name is another run's in ${checkpoints} and ${logs}, ` +
    "whose files stay as they are";
  return { ...found, run: null, from: found.run, wandb: null, notices: [...found.notices ?? [], notice] };
}

function chosen(config: Config, preset: string | null, own: string | null): Resume | null {
  const wanted = config.training.resume;
  if (own !== null) {
    const latest = latestOf(config, own);
    if (latest !== null) return newestGood({ run: own, path: latest });
  }
  if (wanted === "") return null;
  if (wanted === "auto" && own !== null) return null;
  if (wanted === "auto") return newestGood(newestRun(config, preset, givenName));
  const { run, saved, wandb } = look(wanted);
  const name = config.output.run_name;
  if (name === "" || run === null || name === run || nameIn(saved) === name) {
    return { path: wanted, run, from: run, saved, wandb };
  }
  const notices = [
    `The run ${run} goes on as a new one (--run-name ${name}); its own files stay as they are`,
  ];
  return { path: wanted, run: null, from: run, saved, notices };
}

function newestGood(newest: { run: string; path: string } | null): Resume | null {
  if (newest === null) return null;
  const { run, path } = newest;
  const notices: string[] = [];
  const use = (path: string): Resume | null => {
    const found = tried(path, notices);
    return found && (found.run === null || found.run === run)
      ? { path, run, from: found.run, saved: found.saved, wandb: found.wandb, notices }
      : null;
  };
  const good = use(path) ?? others(path, run, notices).map(use).find((found) => found !== null);
  if (good) return good;
  throw new UserError(
    "checkpoint",
    `The run ${run} has no checkpoint to go on from. ${notices.join(" ")} ` +
      "Copy a good one back, or start from the beginning: without --resume, the run gets another name.",
  );
}

/** A checkpoint that can't be opened gets a notice. */
function* others(latest: string, run: string, notices: string[]): Generator<string, undefined> {
  const found = checkpointsOf(latest, run).flatMap((path) => {
    const one = tried(path, notices, false);
    return one?.run === run ? [{ path, step: one.step }] : [];
  });
  for (const { path } of found.sort((a, b) => b.step - a.step)) yield path;
}

function tried(path: string, notices: string[], verify = true): Found | null {
  try {
    return look(path, verify);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    notices.push(`Passed over a damaged checkpoint. ${error.message}`);
    return null;
  }
}

/** A damaged checkpoint gets a notice later. */
const givenName = (path: string): unknown => nameIn(lookOver(path)?.saved);

export function savedConfig(path: string): unknown {
  using file = openCheckpoint(path);
  return settingsIn(file.root);
}

export const freshCursor = (): Cursor => ({
  epoch: 0,
  step: 0,
  stepInEpoch: 0,
  samples: 0,
  sums: [],
  best: null,
  valLoss: null,
});

interface Beginning {
  readonly parts: Parts;
  readonly plan: BatchPlan;
  /** An epoch has so many. */
  readonly samples: number;
  readonly resetEma: (() => void) | undefined;
  readonly model: Model;
}

export function startFrom(
  start: { readonly resume: Resume | null; readonly config: Config },
  { parts, plan, samples, resetEma, model }: Beginning,
  notes: string[],
): Cursor {
  const { resume, config, config: { training } } = start;
  if (resume) {
    const { path, notices = [] } = resume;
    using file = openCheckpoint(path);
    const { force } = training;
    const adopted = adopt(file.root, path, { parts, stepsPerEpoch: plan.stepsPerEpoch, samples, force });
    const { cursor, notices: more } = loadTraining(parts, adopted.root, path);
    notes.push(...notices, ...adopted.notices, ...more);
    notes.push(`Resuming from ${path}: epoch ${cursor.epoch}, step ${cursor.step}`);
    return cursor;
  }
  if (training.resume === "auto") notes.push("Nothing to resume yet: this run starts afresh (--resume auto)");
  if (training.init_from) {
    using file = openCheckpoint(training.init_from);
    const { notice } = loadWeights(parts.stateDict, file.root, training.init_from, freshIn(model, config));
    notes.push(...(notice ? [notice] : []), `Weights from ${training.init_from}`);
    resetEma?.();
  }
  return freshCursor();
}

/** A file of weights need not have these. */
function freshIn(model: Model, config: Config): Fresh {
  const { model: { name }, training: { new_head: wanted } } = config;
  const own = isCode(name) || isExported(name);
  const patterns = wanted === "" ? [] : headOf(model, config);
  const isLast = matcher(own ? [] : headOf(model, config));
  return {
    head: matcher(patterns),
    maybe: isAdapter,
    positions: model.positions,
    advice(misfits) {
      if (misfits.length === 0) return null;
      if (wanted !== "") {
        return `--new-head leaves out ${patterns.join(",")} alone: name what else is to be new, as in ` +
          `--new-head=${[...patterns, misfits[0]].join(",")}, or set the model as it was trained.`;
      }
      if (own) return null;
      return misfits.every(isLast)
        ? "If this data has other classes or targets: --new-head trains a new head beside the weights that fit."
        : null;
    },
  };
}

/** A model sees other data through its own training data's columns and statistics, unless somebody gives others. */
export function withOwnStatistics(config: Config, root: Value): Config {
  const named = { ...config, data: columnsAsTrained(config.data, root) };
  const { data, training } = weightedAsTrained(filledAsTrained(targetsAsTrained(named, root), root), root);
  const statistics = field(field(root, "hpctrain"), "normalisation");
  const mean = texts(field(statistics, "mean")), std = texts(field(statistics, "std"));
  if (data.normalise !== "measured" || data.mean.length > 0 || data.std.length > 0 || !mean || !std) {
    return { ...config, data, training };
  }
  return { ...config, data: { ...data, mean, std }, training };
}

/** Null where nothing was normalised. */
export const savedNormalisation = (root: Value): Normalisation | null => numbersIn(root, "normalisation");

/** Null where targets were not normalised. */
export const savedTargetScale = (root: Value): Normalisation | null =>
  numbersIn(root, "target_normalisation");

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

function numbersIn(root: Value, name: "normalisation" | "target_normalisation"): Normalisation | null {
  const saved = field(field(root, "hpctrain"), name);
  const [mean, std] = [field(saved, "mean"), field(saved, "std")].map((list) =>
    Array.isArray(list) ? list.map(Number) : null
  );
  return mean && std ? { mean, std } : null;
}

/** Null where the run has none. */
export function savedClimatology(root: Value): Climatology | null {
  const saved = field(field(root, "hpctrain"), "climatology");
  const seasons = field(saved, "seasons"), means = field(saved, "means"), targets = field(saved, "targets");
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

function targetsAsTrained(config: Config, root: Value): Config {
  const { data } = config, scale = field(field(root, "hpctrain"), "target_normalisation");
  const mean = texts(field(scale, "mean")), std = texts(field(scale, "std"));
  if (data.normalise_targets !== "on" || data.target_mean.length > 0 || !mean || !std) return config;
  return { ...config, data: { ...data, target_mean: mean, target_std: std } };
}

function weightedAsTrained(config: Config, root: Value): Config {
  const own = texts(field(field(root, "hpctrain"), "class_weights"));
  if (!own || !isAuto(config.training.class_weights)) return config;
  return { ...config, training: { ...config.training, class_weights: own } };
}

function filledAsTrained(config: Config, root: Value): Config {
  const fill = texts(field(field(root, "hpctrain"), "fill"));
  const wanted = config.data.fill.join() === "mean";
  return fill && wanted ? { ...config, data: { ...config.data, fill } } : config;
}

/** No digit is lost. */
const texts = (value: Value | undefined): string[] | null => Array.isArray(value) ? value.map(String) : null;
