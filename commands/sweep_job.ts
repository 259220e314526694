// A sweep as one job array. May import core, @std/path.
import { join } from "@std/path";
import { makeFolder, submit, writeScript } from "../core/cluster/script/deliver.ts";
import { quote } from "../core/cluster/script/quote.ts";
import type { Sweep } from "../core/cluster/sweep/manifest.ts";
import { EXIT } from "../core/errors.ts";
import { formatPlural } from "../core/format.ts";
import { next, prepareJob } from "./job_script.ts";
import { SLURM } from "./sbatch.ts";
import { whole } from "./sweep.ts";

interface Asked {
  readonly sweep: Sweep;
  readonly folder: string;
  /** Numbers of the runs that are not done. */
  readonly todo: readonly number[];
  readonly fixed: readonly string[];
  readonly argv: readonly string[];
  readonly options: { readonly jobs?: string; readonly submit: boolean; readonly pbs: boolean };
}

export async function asArray({ sweep, folder, todo, fixed, argv, options }: Asked): Promise<number> {
  const scheduler = options.pbs ? (await import("./qsub.ts")).PBS : SLURM;
  const { job } = prepareJob([...fixed], scheduler);
  const index = options.pbs ? "PBS_ARRAY_INDEX" : "SLURM_ARRAY_TASK_ID";
  const array = todo.length > 1; // PBS knows no array of one
  const whichRun = !array
    ? String(todo[0])
    : todo.length === sweep.runs.length
    ? { shell: `"$${index}"` }
    : { shell: `"$(cut -d ' ' -f $((${index} + 1)) <<<'${todo.join(" ")}')"` };
  const atOnce = options.jobs === undefined ? undefined : whole("jobs", options.jobs);
  const script = scheduler.render({
    ...job,
    made: { ...job.made, command: ["hpctrain", "sweep", ...argv.filter((word) => word !== "--submit")] },
    name: sweep.name,
    words: ["sweep", "run", folder, whichRun],
    overrides: [], // what is in the environment would be the same for all
    ...(array ? { array: { last: todo.length - 1, atOnce } } : {}),
  });
  const path = join(folder, options.pbs ? "sweep.pbs" : "sweep.sh");
  makeFolder(`${job.logs}/${scheduler.folder}`);
  for (const line of writeScript(path, script)) console.log(line);
  const many = `a job array of ${formatPlural(todo.length, "run")}`;
  const status: [string, string] = [`hpctrain sweep status ${quote(folder)}`, "how the runs stand"];
  if (!options.submit) {
    const submits: [string, string] = [`${scheduler.command} ${quote(path)}`, "submits it"];
    console.log(`Wrote ${path}: ${many}.\n${next([submits, status])}`);
    return EXIT.done;
  }
  const id = (await submit(scheduler.command, options.pbs ? [] : ["--parsable"], path)).split(";")[0];
  const ends: [string, string] = [options.pbs ? `qdel ${quote(id)}` : `scancel ${id}`, "ends all of them"];
  console.log(`Submitted job ${id}: ${many} (${path}).\n${next([status, ends])}`);
  return EXIT.done;
}
