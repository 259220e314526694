// The scheduler's job, and how much time it has left.

export type SchedulerEnv = Readonly<Record<string, string | undefined>>;

export interface SchedulerJob {
  readonly scheduler: "slurm" | "pbs";
  readonly id: string;
  readonly called: string;
}

/** A job script of ours says by this variable how it was made. */
export const JOB_LINE = "HPCTRAIN_JOB";
export interface JobLine {
  /** Those of `sbatch` or `qsub` that are not the run's own. */
  readonly flags: readonly string[];
  readonly nodes: number;
  readonly ranks: number;
}

export function jobLineIn(env: SchedulerEnv): JobLine | null {
  try {
    return env[JOB_LINE] ? JSON.parse(env[JOB_LINE]) : null;
  } catch {
    return null; // somebody else's
  }
}

/** Null outside of a job, and in a shell into which a job's variables were copied without its id. */
export function jobIn(env: SchedulerEnv): SchedulerJob | null {
  const slurm = env.SLURM_JOB_ID?.trim(), pbs = env.PBS_JOBID?.trim();
  if (slurm) return { scheduler: "slurm", id: slurm, called: `SLURM job ${slurm}` };
  return pbs ? { scheduler: "pbs", id: pbs, called: `PBS job ${pbs}` } : null;
}

export function questionFor({ scheduler, id }: SchedulerJob): readonly [string, ...string[]] {
  return scheduler === "slurm"
    ? ["squeue", "--noheader", "--jobs", id, "--format", "%L %l"]
    : ["qstat", "-f", id];
}

interface JobTime {
  /** Seconds until the scheduler ends the job; Infinity without a limit. */
  readonly left: number;
  /** The job's time limit in seconds; null where it is unknown. */
  readonly limit: number | null;
}

export function readAnswer({ scheduler }: SchedulerJob, text: string): JobTime | null {
  return scheduler === "slurm" ? ofSqueue(text) : ofQstat(text);
}

/** "59:02 1:00:00"; "UNLIMITED UNLIMITED". */
function ofSqueue(text: string): JobTime | null {
  const [left, limit] = text.trim().split(/\s+/).map(secondsOf);
  return left === undefined || left === null ? null : { left, limit: limit ?? null };
}

/** Lines of `name = value`; long ones go on after a tab. */
function ofQstat(text: string): JobTime | null {
  const whole = text.replace(/\n\t/g, "");
  const given = secondsOf(field(whole, "Resource_List.walltime"));
  if (given === null) return null;
  return { left: given - (secondsOf(field(whole, "resources_used.walltime")) ?? 0), limit: given };
}

export function jobStarts(qstat: string): number | null {
  const count = Number(field(qstat, "run_count") || field(qstat, "start_count"));
  return Number.isInteger(count) && count > 0 ? count : null;
}

const field = (text: string, name: string): string =>
  new RegExp(`^\\s*${name.replace(".", "\\.")}\\s*=\\s*(\\S+)`, "m").exec(text)?.[1] ?? "";

/** "1-02:03:04", "02:03:04", "03:04", "04". */
export function secondsOf(text: string): number | null {
  if (text === "UNLIMITED") return Infinity;
  const found = /^(?:(\d+)-)?(\d+(?::\d+){0,3})$/.exec(text);
  if (!found) return null;
  const clock = found[2].split(":").map(Number);
  // With days, what follows them begins with hours.
  if (found[1] !== undefined) { while (clock.length < 3) clock.push(0); }
  const [seconds, minutes = 0, hours = 0, days = 0] = clock.toReversed();
  return ((Number(found[1] ?? 0) + days) * 24 + hours) * 3600 + minutes * 60 + seconds;
}

/** The environment has the end too, on nodes where the scheduler's programs are missing. */
export function endIn(env: SchedulerEnv, began: number, now: number): JobTime | null {
  const whole = (text: string | undefined) => text && /^\d+$/.test(text) ? Number(text) : null;
  const end = whole(env.SLURM_JOB_END_TIME), start = whole(env.SLURM_JOB_START_TIME);
  if (end !== null) return { left: end - now, limit: start === null ? null : end - start };
  const walltime = whole(env.PBS_WALLTIME); // Torque's; the job is at least as old as this process
  return walltime === null ? null : { left: began + walltime - now, limit: walltime };
}

interface RemainingTime {
  /** Seconds, by the last answer; null while nothing is known. It is cheap. */
  now(): JobTime | null;
  close(): void;
}

const MOST_S = 600, LEAST_S = 20;
/** After so many failures in a row it stops asking. */
const TRIES = 3;
const PATIENCE_MS = 15_000;

interface RemainingTimeOptions {
  readonly job: SchedulerJob;
  readonly env: SchedulerEnv;
  readonly began: number;
  readonly ask?: (command: readonly [string, ...string[]]) => Promise<string | null>;
  readonly clock?: () => number;
}

/** Asks at once, and again when a tenth of the time has gone. */
export function openRemainingTime(options: RemainingTimeOptions): RemainingTime {
  const { job, env, began, ask = askProgram, clock = () => Date.now() / 1000 } = options;
  let known: { answer: JobTime; at: number } | null = null;
  let failures = 0, timer = 0, closed = false;

  const remember = (answer: JobTime | null) => {
    if (answer) known = { answer, at: clock() };
  };
  const poll = async () => {
    const text = await ask(questionFor(job));
    if (closed) return;
    const answer = text === null ? null : readAnswer(job, text);
    failures = answer ? 0 : failures + 1;
    remember(answer);
    if (failures >= TRIES) return;
    const left = Math.min(known?.answer.left ?? 0, 10 * MOST_S);
    timer = setTimeout(poll, 1000 * Math.max(LEAST_S, left / 10));
    Deno.unrefTimer(timer);
  };
  remember(endIn(env, began, clock()));
  poll();
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

/** The end takes time beyond the save. */
const MARGIN_S = 30;

/**
 * Null while there is time. A save may be under way when the last one is requested, so two have to fit. For a
 * short job, the margin is a tenth.
 */
export function timeIsShort({ left, limit }: JobTime, saveSeconds: number): string | null {
  const margin = Math.min(MARGIN_S, (limit ?? Infinity) / 10);
  if (left > 2 * saveSeconds + margin) return null;
  const of = limit === null || limit === Infinity
    ? "are left"
    : `of the job's ${Math.round(limit)} s are left`;
  const save = saveSeconds < 1 ? "less than 1 s" : `${Math.ceil(saveSeconds)} s`;
  return `${Math.floor(left)} s ${of} and a save takes ${save}`;
}
