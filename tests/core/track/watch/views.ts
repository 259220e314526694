// Views of made-up runs, for tests of what is drawn. May import core/track and made_run.
import { readRun } from "../../../../core/track/run_data.ts";
import { progressOf, standingOf } from "../../../../core/track/standing.ts";
import type { View } from "../../../../core/track/watch/panels.ts";
import { type MadeRun, makeRun } from "../made_run.ts";

/** As somebody sees it so many seconds after its last event. */
export function viewOf(made: MadeRun, after = 1): View {
  const folder = Deno.makeTempDirSync();
  try {
    const data = readRun(makeRun(folder, made));
    const now = (data.lastAt ?? 0) + after;
    return { data, standing: standingOf(data, now, () => null), progress: progressOf(data), now };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

export const PLAIN = { colour: false, unicode: true };
export const COLOURED = { colour: true, unicode: true };
export const ASCII = { colour: false, unicode: false };
