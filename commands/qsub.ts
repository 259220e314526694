// `hpctrain qsub`: a job script for PBS, printed, written, checked or submitted. May import core.
import { ask, submit } from "../core/cluster/script/deliver.ts";
import type { Job } from "../core/cluster/script/job.ts";
import { pbsLogs, pbsOutput, renderPbs } from "../core/cluster/script/pbs.ts";
import { errBeside } from "../core/cluster/script/slurm.ts";
import { programAsCalled } from "../core/cluster/script/program.ts";
import { quote } from "../core/cluster/script/quote.ts";
import { EXIT } from "../core/errors.ts";
import { next, placeScript, type Prepared, prepareJob, sayArithmetic, type Scheduler } from "./job_script.ts";
import { findCommand } from "./mod.ts";
import { sweepAsJob, sweepWords } from "./sweep_job.ts";
import { QSUB_OPTIONS } from "./options.ts";

export const PBS: Scheduler = {
  name: "pbs",
  command: "qsub",
  options: QSUB_OPTIONS,
  untouched: "qsub-arg",
  short: {},
  usage: "hpctrain qsub [COMMAND] [FLAGS] [--dry-run | --submit] [--output FILE]",
  render: renderPbs,
  folder: "pbs",
};

/** The exit code. */
export async function qsub(argv: string[]): Promise<number> {
  const sweep = sweepWords(argv);
  if (sweep !== null) return await sweepAsJob(sweep, PBS, dryRun);
  const prepared = prepareJob(argv, PBS);
  for (const line of prepared.told) console.error(line);
  const { typed: { own }, job, script } = prepared;
  if (own["dry-run"]) return await dryRun(prepared);
  if (own.submit) {
    const { path, said } = placeScript(prepared, pbsLogs(job));
    for (const line of said) console.error(line);
    const id = await submit("qsub", [], path);
    console.log(`Submitted job ${id} (${path}).\n${next(whatNext(id, job))}`);
  } else if (own.output) {
    const { path, said } = placeScript(prepared, pbsLogs(job));
    for (const line of said) console.error(line);
    console.log(`Wrote ${path}.\n${next([[`qsub ${quote(path)}`, "submits it"]])}`);
  } else console.log(script.trimEnd());
  return EXIT.done;
}

async function dryRun(prepared: Prepared): Promise<number> {
  sayArithmetic(prepared);
  const version = await ask("qstat", ["--version"]);
  console.log(
    version
      ? `PBS: ${version.stdout || version.stderr}; it checks a job when it is submitted`
      : "PBS: not asked, there is no qstat in PATH",
  );
  return EXIT.done;
}

function whatNext(id: string, job: Job): [string, string][] {
  const output = pbsOutput(job).replace("PBS_JOBID", () => id);
  const files = [output, ...(job.errFile ? [errBeside(output)] : [])];
  return [
    [`qstat ${id}`, "its place in the queue"],
    ...(findCommand("status")
      ? [[`${programAsCalled()} status ${id}`, "how far it is"] as [string, string]]
      : []),
    [`tail -F ${files.map(quote).join(" ")}`, "what it prints"],
    [`qdel ${id}`, "ends it"],
  ];
}
