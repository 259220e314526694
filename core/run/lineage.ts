// A run's lineage.json: every attempt, why each one ended, and how much of their time was training. A failure
// to write it never ends a run.
import { type BestEvaluation, evaluationIn, isBetterThan } from "./best.ts";
import { join } from "../../deps/path.ts";
import { EXIT, messageOf, UserError } from "../base/errors.ts";
import { type Event, readLastEvents } from "./event_log.ts";
import { writeAll, writeAtomically } from "../base/atomic.ts";
import { formatDuration, formatPlural } from "../base/format.ts";
import type { Emitted, RunEvent } from "./events.ts";
import { killedFor, lastShortage } from "./system.ts";

/** The next attempt writes "killed" where an attempt left no end. */
type EndReason = "done" | "stopped" | "killed" | "error";

/** Times are Unix seconds. */
export interface Attempt {
  attempt: number;
  host: string;
  job_id: string | null;
  ranks: number;
  pid: number;
  started: number;
  resumed_from: string | null;
  /** `last_step` is one less than the first where none was done. */
  first_step: number;
  last_step: number;
  /** The first step ended then. */
  first_step_at: number | null;
  /** The time of its last event. */
  last_seen: number;
  ended: { why: EndReason; message: string; code: number | null; for_memory?: boolean } | null;
  best?: BestEvaluation;
  rewinds?: { at_step: number; to_step: number; reason: string }[];
  lost: {
    /** Seconds from the start to the end of the first step. */
    restart_s: number;
    save_stall_s: number;
    /** Earlier attempts had taken these steps, in `redone_s`. */
    redone_steps: number;
    redone_s: number;
  };
}

export interface Lineage {
  version: 1;
  run: string;
  /** A new run may start from another's checkpoint. */
  parent: { run: string | null; checkpoint: string; step: number } | null;
  /** Null before there is a measurement. */
  goodput_percent: number | null;
  attempts: Attempt[];
}

export const lineagePath = (logs: string): string => join(logs, "lineage.json");

/** Null where there is no file. A damaged file is a UserError. */
export function readLineage(logs: string): Lineage | null {
  const path = lineagePath(logs);
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return null;
    throw new UserError("data", `${path} can't be read: ${messageOf(error)}.`, { cause: error });
  }
  const found = parsed(text);
  if (isLineage(found)) return found;
  throw new UserError(
    "checkpoint",
    `${path}: is not what hpctrain writes there, so it was damaged or edited.`,
  );
}

/**
 * True where each attempt ended in an error before its first step. One that was killed may be starting now.
 */
export function isFailedStart(logs: string): boolean {
  try {
    const attempts = readLineage(logs)?.attempts ?? [];
    return attempts.length > 0 &&
      attempts.every(({ first_step_at, ended }) => first_step_at === null && ended?.why === "error");
  } catch {
    return false; // who can read it may go on with it
  }
}

/** The events since the file was written are added. */
export function lineageNow(logs: string): Lineage | null {
  const lineage = readLineage(logs);
  const last = lineage?.attempts.at(-1);
  if (last && last.ended === null) updateAttempt(last, lastEvents(logs));
  return lineage && { ...lineage, goodput_percent: goodput(lineage.attempts) };
}

function updateAttempt(attempt: Attempt, events: readonly Event[]): void {
  const { last_seen: before } = attempt;
  for (const event of events) {
    if (event.t < before) continue;
    attempt.last_seen = event.t;
    // A save in the same millisecond is in the file already; a step may not be.
    if (event.kind === "save" && event.t > before) attempt.lost.save_stall_s += event.stall_s;
    if (event.kind !== "step" && event.kind !== "save") continue;
    attempt.last_step = Math.max(attempt.last_step, event.step);
    attempt.first_step_at ??= event.t;
  }
  attempt.lost.restart_s = restartOf(attempt);
}

export function lastEvents(logs: string): Event[] {
  try {
    return readLastEvents(join(logs, "events.jsonl"));
  } catch {
    return []; // no log
  }
}

/** An attempt without a step was all restart. */
const restartOf = ({ started, first_step_at, last_seen }: Attempt): number =>
  (first_step_at ?? last_seen) - started;

export const wallOf = ({ started, last_seen }: Attempt): number => last_seen - started;

const busyOf = (attempt: Attempt): number =>
  Math.max(0, wallOf(attempt) - attempt.lost.restart_s - attempt.lost.save_stall_s);

/** The newest attempt that took steps decides. */
function secondsPerStep(attempts: readonly Attempt[]): number {
  const last = attempts.findLast(({ first_step, last_step }) => last_step >= first_step);
  return last ? busyOf(last) / (last.last_step - last.first_step + 1) : 0;
}

/**
 * The percentage of all attempts' time whose training was kept: `again` seconds will be repeated, and time in
 * a queue does not count.
 */
export function goodput(attempts: readonly Attempt[], again = 0): number | null {
  const sum = (of: (attempt: Attempt) => number) =>
    attempts.reduce((total, attempt) => total + of(attempt), 0);
  const wall = sum(wallOf);
  if (wall <= 0) return null;
  const useful = sum(busyOf) - sum(({ lost }) => lost.redone_s) - again;
  return Math.round(1000 * Math.max(0, useful) / wall) / 10;
}

/** The best of an attempt counts where the next one went on behind it. */
export function bestAttempt(attempts: readonly Attempt[]): BestEvaluation | null {
  let first: BestEvaluation | null = null;
  attempts.forEach(({ best }, i) => {
    const kept = best && best.step < (attempts[i + 1]?.first_step ?? Infinity);
    if (kept && isBetterThan(best, first)) first = best;
  });
  return first;
}

/** "was killed", "was stopped (SIGTERM)", "ended in an error (code 4)". */
export function endOfAttempt({ ended }: Attempt): string {
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

const small = (value: unknown): boolean => typeof value === "number" && Math.abs(value) < 1e12;

const isBest = (best: Attempt["best"] | null): boolean =>
  [best?.loss, best?.step, best?.epoch].every(small) &&
  (best?.monitor === undefined || typeof best.monitor.name === "string" && small(best.monitor.value));

/** Somebody may have edited the file. */
function isLineage(value: unknown): value is Lineage {
  const { version, attempts } = (value ?? {}) as Partial<Lineage>;
  return version === 1 && Array.isArray(attempts) && attempts.every((one: Attempt | null) => {
    const { ended, lost } = one ?? {};
    return one !== null && NUMBERS.every((name) => small(one[name])) && LOST.every((name) =>
      small(lost?.[name])
    ) &&
      (one.best === undefined || isBest(one.best)) &&
      (one.first_step_at === null || small(one.first_step_at)) &&
      (ended === null || (typeof ended?.why === "string" && typeof ended.message === "string"));
  });
}

export interface LineageOptions {
  readonly run: string;
  /** The process was started then, in Unix seconds. */
  readonly began: number;
  readonly step: number;
  readonly resumedFrom: string | null;
  /** A run with nothing left to do makes no attempt. */
  readonly idle?: boolean;
  readonly parent: Lineage["parent"];
  warn(message: string): void;
  readonly now?: () => number;
}

export interface LineageWriter {
  readonly lines: readonly string[];
  observe(event: Emitted, t: number): void;
  /** It is called at each step and does next to nothing. */
  stepped(step: number): void;
  summary(): string | null;
}

/** Saves write the file at most this often: events.jsonl has them all. */
const WRITE_S = 1;

const JOB_IDS = ["SLURM_JOB_ID", "PBS_JOBID"];

export function openLineage(logs: string, options: LineageOptions): LineageWriter {
  const { step, warn, idle = false } = options;
  const path = lineagePath(logs);
  const now = options.now ?? (() => Date.now() / 1000);
  const before = attemptsBefore(logs, options);
  const { parent } = before;
  const past = before.attempts.map(asWritten);
  const redone = Math.max(0, (past.at(-1)?.last_step ?? 0) - step);
  const redoneSeconds = redone * secondsPerStep(past);
  // Earlier attempts become text once, however many there are.
  const pastText = past.map((attempt) => textOf(attempt) + ",\n").join("");
  let own: Attempt | null = null;
  let writtenAt = 0;
  let failed = false;

  // Readers of the file compute the same from the written values.
  const all = () => own ? [...past, asWritten(own)] : past;
  const write = (sync: boolean) => {
    if (!own) return;
    writtenAt = own.last_seen;
    const head = { version: 1, run: options.run, parent, goodput_percent: goodput(all()) };
    const text = `${JSON.stringify(head).slice(0, -1)},"attempts":[\n${pastText}${textOf(own)}\n]}\n`;
    try {
      writeAtomically(path, (file) => writeAll(file, new TextEncoder().encode(text)), { sync });
      failed = false;
    } catch (error) {
      if (!failed) warn(`The run's lineage could not be written: ${messageOf(error)}`);
      failed = true;
    }
  };
  const begin = (event: RunEvent, t: number) => {
    const lost = {
      restart_s: t - options.began,
      save_stall_s: 0,
      redone_steps: redone,
      redone_s: redoneSeconds,
    };
    own = { attempt: past.length + 1, ...factsOf(event, options), last_seen: t, ended: null, lost };
    write(true);
  };
  const seen = (attempt: Attempt, t: number) => {
    attempt.last_seen = t;
    attempt.lost.restart_s = restartOf(attempt);
  };

  return {
    lines: idle ? before.lines : [...before.lines, ...linesOf(past, redone, redoneSeconds)],
    observe(event, t) {
      if (idle) return;
      if (event.kind === "run") return begin(event, t);
      if (own === null) return;
      const one = event.kind === "eval" ? evaluationIn(event) : null;
      if (one && isBetterThan(one, own.best)) own.best = one;
      if (event.kind === "save") {
        own.lost.save_stall_s += event.stall_s;
        seen(own, t);
        if (t - writtenAt >= WRITE_S) write(false);
      }
      if (event.kind === "rewind") {
        const { step: at_step, to_step, reason } = event;
        (own.rewinds ??= []).push({ at_step, to_step, reason });
        seen(own, t);
        write(false);
      }
      if (event.kind === "exit") {
        const { code, message } = event;
        own.last_step = event.step;
        own.ended = { why: whyOf(code), message, code };
        seen(own, t);
        write(true);
      }
    },
    stepped(step) {
      if (own === null) return;
      own.last_step = step;
      if (own.first_step_at !== null) return;
      own.first_step_at = now();
      seen(own, own.first_step_at);
      write(false);
    },
    summary() {
      const percent = goodput(all());
      return idle || past.length === 0 || percent === null
        ? null
        : `Goodput of ${formatPlural(all().length, "attempt")}: ${percent.toFixed(1)}%`;
    },
  };
}

function factsOf({ host, pid, world_size }: RunEvent, { began, step, resumedFrom }: LineageOptions) {
  return {
    host,
    job_id: JOB_IDS.map((name) => Deno.env.get(name)).find(Boolean) ?? null,
    ranks: world_size,
    pid,
    started: began,
    resumed_from: resumedFrom,
    first_step: step + 1,
    last_step: step,
    first_step_at: null,
  };
}

/** A loss, and the value of what is monitored, have all digits; times have milliseconds. */
const EXACT = ["loss", "value"];

const textOf = (attempt: Attempt) =>
  JSON.stringify(
    attempt,
    (key, value) =>
      typeof value === "number" && !EXACT.includes(key) ? Math.round(value * 1000) / 1000 : value,
  );

const asWritten = (attempt: Attempt): Attempt => JSON.parse(textOf(attempt));

const whyOf = (code: number) => code === EXIT.done ? "done" : code === EXIT.stopped ? "stopped" : "error";

/** The last attempt is over, since this process holds the run. */
function attemptsBefore(
  logs: string,
  { parent }: LineageOptions,
): Pick<Lineage, "parent" | "attempts"> & { lines: string[] } {
  let lineage: Lineage | null;
  try {
    lineage = readLineage(logs);
  } catch (error) {
    return { parent, attempts: [], lines: [setAside(lineagePath(logs), error)] };
  }
  if (lineage === null) return { parent, attempts: [], lines: [] };
  const last = lineage.attempts.at(-1);
  if (last && last.ended === null) {
    const events = lastEvents(logs), short = lastShortage(events);
    updateAttempt(last, events);
    last.ended = short
      ? { why: "killed", message: `it left no end: ${killedFor(short)}`, code: null, for_memory: true }
      : {
        why: "killed",
        message: "it left no end: kill -9, a crash, a lost node or a time limit",
        code: null,
      };
  }
  return { parent: lineage.parent ?? null, attempts: lineage.attempts, lines: [] };
}

function setAside(path: string, cause: unknown): string {
  const why = messageOf(cause);
  const aside = `${path}.damaged-${Math.floor(Date.now() / 1000)}`;
  try {
    Deno.renameSync(path, aside);
    return `${why} It is set aside as ${aside}; attempts are counted from 1 again.`;
  } catch {
    return `${why} Attempts are counted from 1 again.`;
  }
}

function linesOf(past: readonly Attempt[], redone: number, seconds: number): string[] {
  const last = past.at(-1);
  if (!last) return [];
  const percent = goodput(past, seconds);
  const so = percent === null ? "" : `, goodput so far ${percent.toFixed(1)}%`;
  const again = redone === 0
    ? ""
    : ` (${formatPlural(redone, "step")}, ${formatDuration(seconds)}, ${
      redone === 1 ? "is" : "are"
    } done again)`;
  return [
    `Attempt ${past.length + 1} of this run${so}. Attempt ${last.attempt} ${
      endOfAttempt(last)
    } after step ${last.last_step}${again}`,
  ];
}
