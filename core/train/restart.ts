// Chooses the run that a start continues: one with a checkpoint, one that was never saved, or a new one. Also
// watches the time of the job.
import { join } from "../../deps/path.ts";
import type { Saver } from "./save.ts";
import { type Requeued, runOfJob } from "./requeue.ts";
import type { Config } from "../settings/settings.ts";
import { readEventLines } from "../run/event_log.ts";
import { decodeEvent } from "../run/events.ts";
import type { SavedScale } from "../data/transforms/scale_choice.ts";
import { lineagePath } from "../run/lineage.ts";
import { type Resume, resumeFrom } from "./resume.ts";
import { savedScale } from "./data_facts.ts";
import { jobIn, openRemainingTime, timeIsShort } from "../ranks/job/scheduler.ts";
import type { Run } from "./launch.ts";

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
