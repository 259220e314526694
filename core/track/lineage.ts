// What became of a run: every attempt at it, why each ended, and how much of their time was training. Pure, but for reading
// lineage.json. May import events.ts, core/errors.ts and @std/path.
import { join } from "../../deps/path.ts";
import { UserError } from "../errors.ts";
import { type Event, readLastEvents } from "./events.ts";

/** "killed" is found out by the next attempt, when the one before has left no end. */
export type Why = "done" | "stopped" | "killed" | "error";

/** Times are Unix seconds, as in events.jsonl. */
export interface Attempt {
  attempt: number;
  host: string;
  /** Of the scheduler; null without one. */
  job_id: string | null;
  ranks: number;
  pid: number;
  started: number;
  /** The checkpoint it went on from; null when it began afresh. */
  resumed_from: string | null;
  /** The first step it was to take, and the last that is known to be done: one less when none was. */
  first_step: number;
  last_step: number;
  /** When its first step was done; null when none was. */
  first_step_at: number | null;
  /** When it was last heard of. */
  last_seen: number;
  ended: { why: Why; message: string; code: number | null; for_memory?: boolean } | null;
  /** Its best loss of an evaluation. */
  best?: { loss: number; step: number; epoch: number };
  /** Where it went back to a checkpoint's weights, and left out the batches since. */
  rewinds?: { at_step: number; to_step: number; reason: string }[];
  lost: {
    /** From the start to the first step's end. */
    restart_s: number;
    /** Saves that held up training. */
    save_stall_s: number;
    /** Steps of attempts before that were done again, and what they had taken. */
    redone_steps: number;
    redone_s: number;
  };
}

export interface Lineage {
  version: 1;
  run: string;
  /** Where a run under another name was continued from. */
  parent: { run: string | null; checkpoint: string; step: number } | null;
  /** Null before there was anything to measure. */
  goodput_percent: number | null;
  attempts: Attempt[];
}

export const lineagePath = (logs: string): string => join(logs, "lineage.json");

/** Null where there is none. One that can't be read, or is not what was written, is a UserError. */
export function readLineage(logs: string): Lineage | null {
  const path = lineagePath(logs);
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return null;
    throw new UserError("data", `${path} can't be read: ${(error as Error).message}.`, { cause: error });
  }
  const found = parsed(text);
  if (isLineage(found)) return found;
  throw new UserError(
    "checkpoint",
    `${path}: is not what hpctrain writes there, so it was damaged or edited.`,
  );
}

/** Whether each attempt at the run ended in an error before its first step. One that was killed may be another's that begins. */
export function isFailedStart(logs: string): boolean {
  try {
    const attempts = readLineage(logs)?.attempts ?? [];
    return attempts.length > 0 &&
      attempts.every(({ first_step_at, ended }) => first_step_at === null && ended?.why === "error");
  } catch {
    return false; // who can read it may go on with it
  }
}

/** As it stands now: what the last attempt did after it wrote the file is in the events. */
export function lineageNow(logs: string): Lineage | null {
  const lineage = readLineage(logs);
  const last = lineage?.attempts.at(-1);
  if (last && last.ended === null) follow(last, lastEvents(logs));
  return lineage && { ...lineage, goodput_percent: goodput(lineage.attempts) };
}

/** Adds to an attempt without an end what its last events tell. */
export function follow(attempt: Attempt, events: readonly Event[]): void {
  const { last_seen: before } = attempt;
  for (const event of events) {
    if (event.t < before) continue;
    attempt.last_seen = event.t;
    // Of the same millisecond a save is in the file already, and a step may not be.
    if (event.kind === "save" && event.t > before) attempt.lost.save_stall_s += event.stall_s;
    if (event.kind !== "step" && event.kind !== "save") continue;
    attempt.last_step = Math.max(attempt.last_step, event.step);
    attempt.first_step_at ??= event.t;
  }
  attempt.lost.restart_s = restartOf(attempt);
}

/** The last records of a run's log, as far as there are any. */
export function lastEvents(logs: string): Event[] {
  try {
    return readLastEvents(join(logs, "events.jsonl"));
  } catch {
    return []; // no log, nothing more to tell
  }
}

/** An attempt that took no step was all restart. */
export const restartOf = ({ started, first_step_at, last_seen }: Attempt): number =>
  (first_step_at ?? last_seen) - started;

/** Seconds from an attempt's start to its end, and those that went into steps, evaluations and the wait for data. */
export const wallOf = ({ started, last_seen }: Attempt): number => last_seen - started;
const busyOf = (attempt: Attempt): number =>
  Math.max(0, wallOf(attempt) - attempt.lost.restart_s - attempt.lost.save_stall_s);

/** What a step took in the newest attempt that did some. */
export function secondsPerStep(attempts: readonly Attempt[]): number {
  const last = attempts.findLast(({ first_step, last_step }) => last_step >= first_step);
  return last ? busyOf(last) / (last.last_step - last.first_step + 1) : 0;
}

/**
 * Of all the time of all attempts, the share whose training was kept, in percent; `again` are seconds of it that will be
 * done again. Waiting in a queue is not counted.
 */
export function goodput(attempts: readonly Attempt[], again = 0): number | null {
  const sum = (of: (attempt: Attempt) => number) =>
    attempts.reduce((total, attempt) => total + of(attempt), 0);
  const wall = sum(wallOf);
  if (wall <= 0) return null;
  const useful = sum(busyOf) - sum(({ lost }) => lost.redone_s) - again;
  return Math.round(1000 * Math.max(0, useful) / wall) / 10;
}

/** "was killed", "was stopped (SIGTERM)", "ended in an error (code 4)", "ended". */
export function endOf({ ended }: Attempt): string {
  if (ended === null) return "has no end yet";
  switch (ended.why) {
    case "killed":
      return ended.for_memory ? "was killed, probably for memory," : "was killed";
    case "stopped":
      return `was stopped${/ \(.*\)$/.exec(ended.message)?.[0] ?? ""}`;
    case "error":
      return `ended in an error (code ${ended.code})`;
    default:
      return "ended";
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const NUMBERS = ["attempt", "ranks", "started", "last_seen", "first_step", "last_step"] as const;
const LOST = ["restart_s", "save_stall_s", "redone_steps", "redone_s"] as const;

/** As far as the code here relies on it: somebody may have edited the file. */
function isLineage(value: unknown): value is Lineage {
  const { version, attempts } = (value ?? {}) as Partial<Lineage>;
  const small = (value: unknown) => Number.isFinite(value) && Math.abs(value as number) < 1e12;
  return version === 1 && Array.isArray(attempts) && attempts.every((one: Attempt | null) => {
    const { ended, lost } = one ?? {};
    return one !== null && NUMBERS.every((name) => small(one[name])) && LOST.every((name) =>
      small(lost?.[name])
    ) &&
      (one.best === undefined || [one.best?.loss, one.best?.step, one.best?.epoch].every(small)) &&
      (one.first_step_at === null || small(one.first_step_at)) &&
      (ended === null || (typeof ended?.why === "string" && typeof ended.message === "string"));
  });
}
