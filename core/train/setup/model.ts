// A run trains this: the model, its data and its steps, and the lines that say so before the first one. It begins at a
// checkpoint, at the weights of one, or afresh, and goes back to its last one.
import { isFloating } from "../../../ffi/dtype.ts";
import { openSampling } from "../../data/source/sampling.ts";
import { gpuLine } from "../../run/console.ts";
import { pathExists } from "../../base/files.ts";
import type { Cursor } from "../../checkpoint/training_state.ts";
import type { Module } from "../../models/nn/module.ts";
import { planBatches, precisionNote, shardsNote } from "../batches.ts";
import { build } from "../build.ts";
import { decayNote, refuseBesideOptimizer, refuseShare, refuseTurns } from "../checks.ts";
import { fitBatch } from "../finders/fit.ts";
import { chooseKernelSearch, gpuFactsOf, othersNote } from "../gpu.ts";
import type { Launch } from "../launch.ts";
import { checkTrainingMemory } from "../memory.ts";
import { rateLine, scaledLearningRate } from "../schedule.ts";
import { openCourse } from "../schedules/course.ts";
import { hasStatistics } from "../weight_average.ts";
import { startAsFirst } from "../rank_group.ts";
import { freshCursor, type Resume, startFrom } from "../resume.ts";
import { latestPath, type RunPaths } from "../run_folder.ts";
import type { WeightUpdate } from "../weight_update.ts";

type OpenedModel = ReturnType<typeof openModel>;

/** The settings become those that the run has: of a batch that fits, and of what the data's scale came to. */
export function openModel(given: Launch) {
  const { device, team = null } = given, { rank, world } = team ?? { rank: 0, world: 1 };
  const ranksHere = given.localRanks ?? world, first = rank === 0;
  const built = build(given.config, device, world, null, team?.collectives.shared, given.scale);
  const { data, data: { train } } = built;
  if (given.resolved) refuseShare(given.resolved, data);
  const { config: fitted, notes: fitNotes } = fitBatch(given, built, ranksHere);
  const config = { ...fitted, data: { ...fitted.data, ...data.scale } }; // a checkpoint has what auto came to
  const { training } = config;
  const shortage = device === "cpu" ? checkTrainingMemory(config, built, ranksHere, world) : null;
  const plan = planBatches(training, train.length, world);
  refuseTurns({ ...built, plan, config });
  refuseBesideOptimizer({ ...training, amp: built.amp }); // "auto" is fp16 on an older GPU
  chooseKernelSearch(config, device, plan);
  return {
    ...built,
    ...{ launch: { ...given, config }, config, plan, ranksHere, fitNotes },
    /** The reason why memory may run out. All ranks have the same, and the first tells it. */
    shortage: first ? shortage : null,
    /** Null on a CPU, and but for rank 0. */
    gpu: first ? gpuFactsOf(config, device, built) : null,
    sampling: openSampling(config.data, training.seed, train),
    schedule: openCourse(config, scaledLearningRate(training, plan.global), plan, train.facts),
  };
}

/** Before the first step a run says what it trains, and how. */
export function notesOf(m: OpenedModel, zero: { readonly note: string } | null): string[] {
  const { launch: { resolved, notes }, config, config: { training }, plan, gpu } = m;
  return [
    ...notes,
    ...m.data.notes,
    ...(m.classWeights ? [weightsNote(m.classWeights)] : []),
    m.model.describe(),
    ...(m.pass.loss.note ? [m.pass.loss.note] : []),
    ...m.trained.notes,
    ...(m.sampling.note ? [m.sampling.note] : []),
    ...(training.swa_start > 0 ? [averageNote(m.model.root, training.swa_start)] : []),
    ...m.fitNotes,
    [plan.note, ...(resolved ? [rateLine(training, plan.global, resolved.originText)] : [])].join(". "),
    ...m.schedule.notes,
    ...(zero ? [zero.note] : []),
    ...precisionNote(m),
    ...(gpu ? [gpuLine(gpu), ...othersNote(gpu)] : []),
    ...shardsNote(config, plan),
    ...(resolved ? decayNote(resolved, m.arena.parameters, m.trained.grouping) : []),
  ];
}

const weightsNote = (weights: readonly number[]): string =>
  `Class weights ${weights.map((weight) => weight.toPrecision(3)).join(", ")} (--class-weights auto)`;

/** Brings model, optimizer and averages there; all ranks are told by the first, which alone reads checkpoints. */
export function openStart(
  { launch, config, plan, model, arena, data: { train } }: OpenedModel,
  { parts, ema, swa, zero }: WeightUpdate,
) {
  const { team = null } = launch, first = (team?.rank ?? 0) === 0;
  const beginning = { parts, plan, model, samples: train.length, resetEma: ema?.reset };
  const averages = ema ? [ema.average, ...(swa?.statistics ?? []).map(([, t]) => t)] : [];
  const startAt = (resume: Resume | null, notes: string[]): Cursor => {
    const cursor = first ? startFrom({ config, resume }, beginning, notes) : freshCursor();
    return team ? startAsFirst(team, parts, arena, averages, cursor, zero) : cursor;
  };
  const notes: string[] = [];
  return {
    cursor: startAt(launch.resume, notes),
    notes,
    /** Null without a checkpoint. */
    goBack(paths: RunPaths) {
      const path = latestPath(paths), here = first && pathExists(path);
      if (!(team?.gather(here, "a checkpoint to go back to")[0] ?? here)) return null;
      return { step: startAt({ path, run: null }, []).step, path };
    },
  };
}

/** Tells what the average is of; a program's norms have no modules here. */
function averageNote(root: Module, start: number): string {
  const norms = hasStatistics(root)
    ? ", and batch norms get statistics of their own by a pass over the training data"
    : root.namedBuffers().some(([, { dtype }]) => isFloating(dtype))
    ? "; running statistics stay those of training, since this model's batch norms are not known here"
    : "";
  return `Weights are averaged at the end of each epoch from epoch ${start} on (--swa-start)${norms}`;
}
