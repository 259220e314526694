// Checkpoints of single epochs: RUN_epoch_N of each run, and checkpoint_epoch_N as a link to the first run's.
import { join } from "../../deps/path.ts";
import { remove } from "../base/atomic.ts";
import { INDEX_FILE, shardsInUse } from "./sharded_reader.ts";

/** Older versions gave the files of all runs this name in place of the run's. */
export const SHARED_NAME = "checkpoint";

/** One run's files at the end of an epoch. */
export interface EpochFiles {
  readonly folder: string;
  readonly run: string;
  readonly epoch: number;
  readonly ending: string;
  /** So many epochs stay, or 0 for all. */
  readonly keep: number;
  /** Files that an older version wrote of this run, under the plain name. */
  readonly older: readonly string[];
}

export const epochName = (run: string, epoch: number, ending: string): string =>
  `${run}_epoch_${epoch}.${ending}`;

export function readEpochName(name: string): { run: string; epoch: number } | null {
  const [, run, epoch] = /^(.+)_epoch_(\d+)\.(?:pt|safetensors|ckpt)$/.exec(name) ?? [];
  return run === undefined ? null : { run, epoch: Number(epoch) };
}

/**
 * Another run's file or link stays under the plain name, unless it is a link to a file that is gone. Where the
 * file system makes no links there is no plain name.
 */
export function linkPlainName({ folder, run, epoch, ending, older }: EpochFiles): void {
  const name = epochName(SHARED_NAME, epoch, ending), path = join(folder, name);
  if (older.includes(name) && isNoLink(path)) removeCheckpoint(path);
  if (linkedEpoch(path) !== null && isGone(path)) remove(path);
  try {
    Deno.symlinkSync(epochName(run, epoch, ending), path);
  } catch {
    // It is this run's already or another's, or there are no links here: the file has the run's own name.
  }
}

/** Removes this run's checkpoints of epochs that are `keep` or more before `epoch`, and none beyond it. */
export function removeOldEpochs({ folder, run, epoch, keep, older }: EpochFiles): void {
  for (const { name, isSymlink } of [...Deno.readDirSync(folder)]) {
    const found = readEpochName(name), path = join(folder, name);
    if (found === null || found.epoch > epoch - keep) continue;
    if (found.run === run || (older.includes(name) && !isSymlink)) removeCheckpoint(path);
    else if (found.run === SHARED_NAME && linkedEpoch(path)?.run === run) remove(path);
  }
}

/** Null for anything but a link that `linkPlainName` made. */
function linkedEpoch(path: string): { run: string; epoch: number } | null {
  try {
    const target = Deno.readLinkSync(path);
    return target.includes("/") ? null : readEpochName(target);
  } catch {
    return null; // no link
  }
}

function isNoLink(path: string): boolean {
  try {
    return !Deno.lstatSync(path).isSymlink;
  } catch {
    return false;
  }
}

function isGone(path: string): boolean {
  try {
    Deno.statSync(path);
    return false;
  } catch (error) {
    return error instanceof Deno.errors.NotFound;
  }
}

/** The index goes first: without it the rest is no checkpoint. */
export function removeCheckpoint(path: string): void {
  const shards = shardsInUse(path);
  if (shards.size > 0) [INDEX_FILE, ...shards].forEach((name) => remove(join(path, name)));
  remove(path);
}
