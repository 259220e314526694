// Where a run begins: at a checkpoint, at the first step with somebody's weights, or with new ones.
// May import checkpoint, config (types), its siblings.
import { adopt } from "../checkpoint/adopt.ts";
import { openCheckpoint } from "../checkpoint/open.ts";
import { type Cursor, loadTraining, loadWeights, type Parts } from "../checkpoint/training_state.ts";
import type { BatchPlan } from "./batch_math.ts";
import type { Start } from "./prepare.ts";

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
  /** Training samples in an epoch. */
  readonly samples: number;
  readonly resetEma: (() => void) | undefined;
}

/** Loads what the run goes on from, or the weights it starts with. */
export function startFrom(
  start: Pick<Start, "resume" | "config">,
  { parts, plan, samples, resetEma }: Beginning,
  notes: string[],
): Cursor {
  const { resume, config: { training } } = start;
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
    const { notice } = loadWeights(parts.stateDict, file.root, training.init_from);
    notes.push(...(notice ? [notice] : []), `Weights from ${training.init_from}`);
    resetEma?.();
  }
  return freshCursor();
}
