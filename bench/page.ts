// The page of a benchmark's results, and what docs/benchmarks.md shows of all results.
import { join } from "@std/path";
import { headlines } from "./headlines.ts";
import { RESULTS, writeSection } from "./report.ts";

/** The page of the results of this name, written behind them. */
export function writePage(name: string, text: string): void {
  Deno.writeTextFileSync(join(RESULTS, `${name}.md`), `${text.trim()}\n`);
  writeHeadlines();
}

export const writeHeadlines = (): void =>
  writeSection("headlines", publishedHeadlines(), "docs/benchmarks.md", "scripts/bench");

export function publishedHeadlines(): string {
  const names = [...Deno.readDirSync(RESULTS)].map(({ name }) => name).filter((name) =>
    name.endsWith(".json")
  );
  return headlines(
    names.sort().map((name) => ({
      name: name.slice(0, -".json".length),
      text: Deno.readTextFileSync(join(RESULTS, name)),
    })),
  );
}
