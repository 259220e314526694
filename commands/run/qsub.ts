// `hpctrain qsub`: a job script for PBS, printed, written, checked or submitted.
import { runSubmit } from "../../core/cluster/jobs.ts";
import type { ScriptJob } from "../../core/cluster/script/job.ts";
import { pbsLogs, pbsOutput, renderPbs } from "../../core/cluster/script/pbs.ts";
import { errBeside } from "../../core/cluster/script/slurm.ts";
import { programAsCalled, quote } from "../../core/base/shell.ts";
import { withoutScheduler } from "../../core/cluster/script/options.ts";
import { EXIT } from "../../core/base/errors.ts";
import {
  deliverScript,
  linesOfNextCommands,
  type PreparedJob,
  prepareJob,
  printArithmetic,
  type Scheduler,
  submitScript,
  sweepArguments,
  sweepAsJob,
} from "./sbatch.ts";
import { command, OPTIONS } from "../qsub.ts";

export const PBS: Scheduler = {
  name: "pbs",
  command: "qsub",
  options: OPTIONS,
  untouched: "qsub-arg",
  short: {},
  usage: command.usage,
  render: renderPbs,
  folder: "pbs",
};

/** The exit code. */
export async function qsub(given: string[]): Promise<number> {
  const argv = withoutScheduler(given, PBS.name);
  const sweep = sweepArguments(argv);
  if (sweep !== null) return await sweepAsJob(sweep, PBS, dryRun);
  const prepared = await prepareJob(argv, PBS);
  for (const line of prepared.notes) console.error(line);
  const { typed: { own }, job, script } = prepared;
  if (own["dry-run"]) return await dryRun(prepared);
  if (own.submit) {
    const { path, notes } = deliverScript(prepared, pbsLogs(job));
    for (const line of notes) console.error(line);
    printArithmetic(prepared, console.error); // a script reads the number
    const id = await submitScript(PBS, job, path);
    console.log(`Submitted job ${id} (${path}).\n${linesOfNextCommands(whatNext(id, job))}`);
  } else if (own.output) {
    const { path, notes } = deliverScript(prepared, pbsLogs(job));
    for (const line of notes) console.error(line);
    console.log(`Wrote ${path}.\n${linesOfNextCommands([[`qsub ${quote(path)}`, "submits it"]])}`);
  } else console.log(script.trimEnd());
  return EXIT.done;
}

async function dryRun(prepared: PreparedJob): Promise<number> {
  printArithmetic(prepared);
  const version = await runSubmit("qstat", ["--version"]);
  console.log(
    version
      ? `PBS: ${version.stdout || version.stderr}; it checks a job when it is submitted`
      : "PBS: not asked, there is no qstat in PATH",
  );
  return EXIT.done;
}

function whatNext(id: string, job: ScriptJob): [string, string][] {
  const output = pbsOutput(job).replace("PBS_JOBID", () => id);
  const files = [output, ...(job.errFile ? [errBeside(output)] : [])];
  return [
    [`qstat ${id}`, "its place in the queue"],
    [`${programAsCalled()} status ${id}`, "how far it is"],
    [`tail -F ${files.map(quote).join(" ")}`, "what it prints"],
    [`qdel ${id}`, "ends it"],
  ];
}
