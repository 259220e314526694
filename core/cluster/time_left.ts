// How much time the job has left: asked of the scheduler rarely, beside training, and counted down in between.
// May import scheduler.
import { type Answer, endIn, type Env, questionFor, readAnswer, type SchedulerJob } from "./scheduler.ts";

export interface TimeLeft {
  /** Seconds, by the last answer; null while nothing is known. Costs nothing. */
  now(): Answer | null;
  close(): void;
}

/** A limit may be changed while the job runs; a controller has better things to do than to answer every rank. */
const MOST_S = 600, LEAST_S = 20;
/** After so many questions in a row without an answer no more are asked. */
const TRIES = 3;
const PATIENCE_MS = 15_000;

export interface TimeLeftOptions {
  readonly job: SchedulerJob;
  readonly env: Env;
  /** Unix seconds at which this process was started. */
  readonly began: number;
  /** What a program prints; null where it fails. */
  readonly ask?: (command: readonly [string, ...string[]]) => Promise<string | null>;
  /** Unix seconds. */
  readonly clock?: () => number;
}

/** Asks at once, and again when a tenth of what was left has gone. */
export function openTimeLeft(options: TimeLeftOptions): TimeLeft {
  const { job, env, began, ask = askProgram, clock = () => Date.now() / 1000 } = options;
  let known: { answer: Answer; at: number } | null = null;
  let failures = 0, timer = 0, closed = false;

  const remember = (answer: Answer | null) => {
    if (answer) known = { answer, at: clock() };
  };
  const look = async () => {
    const text = await ask(questionFor(job));
    if (closed) return;
    const answer = text === null ? null : readAnswer(job, text);
    failures = answer ? 0 : failures + 1;
    remember(answer);
    if (failures >= TRIES) return;
    const left = Math.min(known?.answer.left ?? 0, 10 * MOST_S);
    timer = setTimeout(look, 1000 * Math.max(LEAST_S, left / 10));
    Deno.unrefTimer(timer);
  };
  remember(endIn(env, began, clock()));
  look();
  return {
    now() {
      if (!known) return null;
      const { answer: { left, limit }, at } = known;
      return { left: Math.max(0, left - (clock() - at)), limit };
    },
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}

/** In the background; a program that is not there, fails or hangs has said nothing. */
export async function askProgram([program, ...args]: readonly [string, ...string[]]): Promise<string | null> {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), PATIENCE_MS);
  Deno.unrefTimer(timer);
  try {
    const { success, stdout } = await new Deno.Command(program, {
      args,
      stdin: "null",
      stderr: "null",
      signal: over.signal,
    }).output();
    return success ? new TextDecoder().decode(stdout) : null;
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}

/** Beyond the save: the last steps, the ends of processes, and a scheduler whose clock is coarse. */
const MARGIN_S = 30;

/**
 * Why the run should stop now; null while there is time. A save may be under way when the last one is asked for, so two
 * have to fit. Of a short job, the margin is a tenth.
 */
export function timeIsShort({ left, limit }: Answer, saveSeconds: number): string | null {
  const margin = Math.min(MARGIN_S, (limit ?? Infinity) / 10);
  if (left > 2 * saveSeconds + margin) return null;
  const of = limit === null || limit === Infinity
    ? "are left"
    : `of the job's ${Math.round(limit)} s are left`;
  const save = saveSeconds < 1 ? "less than 1 s" : `${Math.ceil(saveSeconds)} s`;
  return `${Math.floor(left)} s ${of} and a save takes ${save}`;
}
