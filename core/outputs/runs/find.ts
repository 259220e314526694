// Finds the folders of runs below a folder, also of those that are broken or hardly begun.
import { basename, join } from "../../../deps/path.ts";
import { messageOf } from "../../base/errors.ts";

export interface FoundRuns {
  readonly folders: readonly string[];
  /** Sentences about what could not be looked at. */
  readonly notes: readonly string[];
}

/** `FOLDER/study/logs/RUN` is 3 deep. */
const DEEPEST = 6;
/** A folder of data sets has many more entries than any folder of runs. */
const MOST_ENTRIES = 300_000;
/** A run leaves these in its folder. */
const MARKS = ["events.jsonl", "lineage.json", "rank-0.log", "wandb.json"];
/** They stand beside runs in logs/. */
const NO_RUNS = new Set(["wandb", "slurm", "pbs", "node_modules", "checkpoints"]);

export function findRuns(top: string): FoundRuns {
  const folders: string[] = [], notes: string[] = [], seen = new Set<string>();
  let left = MOST_ENTRIES;

  function visit(folder: string, depth: number, inLogs: boolean): void {
    if (left <= 0 || !isNew(folder, seen)) return;
    let entries: Deno.DirEntry[];
    try {
      entries = [...Deno.readDirSync(folder)];
    } catch (error) {
      notes.push(`${folder} can't be read: ${messageOf(error).replace(/\.$/, "")}.`);
      return;
    }
    left -= entries.length;
    const isRun = entries.some(({ name }) => MARKS.includes(name));
    if (isRun || (inLogs && entries.length === 0)) folders.push(folder);
    if (isRun || depth >= DEEPEST) return;
    const within = basename(folder) === "logs";
    for (const entry of entries) {
      const { name } = entry;
      if (name.startsWith(".") || NO_RUNS.has(name) || !isFolder(folder, entry)) continue;
      visit(join(folder, name), depth + 1, within);
    }
  }

  visit(top, 0, false);
  if (left <= 0) {
    notes.push(
      `There are very many files below ${top}, so not all of its folders were looked at: name one of them.`,
    );
  }
  return { folders, notes };
}

/** logs/ is often a link to a larger disk. */
function isFolder(parent: string, { name, isDirectory, isSymlink }: Deno.DirEntry): boolean {
  if (!isSymlink) return isDirectory;
  try {
    return Deno.statSync(join(parent, name)).isDirectory;
  } catch {
    return false; // a link to nothing
  }
}

/** Links may lead round in a circle. */
function isNew(folder: string, seen: Set<string>): boolean {
  try {
    const { dev, ino } = Deno.statSync(folder);
    const key = `${dev}:${ino}`;
    return !seen.has(key) && Boolean(seen.add(key));
  } catch {
    return true; // reading it says why
  }
}
