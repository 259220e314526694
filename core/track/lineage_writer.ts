// Keeps a run's lineage.json: written when an attempt starts, after its first step, at saves and at its end. Best effort: it
// never ends a run. May import checkpoint/atomic.ts, lineage.ts, event types, core/errors.ts.
import { writeAll, writeAtomically } from "../checkpoint/atomic.ts";
import { EXIT } from "../errors.ts";
import { formatDuration, formatPlural } from "../format.ts";
import type { Emitted, RunEvent } from "./event_types.ts";
import { killedFor, lastShortage } from "./memory_end.ts";
import {
  type Attempt,
  endOf,
  follow,
  goodput,
  lastEvents,
  type Lineage,
  lineagePath,
  readLineage,
  restartOf,
  secondsPerStep,
} from "./lineage.ts";

export interface LineageOptions {
  readonly run: string;
  /** Unix seconds at which this process was started. */
  readonly began: number;
  /** The step that is done already, and the checkpoint that says so. */
  readonly step: number;
  readonly resumedFrom: string | null;
  /** Whether nothing is left to do: then this is no attempt. */
  readonly idle?: boolean;
  /** Set when a run goes on under another name. */
  readonly parent: Lineage["parent"];
  warn(message: string): void;
  /** Unix time in seconds. */
  readonly now?: () => number;
}

export interface LineageWriter {
  /** What to say of the attempts before, if there were any. */
  readonly lines: readonly string[];
  /** Hears of every event, and of its time. */
  observe(event: Emitted, t: number): void;
  /** A step is done. Called for each, so it does next to nothing. */
  stepped(step: number): void;
  /** A sentence for the end of a run that took several attempts. */
  summary(): string | null;
}

/** At saves the file is written at most this often: events.jsonl has them all. */
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
  // What is long over is made text once, however many attempts there were.
  const pastText = past.map((attempt) => textOf(attempt) + ",\n").join("");
  let own: Attempt | null = null;
  let writtenAt = 0;
  let failed = false;

  // What is told is worked out from what is written: whoever reads the file finds the same.
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
      if (!failed) warn(`The run's lineage could not be written: ${(error as Error).message}`);
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
      if (event.kind === "eval" && event.val_loss < (own.best?.loss ?? Infinity)) {
        own.best = { loss: event.val_loss, step: event.step, epoch: event.epoch };
      }
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

/** Times to the millisecond, and a loss as it is. */
const textOf = (attempt: Attempt) =>
  JSON.stringify(
    attempt,
    (key, value) => typeof value === "number" && key !== "loss" ? Math.round(value * 1000) / 1000 : value,
  );

const asWritten = (attempt: Attempt): Attempt => JSON.parse(textOf(attempt));

const whyOf = (code: number) => code === EXIT.done ? "done" : code === EXIT.stopped ? "stopped" : "error";

/** The attempts before this one. The last of them is over, whatever it wrote: this process holds the run. */
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
    follow(last, events);
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
  const why = (cause as Error).message;
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
      endOf(last)
    } after step ${last.last_step}${again}`,
  ];
}
