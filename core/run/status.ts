// The status of a run: its state, its progress, and the time that it will still take.
import { EXIT } from "../base/errors.ts";
import { formatDuration } from "../base/format.ts";
import { killedFor, wasShort } from "./system.ts";
import type { RunData } from "./run_data.ts";

export type RunState =
  | "starting"
  | "running"
  | "silent"
  | "gone"
  | "done"
  | "stopped"
  | "requeued"
  | "failed";

/** Nothing more comes of such a run, unless somebody starts it again. */
export const hasEnded = (state: RunState): boolean =>
  ["done", "stopped", "requeued", "failed", "gone"].includes(state);

export interface RunStatus {
  readonly state: RunState;
  readonly why: string;
}

/** A run seems dead after this silence, if that is several times its longest one before. */
const SILENT_S = 120;
const TIMES_SILENCE = 5;

/** The status is judged by these; the table of all runs knows no more of each. */
type Judged = Pick<RunData, "exit" | "lastAt" | "memory" | "longestSilence" | "step"> & {
  readonly run: { readonly host: string; readonly pid: number } | null;
  /** The log's file: when it was written, in Unix seconds, and how long it is. */
  readonly log?: { readonly at: number; readonly bytes: number } | null;
};

/** `alive` is null where a process of another host can't be seen. */
export function runStatusOf(
  data: Judged,
  now: number,
  alive: (host: string, pid: number) => boolean | null = isAlive,
): RunStatus {
  const { run, exit, lastAt } = data;
  if (exit !== null) {
    const { code } = exit, stopped = exit.requeues ? "requeued" : "stopped";
    const state = code === EXIT.done ? "done" : code === EXIT.stopped ? stopped : "failed";
    return { state, why: `${exit.message || "Ended"}${exit.code === 0 ? "" : ` (exit code ${exit.code})`}` };
  }
  if (lastAt === null) return withoutEvents(data.log ?? null, now);
  const silent = Math.max(0, now - lastAt);
  const silence = `the last event is ${formatDuration(silent)} old`;
  const isRunning = run === null ? null : alive(String(run.host), Number(run.pid));
  const killed = data.memory && wasShort(data.memory, lastAt) ? `; ${killedFor(data.memory)}` : "";
  if (run !== null && isRunning === false) {
    return { state: "gone", why: `Process ${run.pid} is gone and left no end; ${silence}${killed}` };
  }
  if (silent > Math.max(SILENT_S, TIMES_SILENCE * data.longestSilence)) {
    const hint = isRunning ? ", though its process is there" : "";
    return { state: "silent", why: `It seems dead: ${silence}${hint || killed}` };
  }
  return { state: data.step > 0 ? "running" : "starting", why: silence };
}

/** The first event follows the file within moments. */
function withoutEvents(log: Judged["log"] | null, now: number): RunStatus {
  if (log && log.bytes > 0) return { state: "gone", why: "Its events.jsonl holds no event of a run" };
  const old = log ? now - log.at : 0;
  return old > SILENT_S
    ? { state: "gone", why: `Its log is ${formatDuration(old)} old and has no event: it never began` }
    : { state: "starting", why: "Its log has no event yet" };
}

/** Null for another host. */
function isAlive(host: string, pid: number): boolean | null {
  if (host !== Deno.hostname() || !Number.isInteger(pid)) return null;
  try {
    Deno.statSync(`/proc/${pid}`);
    return true;
  } catch {
    return false;
  }
}

export interface RunProgress {
  readonly step: number;
  /** Null until the first epoch shows its number of steps. */
  readonly steps: number | null;
  readonly epoch: number;
  readonly epochs: number | null;
  readonly stepsPerSecond: number | null;
  readonly secondsLeft: number | null;
}

type Progressing = Pick<RunData, "config" | "stepsPerEpoch" | "step" | "epoch" | "recent"> & {
  readonly exit: object | null;
};

export function progressOf(data: Progressing): RunProgress {
  const training = data.config.training as { epochs?: unknown; max_steps?: unknown } | undefined;
  const epochs = count(training?.epochs), most = count(training?.max_steps);
  const all = epochs !== null && data.stepsPerEpoch !== null ? epochs * data.stepsPerEpoch : null;
  const steps = most !== null && all !== null ? Math.min(most, all) : most ?? all;
  const stepsPerSecond = speedOf(data);
  const going = data.exit === null && steps !== null && stepsPerSecond !== null;
  const secondsLeft = going ? Math.max(0, steps - data.step) / stepsPerSecond : null;
  return { step: data.step, steps, epoch: data.epoch, epochs, stepsPerSecond, secondsLeft };
}

/** Evaluations and saves between the steps count. */
function speedOf({ recent }: Progressing): number | null {
  if (recent.length < 2) return null;
  const first = recent[0], last = recent[recent.length - 1];
  return last.t > first.t && last.step > first.step ? (last.step - first.step) / (last.t - first.t) : null;
}

const count = (value: unknown): number | null => typeof value === "number" && value > 0 ? value : null;
