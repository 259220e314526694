// Second names for a checkpoint that was written, and which old ones go. May import errors, atomic.
import { basename, dirname, join } from "@std/path";
import { UserError } from "../errors.ts";

/** Gives a finished file a second name, replacing what had it; where links are not to be had, by a copy. */
export function linkOrCopy(from: string, to: string): void {
  const temporary = join(dirname(to), `.${basename(to)}.tmp-${Deno.pid}`);
  try {
    try {
      Deno.linkSync(from, temporary);
    } catch {
      Deno.copyFileSync(from, temporary); // a file system without hard links
    }
    Deno.renameSync(temporary, to);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UserError(
      "checkpoint",
      `${to} could not be written: ${reason}. The same checkpoint is in ${from}; make room or check permissions.`,
    );
  }
}

/** Keeps the newest `keep` checkpoints of single epochs. */
export function removeOld(folder: string, keep: number): void {
  const epochs = [...Deno.readDirSync(folder)]
    .map((entry) => /^checkpoint_epoch_(\d+)\.pt$/.exec(entry.name))
    .filter((found) => found !== null)
    .map(([name, epoch]) => ({ name, epoch: Number(epoch) }))
    .sort((a, b) => b.epoch - a.epoch);
  for (const { name } of epochs.slice(keep)) Deno.removeSync(join(folder, name));
}
