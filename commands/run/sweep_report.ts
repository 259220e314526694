// `hpctrain sweep report`: the page of a sweep, as one HTML file.
import { join } from "../../deps/path.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import type { Goal } from "../../core/cluster/sweep/metric.ts";
import { sweepPage } from "../../core/cluster/sweep/page.ts";
import type { Sweep, SweepRow } from "../../core/cluster/sweep/runs.ts";
import { isSearch, runsOfTrials } from "../../core/cluster/sweep/trials.ts";
import { readEventLines, readLastEvents } from "../../core/run/event_log.ts";
import { decodeEvent } from "../../core/run/events.ts";
import { writePage } from "./write_page.ts";

interface Reported {
  readonly folder: string;
  readonly sweep: Sweep;
  readonly goal: Goal;
  readonly rows: readonly SweepRow[];
  readonly weights: string | null;
}

export async function writeSweepPage(
  { folder, ...about }: Reported,
  out: string | undefined,
): Promise<number> {
  const { sweep, rows } = about;
  if (rows.length === 0) {
    throw new UserError("usage", `No run of ${sweep.name} has begun yet, so there is nothing to show.`);
  }
  const runs = isSearch(sweep) ? runsOfTrials(folder, sweep) : sweep.runs;
  const words = new Map(runs.map((one) => [one.run, one.words]));
  const page = await sweepPage({
    ...about,
    wordsOf: (run) => words.get(run) ?? [],
    seconds: secondsOf(rows),
    now: Date.now() / 1000,
  });
  writePage(out ?? `${sweep.name}.html`, page);
  return EXIT.done;
}

/** The first and the last line of each log are enough. */
function secondsOf(rows: readonly SweepRow[]): number | null {
  const times = rows.flatMap(({ folder }) => {
    try {
      const path = join(folder, "events.jsonl"), lines = readEventLines(path);
      const first = decodeEvent(lines.next().value ?? "");
      lines.return(undefined);
      return [first?.t, readLastEvents(path).at(-1)?.t];
    } catch {
      return []; // it has not begun
    }
  }).filter((t) => typeof t === "number");
  return times.length > 1 ? Math.max(...times) - Math.min(...times) : null;
}
