// A run trains this: the model, its data and its steps; and the lines that say so before the first one.
import { openSampling } from "../../data/source/sampling.ts";
import { gpuLine } from "../../run/console.ts";
import { planBatches, precisionNote, shardsNote } from "../batches.ts";
import { build } from "../build.ts";
import { decayNote, refuseShare } from "../checks.ts";
import { weightsNote } from "../class_weights.ts";
import { fitBatch } from "../finders/fit.ts";
import { chooseKernelSearch, gpuFactsOf, othersNote } from "../gpu.ts";
import type { Launch } from "../launch.ts";
import { checkTrainingMemory } from "../memory.ts";
import { rateLine, scaledLearningRate, scheduleOf } from "../schedule.ts";
import { averageNote } from "../weight_average.ts";

export type OpenedModel = ReturnType<typeof openModel>;

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
  chooseKernelSearch(config, device, plan);
  return {
    ...built,
    ...{ launch: { ...given, config }, config, plan, ranksHere, fitNotes },
    /** The reason why memory may run out. All ranks have the same, and the first tells it. */
    shortage: first ? shortage : null,
    /** Null on a CPU, and but for rank 0. */
    gpu: first ? gpuFactsOf(config, device, built) : null,
    sampling: openSampling(config.data, training.seed, train),
    schedule: scheduleOf(training, scaledLearningRate(training, plan.global), plan, train.facts),
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
    ...(zero ? [zero.note] : []),
    ...precisionNote(m),
    ...(gpu ? [gpuLine(gpu), ...othersNote(gpu)] : []),
    ...shardsNote(config, plan),
    ...(resolved ? decayNote(resolved, m.arena.parameters) : []),
  ];
}
