// The page of a benchmark's results, and what docs/benchmarks.md and README show of all results.
import { join } from "paths";
import { byCommandLine, headlines, type ResultsFile } from "./headlines.ts";
import { RESULTS, writeSection } from "./report.ts";

/** The page of the results of this name, written behind them. */
export function writePage(name: string, text: string): void {
  Deno.writeTextFileSync(join(RESULTS, `${name}.md`), `${text.trim()}\n`);
  writeHeadlines();
}

export function writeHeadlines(): void {
  writeSection("headlines", publishedHeadlines(), "docs/benchmarks.md", "scripts/bench");
  writeSection("measured", publishedByCommandLine(), "README.md", "scripts/bench");
}

export const publishedHeadlines = (): string => headlines(resultsFiles());
export const publishedByCommandLine = (): string => byCommandLine(resultsFiles());

function resultsFiles(): ResultsFile[] {
  const names = [...Deno.readDirSync(RESULTS)].map(({ name }) => name).filter((name) =>
    name.endsWith(".json")
  );
  return names.sort().map((name) => ({
    name: name.slice(0, -".json".length),
    text: Deno.readTextFileSync(join(RESULTS, name)),
  }));
}
