// A sweep as one job array: `sweep` writes or submits it, and `sbatch --kind sweep` prints it too, as it does with other
// jobs. May import core, @std/path.
import { join } from "../deps/path.ts";
import { makeFolder, submit, writeScript } from "../core/cluster/script/deliver.ts";
import { quote } from "../core/cluster/script/quote.ts";
import { type Sweep, writeSweep } from "../core/cluster/sweep/manifest.ts";
import { looksLikeFlag, ownWords, parseOptions, splitFlag } from "../core/config/options.ts";
import { EXIT, UserError } from "../core/errors.ts";
import { formatPlural } from "../core/format.ts";
import { next, type Prepared, prepareJob, type Scheduler } from "./job_script.ts";
import { SWEEP_OPTIONS } from "./options.ts";
import { SLURM } from "./sbatch.ts";
import { planSweep, tellEnd, whole } from "./sweep.ts";

interface Asked {
  readonly sweep: Sweep;
  readonly folder: string;
  /** Numbers of the runs that are not done. */
  readonly todo: readonly number[];
  /** Flags that all runs have, and the job's. */
  readonly words: readonly string[];
  /** The whole command line. */
  readonly typed: readonly string[];
  readonly pbs: boolean;
  /** Runs at the same time. */
  readonly jobs: string | undefined;
}

/** The script of the array, which looks its runs up in the sweep's folder. */
function prepareArray(
  { sweep, folder, todo, words, typed, pbs, jobs }: Asked,
  scheduler: Scheduler,
): Prepared {
  const prepared = prepareJob(words, scheduler);
  const torque = prepared.job.site.pbs.dialect === "torque";
  const index = pbs ? torque ? "PBS_ARRAYID" : "PBS_ARRAY_INDEX" : "SLURM_ARRAY_TASK_ID";
  const array = todo.length > 1; // PBS knows no array of one
  const whichRun = !array
    ? String(todo[0])
    : todo.length === sweep.runs.length
    ? { shell: `"$${index}"` }
    : { shell: `"$(cut -d ' ' -f $((${index} + 1)) <<<'${todo.join(" ")}')"` };
  const atOnce = jobs === undefined ? undefined : whole("jobs", jobs);
  const job = {
    ...prepared.job,
    made: {
      ...prepared.job.made,
      command: typed.filter((word) => !["--submit", "--dry-run"].includes(word)),
    },
    name: sweep.name,
    words: ["sweep", "run", folder, whichRun],
    overrides: [], // what is in the environment would be the same for all
    ...(array ? { array: { last: todo.length - 1, atOnce } } : {}),
  };
  return { ...prepared, job, script: scheduler.render(job) };
}

const schedulerOf = async (pbs: boolean): Promise<Scheduler> => pbs ? (await import("./qsub.ts")).PBS : SLURM;

export async function asArray(
  asked: Asked & { readonly how: "write" | "submit"; readonly output?: string },
): Promise<number> {
  const { folder, todo, pbs, how, output } = asked;
  const scheduler = await schedulerOf(pbs);
  const { job, script } = prepareArray(asked, scheduler);
  const path = output ?? join(folder, pbs ? "sweep.pbs" : "sweep.sh");
  makeFolder(`${job.logs}/${scheduler.folder}`);
  for (const line of writeScript(path, script)) console.log(line);
  const many = `a job array of ${formatPlural(todo.length, "run")}`;
  const status: [string, string] = [`hpctrain sweep status ${quote(folder)}`, "how the runs stand"];
  if (how === "write") {
    const submits: [string, string] = [`${scheduler.command} ${quote(path)}`, "submits it"];
    console.log(`Wrote ${path}: ${many}.\n${next([submits, status])}`);
    return EXIT.done;
  }
  const id = (await submit(scheduler.command, pbs ? [] : ["--parsable"], path)).split(";")[0];
  const ends: [string, string] = [pbs ? `qdel ${quote(id)}` : `scancel ${id}`, "ends all of them"];
  console.log(`Submitted job ${id}: ${many} (${path}).\n${next([status, ends])}`);
  return EXIT.done;
}

/** The words of a sweep, where `sbatch` or `qsub` is asked for one (`sbatch sweep ...`, `--kind sweep`); else null. */
export function sweepWords(argv: readonly string[]): string[] | null {
  const words: string[] = [];
  let kind: string | undefined = argv[0] === "sweep" ? "sweep" : undefined;
  for (let i = kind ? 1 : 0; i < argv.length; i++) {
    const { name, value } = splitFlag(argv[i]);
    if (!argv[i].startsWith("--") || name !== "kind") words.push(argv[i]);
    else kind = value ?? argv[++i];
  }
  return kind === "sweep" ? words : null;
}

/** As with any other job: printed, or written, submitted, checked. */
export async function sweepAsJob(
  words: readonly string[],
  scheduler: Scheduler,
  check: (prepared: Prepared) => Promise<number>,
): Promise<number> {
  const { name, random, metric, jobs } = SWEEP_OPTIONS;
  const options = { name, random, metric, jobs };
  const usage = `hpctrain ${scheduler.command} --kind sweep --lr 1e-4,3e-4 [FLAGS]`;
  const { job, rest } = jobsOwn(words, scheduler);
  const { own, rest: axes } = ownWords(rest, options);
  const asked = parseOptions(own, options, usage).options;
  const typed = ["hpctrain", scheduler.command, "--kind", "sweep", ...words];
  const { sweep, folder, todo, fixed, made, said } = planSweep(axes, asked, typed, usage);
  const { pbs, how, output } = ending(job, scheduler);
  const array = { sweep, folder, todo, words: [...job, ...fixed], typed, pbs, jobs: asked.jobs };
  if (how === "dry-run") {
    console.log(said);
    return todo.length === 0 ? EXIT.done : await check(prepareArray(array, scheduler));
  }
  if (made) writeSweep(folder, sweep);
  (how === "print" ? console.error : console.log)(said);
  if (todo.length === 0) return how === "print" ? EXIT.done : tellEnd(sweep, folder);
  if (how !== "print") return await asArray({ ...array, how, output });
  const { script, job: { logs } } = prepareArray(array, scheduler);
  makeFolder(`${logs}/${scheduler.folder}`); // it may be submitted from here, and sbatch makes none
  console.log(script.trimEnd());
  return EXIT.done;
}

/** The scheduler's options, and their values, apart from what a sweep is made of. */
function jobsOwn(words: readonly string[], { options, untouched, short }: Scheduler) {
  const job: string[] = [], rest: string[] = [];
  const raw = [untouched, "env", "setup"];
  for (let i = 0; i < words.length; i++) {
    const word = Object.hasOwn(short, words[i]) ? `--${short[words[i]]}` : words[i];
    const { name, value } = splitFlag(word);
    if (!word.startsWith("--") || !Object.hasOwn(options, name)) {
      rest.push(word);
      continue;
    }
    job.push(word);
    const takes = options[name].kind === "text" && value === undefined && i + 1 < words.length;
    if (takes && (raw.includes(name) || !looksLikeFlag(words[i + 1]))) job.push(words[++i]);
  }
  return { job, rest };
}

type How = "print" | "write" | "submit" | "dry-run";

function ending(job: readonly string[], { name }: Scheduler): { pbs: boolean; how: How; output?: string } {
  const at = job.findLastIndex((word) => /^--output(=|$)/.test(word));
  const output = at < 0 ? undefined : splitFlag(job[at]).value ?? job[at + 1];
  if (at >= 0 && output === undefined) throw new UserError("usage", "--output needs FILE.");
  const how = job.includes("--dry-run")
    ? "dry-run"
    : job.includes("--submit")
    ? "submit"
    : output
    ? "write"
    : "print";
  return { pbs: name === "pbs", how, output };
}
