// `hpctrain report`: runs, or a data set, as one HTML file.
import { writeAll, writeAtomically } from "../../core/base/atomic.ts";
import { parseOptions } from "../../core/settings/options.ts";
import { messageOf, UserError } from "../../core/base/errors.ts";
import { formatBytes } from "../../core/base/format.ts";
import { findRun, NEWEST_RUN, readRun, type RunData } from "../../core/run/run_data.ts";
import { beginningOf } from "../../core/data/paths.ts";
import { basename } from "../../deps/path.ts";
import { reportPage } from "../../core/outputs/report/page.ts";
import { OPTIONS, USAGE } from "../report.ts";

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
  write(options.out ?? nameOf(runs), new TextEncoder().encode(page));
  return 0;
}

async function reportData(paths: readonly string[], kind: string, out?: string): Promise<number> {
  if (paths.length !== 1) {
    throw new UserError("usage", `report takes one data set, but got ${paths.length}. Usage: ${USAGE}`);
  }
  const [path] = paths;
  const { pageOfData } = await import("./report_data.ts");
  const name = basename(beginningOf(path).replace(/\/+$/, ""));
  write(
    out ?? fileNameOf(name.replace(/\.[^.]*$/, "")),
    new TextEncoder().encode(await pageOfData(path, kind)),
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

/** In this folder, after the run; what is no part of a file's name is left out. */
function nameOf(runs: readonly RunData[]): string {
  return fileNameOf(runs.length === 1 ? runs[0].name : "comparison");
}

function fileNameOf(name: string): string {
  return `${name.replace(/[^\w.+-]+/g, "_").replace(/^\.+/, "").slice(0, 100) || "report"}.html`;
}

function write(path: string, bytes: Uint8Array<ArrayBuffer>): void {
  try {
    writeAtomically(path, (file) => writeAll(file, bytes), { sync: false });
  } catch (error) {
    const why = messageOf(error).replace(/\.$/, "");
    throw new UserError("usage", `${path} can't be written: ${why}. Name another file with --out FILE.`, {
      cause: error,
    });
  }
  console.log(`${path} (${formatBytes(bytes.length)})`);
}
