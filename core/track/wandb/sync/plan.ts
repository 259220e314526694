// Where an upload begins: what the server has of a file's lines already, so that none is sent twice and none is left out.
// May import api (types), state (types), ../records (types), json_text.
import type { RunRecord } from "../records.ts";
import type { Status } from "./api.ts";
import type { Json, Tree } from "./json_text.ts";
import type { Counts, Start, Uploaded } from "./state.ts";

export interface Plan {
  readonly start: Start;
  /** The server's line for the next one of each kind. */
  readonly at: Counts;
  /** Lines of the file that the server has: so many, or all up to a step or a time. */
  readonly skip: Counts & { readonly upToStep: number | null; readonly upToTime: number | null };
  /** The server's line of the file's first one; null where that shows only when the first one is sent. */
  readonly base: Counts | null;
  readonly lastStep: number | null;
  /** Goes on where an earlier file of this run ended. */
  readonly continues: boolean;
}

const ZERO: Counts = { history: 0, events: 0, output: 0 };
const NONE = { ...ZERO, upToStep: null, upToTime: null };

/** `known` is what this program left beside the file, `start` what either program did. */
export function planOf(
  run: RunRecord,
  status: Status | null,
  start: Start | null,
  known: Uploaded | null,
): Plan {
  const own = start ?? { step: run.startingStep ?? 0, runtime: 0 };
  if (status === null) {
    return { start: own, at: ZERO, base: ZERO, skip: NONE, lastStep: null, continues: false };
  }
  const { history, events, output } = status;
  const at = { history, events, output };
  const lastStep = numberIn(status.lastRow, "_step");
  const continues = run.resume === true;
  if (known !== null) {
    // Fewer lines than there were before this file: the run was made anew.
    const base = {
      history: Math.min(history, known.base.history),
      events: Math.min(events, known.base.events),
      output: Math.min(output, known.base.output),
    };
    const skip = {
      ...NONE,
      history: history - base.history,
      events: events - base.events,
      output: output - base.output,
    };
    return { start: own, at, base, skip, lastStep: known.lastStep, continues };
  }
  if (start === null && continues) {
    const step = history > 0 && lastStep !== null ? lastStep + 1 : run.startingStep ?? 0;
    return {
      start: { step, runtime: runtimeOf(status) },
      at,
      base: at,
      skip: NONE,
      lastStep: null,
      continues,
    };
  }
  // Rows that were logged before this file began are another one's: this one's come after them.
  const lastTime = numberIn(status.lastRow, "_timestamp");
  const others = history > 0 && lastTime !== null && lastTime < (run.startTime ?? 0);
  const begun = history > 0 && !others && (lastStep === null || lastStep >= own.step);
  const skip = {
    ...NONE,
    output: others || continues ? 0 : output,
    upToStep: begun ? lastStep : null,
    upToTime: numberIn(status.lastEvents, "_timestamp"),
  };
  return { start: own, at, base: null, skip, lastStep, continues };
}

/** How long the run took before, in milliseconds. */
function runtimeOf({ summary, lastRow, lastEvents }: Status): number {
  const inner = summary.get("_wandb");
  const told = inner instanceof Map ? numberIn(inner, "runtime") : numberIn(summary, "_runtime");
  const seconds = Math.max(
    told ?? 0,
    numberIn(lastRow, "_runtime") ?? 0,
    numberIn(lastEvents, "_runtime") ?? 0,
  );
  return Math.trunc(seconds) * 1000;
}

function numberIn(tree: Tree | null, key: string): number | null {
  const value: Json | undefined = tree?.get(key);
  const number = typeof value === "string" && value !== "null" ? Number(value) : NaN;
  return Number.isFinite(number) ? number : null;
}
