// `hpctrain cancel`: a run is asked to stop after a save; a job that has no run is ended by its scheduler.
import { join } from "../../deps/path.ts";
import { cancelJob, findRunOrJob, jobState, withJob } from "../../core/cluster/jobs.ts";
import { parseOptions } from "../../core/settings/options.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { openRun } from "../../core/run/run_data.ts";
import { runStatusOf } from "../../core/run/status.ts";
import { OPTIONS } from "../cancel.ts";

const USAGE = "hpctrain cancel RUN | JOB [--now] [--save-dir DIR]";

const OVER = ["done", "stopped", "requeued", "failed", "gone"];

export async function cancel(argv: string[]): Promise<number> {
  const { options, positionals } = parseOptions(argv, OPTIONS, USAGE);
  if (positionals.length !== 1) throw new UserError("usage", `Which run or job should end? Usage: ${USAGE}`);
  const { folder, job } = await findRunOrJob(positionals[0], options["save-dir"]);
  if (job !== null && (options.now || folder === null)) {
    console.log(`${await cancelJob(job)} ends job ${job}.`);
    return EXIT.done;
  }
  if (folder === null || options.now) {
    throw new UserError(
      "usage",
      `${folder} was started without a scheduler: without --now it is asked to stop after a save, and kill ends its process.`,
    );
  }
  const { state, why } = await withJob(standing(folder), job, job === null ? null : await jobState(job));
  if (state === "requeued" && job !== null) {
    console.log(`${folder} waits for its job to come again: ${await cancelJob(job)} ends job ${job}.`);
    return EXIT.done;
  }
  if (OVER.includes(state)) {
    console.log(`Nothing to end: ${folder} is ${state} (${why}).`);
    return EXIT.done;
  }
  const path = join(folder, "STOP");
  Deno.writeTextFileSync(path, "");
  console.log(`Asked ${folder} to stop after a save (by the file ${path}). It is heard between two steps.`);
  return EXIT.done;
}

function standing(folder: string) {
  const reader = openRun(folder);
  try {
    reader.poll();
    return runStatusOf(reader.data, Date.now() / 1000);
  } finally {
    reader.close();
  }
}
