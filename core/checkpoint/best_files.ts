// The checkpoints of a run's best evaluations: RUN_best of the first of them, RUN_best_EPOCH of the others, and
// RUN_best_step_STEP of those within an epoch.
import { join } from "../../deps/path.ts";
import { removeCheckpoint } from "./epoch_files.ts";
import { openCheckpoint } from "./open.ts";
import { field } from "./value.ts";

/** An evaluation was made here. */
export interface BestPlace {
  readonly step: number;
  readonly epoch: number;
  /** Before the epoch's end. */
  readonly within: boolean;
}

/** One run's files after an evaluation that is among its best. */
export interface BestFiles {
  readonly folder: string;
  readonly run: string;
  readonly ending: string;
  /** All that stay, the best first. */
  readonly kept: readonly BestPlace[];
  /** The evaluation was made after this step. */
  readonly step: number;
  /** Where there were never several, no file is looked for that has to go. */
  readonly several: boolean;
}

/** `place` is null for the first. */
export function bestName(run: string, place: BestPlace | null, ending: string): string {
  const behind = place === null ? "" : place.within ? `_step_${place.step}` : `_${place.epoch}`;
  return `${run}_best${behind}.${ending}`;
}

/** The run of one that is not the first; null for any other name. */
export const readBestName = (name: string): string | null =>
  /^(.+)_best_(?:step_)?\d+\.(?:pt|safetensors|ckpt)$/.exec(name)?.[1] ?? null;

/**
 * `link` gives the new checkpoint a name, or one that is there another. A run that is killed here does all of it again: the
 * former best is moved only while its own name still leads to it.
 */
export function nameBest(
  { folder, run, ending, kept, step, several }: BestFiles,
  link: (to: string, from?: string) => void,
): void {
  const pathOf = (place: BestPlace | null) => join(folder, bestName(run, place, ending));
  const own = kept.findIndex((place) => place.step === step), first = pathOf(null), former = kept[1];
  if (own === 0 && former && stepOf(first) === former.step) link(pathOf(former), first);
  link(own === 0 ? first : pathOf(kept[own]));
  if (!several) return;
  // A run that goes on in another format keeps those of the one before.
  const names = new Set(kept.slice(1).map((place) => bestName(run, place, "")));
  for (const { name } of [...Deno.readDirSync(folder)]) {
    if (readBestName(name) === run && !names.has(name.slice(0, name.lastIndexOf(".") + 1))) {
      removeCheckpoint(join(folder, name));
    }
  }
}

/** Null where it is no checkpoint that can be read. */
function stepOf(path: string): number | null {
  try {
    using file = openCheckpoint(path);
    return Number(field(field(field(file.root, "hpctrain"), "cursor"), "step"));
  } catch {
    return null;
  }
}
