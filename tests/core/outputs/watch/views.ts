// Views of made-up runs, for tests of what is drawn.
import { readRun } from "../../../../core/run/run_data.ts";
import { progressOf, runStatusOf } from "../../../../core/run/status.ts";
import type { WatchView } from "../../../../core/outputs/watch/screen.ts";
import { type MadeRun, makeRun } from "../../run/made_run.ts";

/** As somebody sees it so many seconds after its last event. */
export function viewOf(made: MadeRun, after = 1): WatchView {
  const folder = Deno.makeTempDirSync();
  try {
    const data = readRun(makeRun(folder, made));
    const now = (data.lastAt ?? 0) + after;
    return { data, status: runStatusOf(data, now, () => null), progress: progressOf(data), now };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

export const PLAIN = { colour: false, unicode: true };
export const COLOURED = { colour: true, unicode: true };
export const ASCII = { colour: false, unicode: false };
