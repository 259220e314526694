// From what a user typed, a run's name or a job's id, to the run and its job. May import track, @std/path.
import { join } from "../../../deps/path.ts";
import { findRun, NEWEST, runsIn } from "../../track/find_run.ts";
import { readLineage } from "../../track/lineage.ts";

export interface Meant {
  /** The run's folder; null where a job has not begun one, or not here. */
  readonly folder: string | null;
  /** The scheduler's; null where the run was started without one. */
  readonly job: string | null;
}

/** SLURM's 17 and 17_3; PBS's 17.server and 17[3].server. */
const JOB = /^\d+(_\d+|\[\d*\])?(\.[\w.-]+)?$/;

export function meantBy(word: string = NEWEST, saveDir = "."): Meant {
  const runs = runsIn(join(saveDir, "logs"));
  const named = runs.some(({ name }) => name === word);
  if (!JOB.test(word) || named) {
    const folder = findRun(word, saveDir);
    return { folder, job: jobOf(folder) };
  }
  const found = runs.find(({ name }) => {
    const job = jobOf(join(saveDir, "logs", name));
    return job !== null && (job === word || job.split(".")[0] === word);
  });
  return { folder: found ? join(saveDir, "logs", found.name) : null, job: word };
}

/** Of the last attempt. */
function jobOf(folder: string): string | null {
  try {
    return readLineage(folder)?.attempts.at(-1)?.job_id ?? null;
  } catch {
    return null; // a damaged lineage says nothing
  }
}
