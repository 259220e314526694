// `hpctrain runs`: all runs below a folder, as a table, for programs, or as one page.
import { parseOptions } from "../../core/settings/options.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { printColoured } from "../../core/base/terminal.ts";
import { differing, filtered, sorted } from "../../core/outputs/runs/fields.ts";
import { findRuns } from "../../core/outputs/runs/find.ts";
import { rowOf, type RunRow } from "../../core/outputs/runs/row.ts";
import { csvLines, footLines, runsJson, type ShownRuns, tableLines } from "../../core/outputs/runs/table.ts";
import { styleOf } from "../../core/base/terminal_text.ts";
import { widthOf } from "../../core/outputs/watch/terminal.ts";
import { OPTIONS, USAGE } from "../runs.ts";
import { writePage } from "./write_page.ts";

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

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false;
  }
}

function print(shown: ShownRuns, all: number): void {
  const style = styleOf(Deno.stdout.isTerminal()), width = widthOf(Infinity);
  const table = shown.rows.length > 0 ? [...tableLines(shown, width, style), ""] : [];
  printColoured([...table, ...footLines(shown, all, width, style)].join("\n"));
}
