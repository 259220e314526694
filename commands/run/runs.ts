// `hpctrain runs`: all runs below a folder, as a table, for programs, or as one page.
import { isFolder } from "../../core/base/files.ts";
import { parseOptions } from "../../core/settings/options.ts";
import { EXIT, messageOf, UserError } from "../../core/base/errors.ts";
import { printColoured } from "../../core/base/terminal.ts";
import { differing, filtered, sorted } from "../../core/outputs/runs/fields.ts";
import { rowOf, type RunRow } from "../../core/outputs/runs/row.ts";
import { csvLines, footLines, runsJson, type ShownRuns, tableLines } from "../../core/outputs/runs/table.ts";
import { styleOf } from "../../core/base/terminal_text.ts";
import { widthOf } from "../../core/outputs/watch/terminal.ts";
import { OPTIONS, USAGE } from "../runs.ts";
import { writePage } from "./write_page.ts";
import { basename, join } from "../../deps/path.ts";

export async function runs(argv: string[]): Promise<number> {
  const { options, positionals } = parseOptions(argv, OPTIONS, USAGE);
  if (positionals.length > 1) {
    throw new UserError("usage", `runs takes one folder, but got ${positionals.length}. Usage: ${USAGE}`);
  }
  if ([options.json, options.csv, options.html !== undefined].filter(Boolean).length > 1) {
    throw new UserError("usage", "--json, --csv and --html exclude each other: give one of them.");
  }
  const now = Date.now() / 1000;
  const { all, notes, top } = read(positionals[0], now);
  const kept = sorted(filtered(all, options.filter), options.sort ?? "started", options.reverse);
  const shown: ShownRuns = { rows: kept, differ: differing(kept), now };
  for (const note of notes) console.error(`warning: ${note}`);
  if (options.json) console.log(runsJson(shown));
  else if (options.csv) console.log(csvLines(shown).join("\n"));
  else if (options.html !== undefined) {
    const { indexPage } = await import("../../core/outputs/runs/index_page.ts");
    writePage(options.html, await indexPage(shown, { path: options.html, all: all.length, top }), "--html");
  } else print(shown, all.length);
  return EXIT.done;
}

/** Without a folder it is logs/ here, which is never large. */
function read(dir: string | undefined, now: number) {
  const top = dir ?? "logs";
  if (!isFolder(top)) {
    throw new UserError(
      "usage",
      dir === undefined
        ? "There is no folder logs here. Name the one that the runs are below: hpctrain runs DIR."
        : `${dir} is no folder that can be read. Usage: ${USAGE}`,
    );
  }
  const { folders, notes } = findRuns(top);
  if (folders.length === 0) {
    throw new UserError(
      "usage",
      [`There is no run below ${top}: no folder there has an events.jsonl.`, ...notes].join(" "),
    );
  }
  return { all: folders.map((folder): RunRow => rowOf(folder, now)), notes, top };
}

function print(shown: ShownRuns, all: number): void {
  const style = styleOf(Deno.stdout.isTerminal()), width = widthOf(Infinity);
  const table = shown.rows.length > 0 ? [...tableLines(shown, width, style), ""] : [];
  printColoured([...table, ...footLines(shown, all, width, style)].join("\n"));
}

// Finds the folders of runs below a folder, also of those that are broken or hardly begun.

interface FoundRuns {
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
      if (name.startsWith(".") || NO_RUNS.has(name) || !leadsToFolder(folder, entry)) continue;
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
const leadsToFolder = (parent: string, { name, isDirectory, isSymlink }: Deno.DirEntry): boolean =>
  isSymlink ? isFolder(join(parent, name)) : isDirectory;

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
