// `hpctrain report`: runs, or a data set, as one HTML file.
import { parseOptions } from "../../core/settings/options.ts";
import { UserError } from "../../core/base/errors.ts";
import { findRun, NEWEST_RUN, readRun, type RunData } from "../../core/run/run_data.ts";
import { beginningOf } from "../../core/data/arrays/paths.ts";
import { basename } from "../../deps/path.ts";
import { reportPage } from "../../core/outputs/report/page.ts";
import { reportFileName } from "../../core/outputs/report/html.ts";
import { OPTIONS, USAGE } from "../report.ts";
import { writePage } from "./write_page.ts";

/** Colours and names beyond this are told apart by nobody. */
const MOST_RUNS = 32;

export async function report(argv: string[]): Promise<number> {
  const { options, positionals } = parseOptions(argv, OPTIONS, USAGE);
  const kind = options["data-type"];
  if (kind !== undefined || (positionals.length === 1 && await isData(positionals[0], options["save-dir"]))) {
    return await reportData(positionals, kind ?? "auto", options.out);
  }
  const words = positionals.length > 0 ? positionals : [NEWEST_RUN];
  const folders = [...new Set(words.map((word) => findRun(word, options["save-dir"])))];
  if (folders.length > MOST_RUNS) {
    throw new UserError("usage", `report compares ${MOST_RUNS} runs at most, but got ${folders.length}.`);
  }
  const runs = folders.map(readRun);
  const empty = runs.findIndex(({ lastAt }) => lastAt === null);
  if (empty >= 0) {
    throw new UserError("data", `${folders[empty]}/events.jsonl has no event that can be read.`);
  }
  const page = await reportPage(runs, Date.now() / 1000);
  writePage(options.out ?? nameOf(runs), page);
  return 0;
}

async function reportData(paths: readonly string[], kind: string, out?: string): Promise<number> {
  if (paths.length !== 1) {
    throw new UserError("usage", `report takes one data set, but got ${paths.length}. Usage: ${USAGE}`);
  }
  const [path] = paths;
  const { pageOfData } = await import("./report_data.ts");
  const name = basename(beginningOf(path).replace(/\/+$/, ""));
  writePage(
    out ?? reportFileName(name.replace(/\.[^.]*$/, "")),
    await pageOfData(path, kind),
  );
  return 0;
}

/** A run's name comes first: data of the same name is named by its path. */
async function isData(word: string, saveDir: string | undefined): Promise<boolean> {
  try {
    findRun(word, saveDir);
    return false;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return (await import("./report_data.ts")).isData(word);
  }
}

/** In this folder, after the run. */
function nameOf(runs: readonly RunData[]): string {
  return reportFileName(runs.length === 1 ? runs[0].name : "comparison");
}
