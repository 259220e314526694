// Finds out whether the scheduler has started this job again, and which run it was training.
import { join } from "../../deps/path.ts";
import type { Config } from "../settings/settings.ts";
import { readLineage } from "../run/lineage.ts";
import { isCalled } from "./run_folder.ts";
import {
  askProgram,
  jobIn,
  jobStarts,
  questionFor,
  type SchedulerEnv,
  type SchedulerJob,
} from "../ranks/job/scheduler.ts";

export interface Requeued {
  readonly job: SchedulerJob;
  readonly restarts: number;
}

/** SLURM does not number the first run; PBS has to be queried. */
export async function requeuedIn(env: SchedulerEnv, ask = askProgram): Promise<Requeued | null> {
  const job = jobIn(env);
  if (job === null) return null;
  const restarts = job.scheduler === "slurm"
    ? Number(env.SLURM_RESTART_COUNT ?? 0)
    : (jobStarts(await ask(questionFor(job)) ?? "") ?? 1) - 1;
  return restarts > 0 ? { job, restarts } : null;
}

/** The newest run of this name ("r", "r-2") that this job has trained. */
export function runOfJob(config: Config, preset: string | null, { id }: SchedulerJob): string | null {
  const logs = join(config.output.save_dir, "logs");
  const runs = foldersIn(logs).filter((run) => isCalled(config, preset, run)).flatMap((run) => {
    const last = attemptsOf(join(logs, run)).findLast((attempt) => attempt.job_id === id);
    return last ? [{ run, seen: last.last_seen }] : [];
  });
  return runs.toSorted((a, b) => b.seen - a.seen)[0]?.run ?? null;
}

function attemptsOf(logs: string) {
  try {
    return readLineage(logs)?.attempts ?? [];
  } catch {
    return [];
  }
}

/** As the job script will decide after code 75: it sets HPCTRAIN_ENDED where it requeues, and counts how often. */
export function goesBack(
  env: SchedulerEnv,
  { stopped, byHand }: { readonly stopped: boolean; readonly byHand: boolean },
  most: number,
): boolean {
  const restarts = Number(env.SLURM_RESTART_COUNT ?? env.HPCTRAIN_RESTARTS ?? 0);
  return stopped && !byHand && Boolean(env.HPCTRAIN_ENDED) && restarts < most;
}

/** A job script requeues a run unless this file shows that a person stopped it. */
export function notifyScript(env: SchedulerEnv, outcome: string): void {
  const path = env.HPCTRAIN_ENDED;
  if (!path) return;
  try {
    Deno.writeTextFileSync(path, outcome);
  } catch {
    // another node's folder, or none: the job comes back and finds its checkpoint
  }
}

function foldersIn(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].filter(({ isDirectory }) => isDirectory).map(({ name }) => name);
  } catch {
    return []; // no folder
  }
}
