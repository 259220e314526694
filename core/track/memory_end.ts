// Whether a run that left no end was probably killed for memory: by what it said of its memory last.
import type { Event, WarningEvent } from "./event_types.ts";
import { MEMORY_WARNING_S, usedOf } from "./system/memory_watch.ts";

/** A machine that is out of memory is slow to say so. */
const SLACK_S = 60;

/** The warning still held when the run was heard of last. */
export const wasShort = ({ t }: { readonly t: number }, lastAt: number): boolean =>
  lastAt - t <= MEMORY_WARNING_S + SLACK_S;

/** Of what a run has said last; null where its memory was well, or it said how it ended. */
export function lastShortage(events: readonly Event[]): (WarningEvent & { t: number }) | null {
  const last = events.at(-1);
  if (last === undefined || last.kind === "exit") return null;
  const begun = events.findLastIndex(({ kind }) => kind === "run");
  const said = events.slice(begun + 1).findLast((event): event is WarningEvent & { t: number } =>
    event.kind === "warning" && event.about === "memory"
  );
  return said && wasShort(said, last.t) ? said : null;
}

/** "it was probably killed for memory: 23.1 GiB of 24.0 GiB were used at step 12". */
export function killedFor({ memory, step }: WarningEvent): string {
  const used = Number.isFinite(memory?.limit) && Number.isFinite(memory?.used)
    ? `: ${usedOf(memory!)} were used at step ${Number(step)}`
    : "";
  return `it was probably killed for memory${used}`;
}
