// A run's name and folders, claimed for this process: no other one writes there meanwhile.
import { dirname, join, resolve } from "../../deps/path.ts";
import { isFailedStart, lineagePath, readLineage } from "../run/lineage.ts";
import type { Config } from "../settings/settings.ts";
import { holdFile, holdFolder, isFolder, lockFolder, pathExists } from "../base/files.ts";
import { remove } from "../base/atomic.ts";
import { UserError } from "../base/errors.ts";
import {
  claimOf,
  isTaken,
  plainEpochs,
  readableRun,
  type RunPaths,
  runPathsOf,
  writtenAt,
} from "./run_folder.ts";
import { SHARED_NAME } from "../checkpoint/epoch_files.ts";
import type { Resume } from "./resume.ts";

interface Claim {
  readonly config: Config;
  readonly preset: string | null;
  readonly resume: Resume | null;
  readonly again?: string | null;
}

/** No other process writes there meanwhile. */
export function claim({ config, preset, resume, again }: Claim): RunPaths {
  const own = resume?.run ?? again ?? null;
  if (own !== null && own !== SHARED_NAME) {
    return claimAgain(runPathsOf(config, preset, own), resume?.wandb ?? null);
  }
  const passed = new Set<string>();
  for (;;) {
    const places = runPathsOf(config, preset, null, passed);
    refuseUnwritable(places.checkpoints);
    const fresh = makeLogs(places.logs);
    // The folder of a run that is about to start is never locked here, not even for a moment.
    const unlock = fresh || isFailedStart(places.logs) ? holdFolder(places.logs) : null;
    if (unlock !== null && (fresh || isFailedStart(places.logs)) && takeName(places)) {
      return fresh ? places : cleared(places);
    }
    if (fresh && unlock !== null) remove(places.logs); // it is empty
    unlock?.();
    passed.add(places.run);
  }
}

function claimAgain(places: RunPaths, wandb: string | null): RunPaths {
  refuseUnwritable(places.checkpoints);
  makeLogs(places.logs);
  if (!lockFolder(places.logs)) throw busy(places, places.logs);
  const note = claimOf(places), owner = makeNote(note, places) ? null : ownerOf(note);
  if (holdFile(note, places.checkpoints) === null) throw busy(places, owner?.logs ?? note);
  Deno.writeTextFileSync(note, JSON.stringify(thisOwner(places)) + "\n");
  return { ...places, older: olderEpochs(places, wandb) };
}

/** An earlier run may have had the same name: its files are older than this one, and have another id at W&B. */
function olderEpochs({ run, logs, checkpoints }: RunPaths, wandb: string | null): string[] {
  const began = runStart(logs);
  return plainEpochs(checkpoints).filter((name) => {
    const path = join(checkpoints, name), found = readableRun(path);
    if (found?.run !== run) return false;
    return wandb && found.wandb ? found.wandb === wandb : began !== null && (writtenAt(path) ?? 0) >= began;
  });
}

const busy = ({ run }: RunPaths, logs: string): UserError =>
  new UserError(
    "usage",
    `Another process is training the run ${run} (it holds ${logs}). Wait for it, stop it with: ` +
      `touch ${logs}/STOP, or start a run of another name with --run-name.`,
  );

// Two save folders may have one folder of checkpoints (--model-dir). A note there keeps a run's name for it
// while it trains; its checkpoints keep the name from then on.

interface Owner {
  readonly host: string;
  readonly logs: string;
}

/** False where another run has the name. A note with these very logs is of a run whose logs were removed. */
function takeName(places: RunPaths): boolean {
  const note = claimOf(places);
  if (!makeNote(note, places) && !isOwn(note, places)) return false;
  if (holdFile(note, places.checkpoints) === null) return false;
  if (!isTaken(places)) return true;
  remove(note); // a run of this name has ended just now
  return false;
}

/** The name is free for others from now on, if nothing was saved under it. */
export function releaseName(places: RunPaths): void {
  const note = claimOf(places);
  if (pathExists(note) && isOwn(note, places)) remove(note);
}

/** False where there is one. */
function makeNote(note: string, places: RunPaths): boolean {
  try {
    Deno.writeTextFileSync(note, JSON.stringify(thisOwner(places)) + "\n", { createNew: true });
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return false;
    throw error;
  }
}

function thisOwner({ logs }: RunPaths): Owner {
  const host = Deno.hostname();
  try {
    return { host, logs: Deno.realPathSync(logs) };
  } catch {
    return { host, logs: resolve(logs) }; // whoever writes there says what is wrong with it
  }
}

/** Null where it can't be read, such as one that is being written. */
function ownerOf(note: string): Owner | null {
  try {
    const { host, logs } = JSON.parse(Deno.readTextFileSync(note));
    return typeof host === "string" && typeof logs === "string" ? { host, logs } : null;
  } catch {
    return null;
  }
}

/** Another machine may have a folder of the same name. */
function isOwn(note: string, places: RunPaths): boolean {
  const owner = ownerOf(note), own = thisOwner(places);
  return owner !== null && owner.host === own.host && owner.logs === own.logs;
}

/** The next start writes these files anew; other files stay. */
const OF_FAILED_START = /^(events\.jsonl|lineage\.json|wandb\.json|rank-\d+\.log|system-\d+\.jsonl)$/;

function cleared(places: RunPaths): RunPaths {
  for (const { name } of Deno.readDirSync(places.logs)) {
    if (OF_FAILED_START.test(name)) remove(join(places.logs, name));
  }
  return places;
}

/** This process's own start failed. */
export function abandon(places: RunPaths): void {
  const { logs } = places;
  try {
    releaseName(places);
    if (pathExists(lineagePath(logs))) return;
    for (const { name } of Deno.readDirSync(logs)) if (OF_FAILED_START.test(name)) remove(join(logs, name));
    Deno.removeSync(logs);
  } catch { /* it has something of the user's, or the disk refuses */ }
}

/** False where it was there already. */
function makeLogs(logs: string): boolean {
  try {
    Deno.mkdirSync(dirname(logs), { recursive: true });
    Deno.mkdirSync(logs);
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return !isFolder(logs);
  }
  return true;
}

/** The end of the first epoch would be too late. */
function refuseUnwritable(folder: string): void {
  const probe = join(folder, `.probe-${Deno.pid}`);
  try {
    Deno.mkdirSync(folder, { recursive: true });
    try {
      Deno.writeFileSync(probe, new Uint8Array(4096)); // a full disk still takes an empty file
    } finally {
      remove(probe);
    }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split(" (os error")[0] : String(cause);
    throw new UserError(
      "usage",
      `Checkpoints can't be written to ${folder}: ${reason}. ` +
        "Name another folder with --save-dir DIR (or --model-dir DIR), or make room there.",
      { cause },
    );
  }
}

/** In milliseconds; null where no lineage tells it. */
function runStart(logs: string): number | null {
  try {
    const [first] = readLineage(logs)?.attempts ?? [];
    return first ? 1000 * first.started : null;
  } catch {
    return null;
  }
}
