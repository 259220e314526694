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

/** Removes the checkpoints of single epochs that are `keep` or more before `epoch`: never those of a run beyond it. */
export function removeOld(folder: string, keep: number, epoch: number): void {
  for (const { name } of [...Deno.readDirSync(folder)]) {
    const found = /^checkpoint_epoch_(\d+)\.pt$/.exec(name);
    if (found && Number(found[1]) <= epoch - keep) Deno.removeSync(join(folder, name));
  }
}
