// Records of made-up runs, for tests of reports.
import { readRun, type RunData } from "../../../../core/run/run_data.ts";
import type { Diagnostics } from "../../../../core/run/diagnostics.ts";
import { type MadeRun, makeRun } from "../../run/made_run.ts";

export function dataOf(made: MadeRun): RunData {
  const folder = Deno.makeTempDirSync();
  try {
    return readRun(makeRun(folder, made));
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

/** An evaluation's diagnostics, by default of nothing. */
export const diagnosticsOf = (more: Partial<Diagnostics>): Diagnostics => ({
  ...{ version: 1, step: 1, epoch: 1, samples: 12, task: "regression", names: [], outputs: [], metrics: {} },
  ...{ errors: null, confusion: null, axes: null, shown: [] },
  ...more,
});

/** What is left without tags. */
export const textOf = (markup: { text: string } | null): string =>
  (markup?.text ?? "").replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
