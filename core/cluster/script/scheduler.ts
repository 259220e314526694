// The schedulers of clusters: what a job is to each, from its script to the commands about it. They are parts of the program.
import { UserError } from "../../base/errors.ts";
import { PARTS, type Parts } from "../../parts.ts";
import type { Env } from "../../settings/environment.ts";
import type { ScriptJob } from "./job.ts";

export type SchedulerName = keyof typeof COMMANDS;

/** The program that submits a script to each. */
export const COMMANDS = { slurm: "sbatch", pbs: "qsub" } as const;

export interface Scheduler {
  /** Its own short spellings of flags. */
  readonly short: Readonly<Record<string, string>>;
  /** It has no output where this folder is missing. */
  readonly needsFolder: boolean;
  readonly queue: string;
  readonly cancel: "scancel" | "qdel";
  render(job: ScriptJob): string;
  /** It writes there what the job with this number prints. */
  output(job: ScriptJob, id: string): string;
  /** The variable with a run's number in its array. */
  index(job: ScriptJob): string;
  /** Refuses a place where it can't write. */
  checkFolder(logs: string): void;
  /** Lines about the machine where no site is named. */
  hint(env: Env, isAsked: boolean): Promise<string[]>;
  /** A line that says whether it would take the job. */
  tryOut(job: ScriptJob, script: string): Promise<string>;
  /** The number of the job. */
  submit(job: ScriptJob, path: string): Promise<string>;
}

const SCHEDULERS: Parts<{ readonly scheduler: Scheduler }> = PARTS.schedulers;

export async function schedulerNamed(name: SchedulerName): Promise<Scheduler> {
  const part = SCHEDULERS[name];
  if (part) return (await part.load()).scheduler;
  throw new UserError("environment", `This hpctrain is built without job scripts for ${name.toUpperCase()}.`);
}
