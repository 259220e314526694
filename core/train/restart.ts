// Chooses the run that a start continues: one with a checkpoint, one that was never saved, or a new one. Finds out whether
// the scheduler has started this job again, and which run it was training; and watches the time of the job.
import { join } from "../../deps/path.ts";
import type { Saver } from "./save.ts";
import type { Config } from "../settings/settings.ts";
import { readEventLines } from "../run/event_log.ts";
import { decodeEvent } from "../run/events.ts";
import type { SavedScale } from "../data/transforms/scale_choice.ts";
import { lineagePath, readLineage } from "../run/lineage.ts";
import { type Resume, resumeFrom } from "./resume.ts";
import { savedScale } from "./data_facts.ts";
import {
  askProgram,
  jobIn,
  jobStarts,
  openRemainingTime,
  questionFor,
  type SchedulerEnv,
  type SchedulerJob,
  timeIsShort,
} from "../ranks/job/scheduler.ts";
import type { Run } from "./launch.ts";
import { isCalled } from "./run_folder.ts";

export interface ResumeChoice {
  readonly resume: Resume | null;
  /** It ended before its first save. */
  readonly again: string | null;
  /** It is that of the checkpoint that goes on, or whose weights begin; null without one. */
  readonly scale: SavedScale | null;
  readonly notes: readonly string[];
}

export function chooseResume(config: Config, preset: string | null, requeued: Requeued | null): ResumeChoice {
  if (requeued === null) {
    const { resume, again } = found(config, preset, null);
    return { resume, again, scale: scaleToKeep(config, resume), notes: [] };
  }
  const run = runOfJob(config, preset, requeued.job);
  const { resume, again } = found(config, preset, run);
  const { job: { called }, restarts } = requeued;
  const head = `${called} was started again (restart ${restarts})`;
  const note = resume?.run
    ? `${head}: the run ${resume.run} goes on, as with --resume auto`
    : again !== null
    ? `${head}: the run ${again} begins again, as it ended before its first save`
    : `${head}, and it had not begun this run yet`;
  return { resume, again, scale: scaleToKeep(config, resume), notes: [note] };
}

export function scaleToKeep(
  { training: { init_from: begins } }: Config,
  resume: Resume | null,
): SavedScale | null {
  if (resume) return savedScale(resume.path, true);
  return begins === "" ? null : savedScale(begins, false);
}

/** `own` is the run of this job. */
function found(
  config: Config,
  preset: string | null,
  own: string | null,
): Pick<ResumeChoice, "resume" | "again"> {
  const resume = resumeFrom(config, preset, own);
  const named = config.training.resume === "auto" ? config.output.run_name : "";
  const run = own ?? (named === "" ? null : named);
  const again = resume === null && run !== null && neverSaved(join(config.output.save_dir, "logs", run))
    ? run
    : null;
  return { resume, again };
}

/** A run whose checkpoints were taken away keeps its files. */
function neverSaved(logs: string): boolean {
  try {
    return Deno.statSync(lineagePath(logs)).isFile &&
      !readEventLines(join(logs, "events.jsonl")).some((line) => decodeEvent(line)?.kind === "save");
  } catch {
    return false; // no such run
  }
}

/** A shared disk on a bad day. */
const BYTES_PER_SECOND = 100e6;

/** Weights and the optimizer's state. */
const COPIES = 3;

/** Only the first rank calls it. */
export function watchJobTime(
  { arena, requests, saver }: Pick<Run, "arena" | "requests"> & { readonly saver: Pick<Saver, "stats"> },
  env: Record<string, string>,
  began: number,
): void {
  const job = jobIn(env);
  if (job === null) return;
  const time = openRemainingTime({ job, env, began });
  const guess = 1 + COPIES * arena.flat.byteLength / BYTES_PER_SECOND;
  requests.watchTime(() => {
    const left = time.now();
    return left && timeIsShort(left, saver.stats.saves > 0 ? saver.stats.longest : guess);
  }, time.close);
}

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
