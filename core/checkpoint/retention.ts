// Second names for a checkpoint that was written, and which old ones go. May import atomic, sharded.
import { join } from "../../deps/path.ts";
import { remove, removeStale, temporaryFor, writeAll, writeAtomically } from "./atomic.ts";
import { INDEX } from "./sharded/plan.ts";
import { filesOf, indexOf, shardsInUse } from "./sharded/read.ts";
import { removeUnnamed } from "./sharded/write.ts";

/**
 * Gives a finished checkpoint a second name, replacing what had it; where links are not to be had, by a copy. Of a folder
 * `index` may be one that is not in its place yet.
 */
export function linkOrCopy(from: string, to: string, index: string | undefined = indexOf(from)): void {
  if (index === undefined) return linkOrCopyFile(from, to);
  try {
    Deno.mkdirSync(to, { recursive: true });
  } catch {
    // The first copy says what is wrong with the place.
  }
  // As it was written: what the index names is the checkpoint.
  const shards = filesOf(index);
  for (const name of shards) linkOrCopyFile(join(from, name), join(to, name));
  linkOrCopyFile(index, join(to, INDEX));
  removeUnnamed(to, shards);
}

function linkOrCopyFile(from: string, to: string): void {
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
    const found = /^checkpoint_epoch_(\d+)\.(?:pt|safetensors|ckpt)$/.exec(name);
    if (found && Number(found[1]) <= epoch - keep) removeCheckpoint(join(folder, name));
  }
}

/** Of a folder its checkpoint alone: the index first, without which the rest is none. */
function removeCheckpoint(path: string): void {
  const shards = shardsInUse(path);
  if (shards.size > 0) [INDEX, ...shards].forEach((name) => remove(join(path, name)));
  remove(path);
}
