// Second names for a checkpoint that was written, and which old ones go. May import atomic.
import { join } from "@std/path";
import { remove, removeStale, temporaryFor, writeAll, writeAtomically } from "./atomic.ts";

/** Gives a finished file a second name, replacing what had it; where links are not to be had, by a copy. */
export function linkOrCopy(from: string, to: string): void {
  const temporary = temporaryFor(to);
  try {
    removeStale(to);
    // Of the file itself: a second name for a link would follow that link to every later checkpoint.
    Deno.linkSync(Deno.realPathSync(from), temporary);
    Deno.renameSync(temporary, to);
  } catch {
    remove(temporary);
    copy(from, to); // a file system without hard links, or another disk; what else is wrong shows there
  }
}

function copy(from: string, to: string): void {
  const chunk = new Uint8Array(1 << 20);
  writeAtomically(to, (file) => {
    using source = Deno.openSync(from);
    for (let got = source.readSync(chunk); got !== null; got = source.readSync(chunk)) {
      writeAll(file, chunk.subarray(0, got));
    }
  });
}

/** Removes the checkpoints of single epochs that are `keep` or more before `epoch`: never those of a run beyond it. */
export function removeOld(folder: string, keep: number, epoch: number): void {
  for (const { name } of [...Deno.readDirSync(folder)]) {
    const found = /^checkpoint_epoch_(\d+)\.pt$/.exec(name);
    if (found && Number(found[1]) <= epoch - keep) remove(join(folder, name));
  }
}
