// Which offline runs there are, and what can be told of them without a server. May import ../frames, follow, contents, state,
// core/errors and @std/path.
import { basename, dirname, join } from "../../../../deps/path.ts";
import { UserError } from "../../../errors.ts";
import { type Contents, openContents } from "./contents.ts";
import { openReading } from "./follow.ts";
import { isBeingWritten, isSynced } from "./state.ts";

export interface Found {
  readonly paths: readonly string[];
  /** Runs that were uploaded while they went on, by W&B's own program. */
  readonly online: number;
}

/** Below the folder that a user names: RUN, logs/wandb, logs, the save folder. */
const DEPTH = 4;

/** A .wandb file, a run's folder, or a folder of such folders. */
export function findRuns(places: readonly string[]): Found {
  const paths = new Map<string, string>();
  let online = 0;
  const add = (path: string) => void paths.set(Deno.realPathSync(path), path);
  for (const place of places) {
    const info = statOf(place);
    if (info === null) {
      throw new UserError(
        "usage",
        `There is no ${place}; name a .wandb file, the folder of a run, or a folder of such folders.`,
      );
    }
    if (info.isFile) add(place);
    else online += walk(place, DEPTH, add);
  }
  return { paths: [...paths.values()].sort(), online };
}

function walk(folder: string, depth: number, add: (path: string) => void): number {
  let online = 0;
  for (const { name, isFile, isDirectory } of entriesOf(folder)) {
    const path = join(folder, name);
    if (isFile && name.endsWith(".wandb")) {
      if (basename(dirname(Deno.realPathSync(path))).startsWith("run-")) online++;
      else add(path);
    } else if (isDirectory && depth > 0) online += walk(path, depth - 1, add);
  }
  return online;
}

/** Folders in a run's folder. */
const INSIDE = /^(files|tmp|logs)$/;

function entriesOf(folder: string): Deno.DirEntry[] {
  try {
    const entries = [...Deno.readDirSync(folder)];
    // "logs" is a run's own folder only beside its file; elsewhere it is where runs lie.
    const isRun = entries.some(({ name, isFile }) => isFile && name.endsWith(".wandb"));
    return entries.filter(({ isDirectory, name }) => !isDirectory || !isRun || !INSIDE.test(name));
  } catch {
    return []; // gone, or not to be read
  }
}

function statOf(path: string): Deno.FileInfo | null {
  try {
    return Deno.statSync(path);
  } catch {
    return null;
  }
}

export interface Head {
  readonly path: string;
  readonly synced: boolean;
  /** Null where the file has no run. */
  readonly run: Contents["run"];
}

export function headOf(path: string): Head {
  const contents = openContents("");
  const reading = openReading(path, false);
  try {
    reading.read(contents, () => contents.run !== null);
  } finally {
    reading.close();
  }
  return { path, synced: isSynced(path), run: contents.run };
}

/** Files of one run, in the order in which they were begun: they can only be sent one after the other. */
export function inOrder(heads: readonly Head[]): Head[][] {
  const groups = Map.groupBy(
    heads,
    ({ path, run }) => run ? [run.entity, run.project, run.id].join("\n") : path,
  );
  return [...groups.values()].map((group) =>
    group.toSorted((a, b) => (a.run?.startTime ?? 0) - (b.run?.startTime ?? 0))
  );
}

/** A run without an end that was written to in so many milliseconds may go on, wherever it is written from. */
export const QUIET_MS = 10 * 60_000;

/** `hasEnded`: the file has its last record. */
export function mayGrow(path: string, quietMs = QUIET_MS): boolean {
  if (isBeingWritten(path)) return true;
  const modified = statOf(path)?.mtime?.getTime() ?? 0;
  return Date.now() - modified < quietMs;
}
