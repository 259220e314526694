// `hpctrain sbatch`: a job script for SLURM, printed, written, checked or submitted. May import core, @std/path.
import { resolve } from "../deps/path.ts";
import { ask, makeFolder, refused, submit } from "../core/cluster/script/deliver.ts";
import { type Job, slug } from "../core/cluster/script/job.ts";
import { programAsCalled } from "../core/cluster/script/program.ts";
import { quote } from "../core/cluster/script/quote.ts";
import { errBeside, refuseFolder, renderSlurm } from "../core/cluster/script/slurm.ts";
import { SHORT } from "../core/cluster/script/typed.ts";
import { EXIT } from "../core/errors.ts";
import { next, placeScript, prepareJob, sayArithmetic, type Scheduler } from "./job_script.ts";
import { findCommand } from "./mod.ts";
import { sweepAsJob, sweepWords } from "./sweep_job.ts";
import { SBATCH_OPTIONS } from "./options.ts";

export const SLURM: Scheduler = {
  name: "slurm",
  command: "sbatch",
  options: SBATCH_OPTIONS,
  untouched: "sbatch-arg",
  short: SHORT,
  usage: "hpctrain sbatch [COMMAND] [FLAGS] [--dry-run | --submit] [--output FILE]",
  render: renderSlurm,
  folder: "slurm",
};

/** The exit code. */
export async function sbatch(argv: string[]): Promise<number> {
  const sweep = sweepWords(argv);
  if (sweep !== null) return await sweepAsJob(sweep, SLURM, dryRun);
  const prepared = prepareJob(argv, SLURM);
  for (const line of prepared.told) console.error(line);
  const { typed: { own }, job, script } = prepared;
  const folder = `${job.logs}/${SLURM.folder}`;
  refuseFolder(resolve(job.logs));
  if (own["dry-run"]) return await dryRun(prepared);
  if (own.submit) {
    const { path, said } = placeScript(prepared, folder);
    for (const line of said) console.error(line);
    const id = (await submit("sbatch", ["--parsable"], path)).split(";")[0];
    console.log(`Submitted job ${id} (${path}).\n${next(whatNext(id, job))}`);
  } else if (own.output) {
    const { path, said } = placeScript(prepared, folder);
    for (const line of said) console.error(line);
    console.log(`Wrote ${path}.\n${next([[`sbatch ${quote(path)}`, "submits it"]])}`);
  } else {
    makeFolder(folder); // it may be submitted from here, and sbatch makes none
    console.log(script.trimEnd());
  }
  return EXIT.done;
}

async function dryRun(prepared: ReturnType<typeof prepareJob>): Promise<number> {
  sayArithmetic(prepared);
  const file = Deno.makeTempFileSync({ prefix: "hpctrain-", suffix: ".sh" });
  try {
    Deno.writeTextFileSync(file, prepared.script);
    const answer = await ask("sbatch", ["--test-only", file]);
    if (answer && answer.code !== 0) {
      throw refused("sbatch", answer, "what `hpctrain sbatch` prints without --dry-run");
    }
    console.log(
      answer ? `SLURM: ${answer.stderr || answer.stdout}` : "SLURM: not asked, there is no sbatch in PATH",
    );
  } finally {
    Deno.removeSync(file);
  }
  return EXIT.done;
}

function whatNext(id: string, job: Job): [string, string][] {
  const output = `${job.logs}/slurm/${slug(job.name)}_${id}.out`;
  return [
    [`squeue -j ${id}`, "its place in the queue"],
    ...(findCommand("status")
      ? [[`${programAsCalled()} status ${id}`, "how far it is"] as [string, string]]
      : []),
    [
      `tail -F ${[output, ...(job.errFile ? [errBeside(output)] : [])].map(quote).join(" ")}`,
      "what it prints",
    ],
    [`scancel ${id}`, "ends it"],
  ];
}
