// Warns when memory nears a limit beyond which the kernel kills the process, and finds afterwards whether a
// run without an end was probably killed for memory.
import { formatBytes } from "../base/format.ts";
import { freeOf, type Limit, tightestLimit } from "../base/memory.ts";
import type { Event, WarningEvent } from "./events.ts";

interface MemoryWatch {
  /** Null where nothing is due. `first` marks the first warning since memory was sufficient. */
  due(step: number): { readonly event: WarningEvent; readonly first: boolean } | null;
}

/** A warning begins below the first free share of the limit and ends above the second. */
const LITTLE = 0.05, WELL = 0.1;
/** Seconds between two checks, far from the limit and near it. */
const CALM_S = 1, NEAR_S = 0.2;
/** The warning is repeated, so that a log's end shows the state of memory. */
const MEMORY_WARNING_S = 300;

const WHOSE: Readonly<Record<Limit["of"], readonly [what: string, beyond: string]>> = {
  "job": ["that this job's control group allows", "the kernel kills a process of the job"],
  "machine": ["of this machine", "the kernel kills a process"],
  "address space": ["of address space (ulimit -v)", "the next buffer is refused"],
  "data": ["of data (ulimit -d)", "the next buffer is refused"],
};

export function openMemoryWatch(
  limitNow: () => Limit = () => tightestLimit(),
  now: () => number = () => performance.now() / 1000,
): MemoryWatch {
  let next = 0, near = false, warnedAt = -Infinity;
  return {
    due(step) {
      const at = now();
      if (at < next) return null;
      const limit = limitNow(), free = freeOf(limit) / limit.limit;
      next = at + (free > 4 * LITTLE ? CALM_S : NEAR_S);
      if (free > WELL) near = false;
      if (free >= LITTLE || near && at - warnedAt < MEMORY_WARNING_S) return null;
      const first = !near;
      near = true;
      warnedAt = at;
      return {
        event: { kind: "warning", step, about: "memory", memory: limit, message: sentenceOf(limit) },
        first,
      };
    },
  };
}

function sentenceOf(limit: Limit): string {
  const [what, beyond] = WHOSE[limit.of];
  return `Memory is nearly used up: ${usedOf(limit)} ${what}. Beyond, ${beyond} without a word. ` +
    "Take a smaller --batch-size or --gradient-checkpointing, or ask for more memory.";
}

/** "23.1 GiB of 24.0 GiB" */
const usedOf = ({ used, limit }: Pick<Limit, "used" | "limit">): string =>
  `${formatBytes(used)} of ${formatBytes(limit)}`;

/** A machine without memory writes slowly. */
const SLACK_S = 60;

/** The warning was still valid at the run's last event. */
export const wasShort = ({ t }: { readonly t: number }, lastAt: number): boolean =>
  lastAt - t <= MEMORY_WARNING_S + SLACK_S;

/** Null where memory was sufficient, or the run has an end. */
export function lastShortage(events: readonly Event[]): (WarningEvent & { t: number }) | null {
  const last = events.at(-1);
  if (last === undefined || last.kind === "exit") return null;
  const begun = events.findLastIndex(({ kind }) => kind === "run");
  const shortage = events.slice(begun + 1).findLast((event): event is WarningEvent & { t: number } =>
    event.kind === "warning" && event.about === "memory"
  );
  return shortage && wasShort(shortage, last.t) ? shortage : null;
}

export function killedFor({ memory, step }: WarningEvent): string {
  const used = memory && Number.isFinite(memory.limit) && Number.isFinite(memory.used)
    ? `: ${usedOf(memory)} were used at step ${Number(step)}`
    : "";
  return `it was probably killed for memory${used}`;
}
