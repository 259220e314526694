// A made-up output, as the next one would be: its options and where its sink is.
import { join } from "paths";
import type { Output, RunFacts } from "../../../../core/run/output.ts";

/** The lines of all attempts at a run. */
export const linesFile = (logs: string): string => join(logs, "made_output.jsonl");

export function madeOutput(
  { logs, resumed }: Pick<RunFacts, "logs" | "resumed">,
  more: Partial<Output> = {},
): Output {
  const path = linesFile(logs);
  return {
    name: "made-up output",
    module: import.meta.resolve("./sink.ts"),
    setup: { path, resumed: resumed?.step ?? null, failing: false },
    wants: { histograms: 2, pictures: 0, confusion: 0 },
    id: null,
    path,
    next: { label: "count", words: ["inspect", path] },
    ...more,
  };
}
