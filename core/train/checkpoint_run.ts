// The run that wrote a checkpoint, and whether it is the run whose files lie here under its name.
import { basename, dirname, join } from "../../deps/path.ts";
import { openCheckpoint, toJson } from "../checkpoint/open.ts";
import { readEpochName, SHARED_NAME } from "../checkpoint/epoch_files.ts";
import { indexOf } from "../checkpoint/sharded_reader.ts";
import type { Value } from "../checkpoint/value.ts";
import type { Config } from "../settings/settings.ts";
import { FILE_NAME, RUN_ID } from "../settings/sections/run.ts";
import { UserError } from "../base/errors.ts";
import { isSamePath, pathExists } from "../base/files.ts";
import { readEventLines } from "../run/event_log.ts";
import { decodeEvent } from "../run/events.ts";
import { checkpointFiles, claimOf, foldersOf, isNamed } from "./run_folder.ts";

export interface CheckpointRun {
  /** Null in a file that hpctrain did not write. */
  readonly run: string | null;
  readonly step: number;
  readonly saved: unknown;
  readonly wandb?: string;
}

export function checkpointRun(path: string, verify = true): CheckpointRun {
  using file = openCheckpoint(path);
  if (verify) file.verify();
  const own = file.root instanceof Map ? file.root.get("hpctrain") : undefined;
  if (!(own instanceof Map)) return { run: null, step: 0, saved: null };
  const run = own.get("run");
  const cursor = own.get("cursor");
  if (typeof run === "string" && FILE_NAME.regex.test(run)) {
    const step = Number(cursor instanceof Map ? cursor.get("step") : 0);
    const id = own.get("wandb_run_id");
    const wandb = typeof id === "string" && RUN_ID.regex.test(id) ? id : undefined; // it becomes a part of a path
    return { run, step, saved: settingsIn(file.root), wandb };
  }
  throw new UserError(
    "checkpoint",
    `${path}: its run has no name that files can have, so hpctrain did not write it: ` +
      `to start from its weights, use --init-from ${path}.`,
  );
}

export const nameIn = (saved: unknown): unknown => (saved as Config | null)?.output?.run_name;

export const settingsIn = (root: Value): unknown =>
  root instanceof Map ? toJson(root.get("config") ?? null, true) : null;

/** Null for a file that can't be read, too. */
export function readableRun(path: string): CheckpointRun | null {
  try {
    return checkpointRun(path, false);
  } catch {
    return null;
  }
}

interface Written {
  readonly path: string;
  readonly run: string;
  readonly wandb?: string | null;
}

/**
 * True where what lies here under the run's name is another's, by the id at W&B or by the folders: a checkpoint of
 * the run lies beside its others, and its logs tell in which folder.
 */
export function isAnothers(config: Config, { path, run, wandb }: Written): boolean {
  if (run === SHARED_NAME) return true;
  const { logs, checkpoints } = foldersOf(config, run);
  const files = checkpointFiles(checkpoints, run);
  if (files.length === 0 && !pathExists(logs)) return pathExists(claimOf({ checkpoints, run }));
  if (wandb && (notedId(logs) === wandb || files.some((file) => readableRun(file)?.wandb === wandb))) {
    return false;
  }
  const home = homeOf(logs);
  const ofLogs = home === null || isSamePath(home, checkpoints) || checkpointFiles(home, run).length === 0; // they were moved
  if (
    namesOf(path).some((name) => isSamePath(dirname(name), checkpoints) && isOwnName(basename(name), run))
  ) {
    return !ofLogs;
  }
  return !(files.length === 0 && home !== null && isSamePath(home, dirname(path)));
}

/** Where it lies, as a folder if its index was named, and where a link to it leads. */
function namesOf(path: string): string[] {
  const own = indexOf(path) === path ? dirname(path) : path;
  return pathExists(own) ? [own, Deno.realPathSync(own)] : [own];
}

const isOwnName = (name: string, run: string): boolean =>
  isNamed(name, run) || readEpochName(name)?.run === SHARED_NAME;

/** The folder of checkpoints that a run's logs name; null where they name none. */
function homeOf(logs: string): string | null {
  let home: string | null = null;
  try {
    for (const line of readEventLines(join(logs, "events.jsonl"))) {
      const event = line.includes('"config"') ? decodeEvent(line) : null;
      if (event?.kind !== "config") continue;
      home = (event.config as Config).output.model_dir || join(logs, "../../checkpoints");
    }
  } catch {
    // There are no logs, or none that can be read.
  }
  return home;
}

/** The id of a run that ended before its first save is here alone. */
function notedId(logs: string): string | null {
  try {
    return JSON.parse(Deno.readTextFileSync(join(logs, "wandb.json"))).id;
  } catch {
    return null;
  }
}
