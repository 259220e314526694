// Where a run begins: at a checkpoint, at the weights of one, or afresh; and how it goes back to its last one.
import { pathExists } from "../../base/files.ts";
import { UserError } from "../../base/errors.ts";
import type { Cursor } from "../../checkpoint/training_state.ts";
import { isExported } from "../../models/exported/model.ts";
import type { Launch } from "../launch.ts";
import { startAsFirst } from "../rank_group.ts";
import { freshCursor, type Resume, startFrom } from "../resume.ts";
import { latestPath, type RunPaths } from "../run_folder.ts";
import type { WeightUpdate } from "../weight_update.ts";
import type { OpenedModel } from "./model.ts";

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

/** Adapters of random weights would learn what the layers beside them never do. */
export function refuseUnknownWeights({ config: { model, training }, resume }: Launch): void {
  if (model.lora_rank === 0 || resume !== null || training.init_from !== "" || isExported(model.name)) return;
  throw new UserError(
    "usage",
    "--lora-rank trains adapters beside weights that somebody has trained: name their file with --init-from.",
  );
}
