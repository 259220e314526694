// Chooses the checkpoint that --resume means, and finds where the run begins.
import { isAdapter } from "../checkpoint/adapters.ts";
import { openCheckpoint } from "../checkpoint/open.ts";
import type { Config } from "../settings/settings.ts";
import { UserError } from "../base/errors.ts";
import {
  type CheckpointRun,
  checkpointRun,
  checkpointsOf,
  foldersOf,
  isAnothers,
  latestOf,
  nameIn,
  newestRun,
  readableRun,
  settingsIn,
} from "./run_folder.ts";
import { adopt } from "../checkpoint/adopt.ts";
import { type Cursor, loadTraining, loadWeights, type StateParts } from "../checkpoint/training_state.ts";
import { matcher } from "../base/patterns.ts";
import type { Fresh } from "../checkpoint/state_dict.ts";
import { headOf } from "../models/heads.ts";
import { isExported } from "../models/exported/model.ts";
import type { Model } from "../models/model.ts";
import { isCode } from "../models/user/file.ts";
import type { BatchPlan } from "./batches.ts";

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
  const { run, saved, wandb } = checkpointRun(wanted);
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

function tried(path: string, notices: string[], verify = true): CheckpointRun | null {
  try {
    return checkpointRun(path, verify);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    notices.push(`Passed over a damaged checkpoint. ${error.message}`);
    return null;
  }
}

/** A damaged checkpoint gets a notice later. */
const givenName = (path: string): unknown => nameIn(readableRun(path)?.saved);

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
  readonly parts: StateParts;
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
