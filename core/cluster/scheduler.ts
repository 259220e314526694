// The scheduler's job that this process is in, what is asked about it, and how to read the answers. Pure.
// Imports nothing.

export type Env = Readonly<Record<string, string | undefined>>;

export interface SchedulerJob {
  readonly scheduler: "slurm" | "pbs";
  readonly id: string;
  /** "SLURM job 17". */
  readonly called: string;
}

/** Null outside of a job, and in a shell into which a job's variables were copied without its id. */
export function jobIn(env: Env): SchedulerJob | null {
  const slurm = env.SLURM_JOB_ID?.trim(), pbs = env.PBS_JOBID?.trim();
  if (slurm) return { scheduler: "slurm", id: slurm, called: `SLURM job ${slurm}` };
  return pbs ? { scheduler: "pbs", id: pbs, called: `PBS job ${pbs}` } : null;
}

/** The program to ask, and its words. */
export function questionFor({ scheduler, id }: SchedulerJob): readonly [string, ...string[]] {
  return scheduler === "slurm"
    ? ["squeue", "--noheader", "--jobs", id, "--format", "%L %l"]
    : ["qstat", "-f", id];
}

export interface Answer {
  /** Seconds until the scheduler ends the job; Infinity without a limit. */
  readonly left: number;
  /** Seconds that the job was given; null where that was not told. */
  readonly limit: number | null;
}

/** Null where the answer says nothing of use. */
export function readAnswer({ scheduler }: SchedulerJob, text: string): Answer | null {
  return scheduler === "slurm" ? ofSqueue(text) : ofQstat(text);
}

/** "59:02 1:00:00"; "UNLIMITED UNLIMITED". */
function ofSqueue(text: string): Answer | null {
  const [left, limit] = text.trim().split(/\s+/).map(secondsOf);
  return left === undefined || left === null ? null : { left, limit: limit ?? null };
}

/** Lines of `name = value`; long ones go on after a tab. */
function ofQstat(text: string): Answer | null {
  const whole = text.replace(/\n\t/g, "");
  const given = secondsOf(field(whole, "Resource_List.walltime"));
  if (given === null) return null;
  return { left: given - (secondsOf(field(whole, "resources_used.walltime")) ?? 0), limit: given };
}

/** How often PBS has started this job: 1 the first time; null where its answer does not say. */
export function runsOf(qstat: string): number | null {
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

/** What the environment itself says of the end, for nodes on which the scheduler's programs are missing. */
export function endIn(env: Env, began: number, now: number): Answer | null {
  const whole = (text: string | undefined) => text && /^\d+$/.test(text) ? Number(text) : null;
  const end = whole(env.SLURM_JOB_END_TIME), start = whole(env.SLURM_JOB_START_TIME);
  if (end !== null) return { left: end - now, limit: start === null ? null : end - start };
  const walltime = whole(env.PBS_WALLTIME); // Torque's; the job is at least as old as this process
  return walltime === null ? null : { left: began + walltime - now, limit: walltime };
}
