// `hpctrain sbatch`: a job script for SLURM, printed, checked or submitted; and what it shares with qsub and with a
// sweep that is one job array.
import { missingData } from "../../core/train/checks.ts";
import { arithmetic, planJob, requestSentence } from "../../core/cluster/script/plan.ts";
import { makeOutputFolder, runSubmit, submit, submitRefused, writeScript } from "../../core/cluster/jobs.ts";
import { type ScriptJob, slug } from "../../core/cluster/script/job.ts";
import { programAsCalled, quote, thisProgram } from "../../core/base/shell.ts";
import {
  type JobOptions,
  readJobOptions,
  SHORT,
  withoutScheduler,
} from "../../core/cluster/script/options.ts";
import {
  looksLikeFlag,
  type OptionSpec,
  parseOptions,
  splitFlag,
  splitOwnOptions,
} from "../../core/settings/options.ts";
import { type Resolved, resolveSettings } from "../../core/settings/resolve.ts";
import { environmentLines } from "../../core/settings/environment.ts";
import { VERSION } from "../../core/base/version.ts";
import { join, resolve as resolvePath } from "../../deps/path.ts";
import { type Sweep, writeSweep } from "../../core/cluster/sweep/runs.ts";
import { isSearch } from "../../core/cluster/sweep/trials.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatPlural } from "../../core/base/format.ts";
import { planSweep, printSweepEnd } from "./sweep.ts";
import { runCount } from "../../core/cluster/sweep/search.ts";
import { PLAN_OPTIONS } from "../sweep.ts";
import { errBeside, exported, refuseFolder, renderSlurm } from "../../core/cluster/script/slurm.ts";
import { siteHint, siteLines } from "../../core/cluster/script/site.ts";
import type { Site } from "../../core/settings/sites.ts";
import { loadCommand } from "../mod.ts";
import { command, OPTIONS } from "../sbatch.ts";

// `sbatch` and `qsub` share the way from words to a job, its script and the file that holds it.

export interface Scheduler {
  readonly name: "slurm" | "pbs";
  readonly command: "sbatch" | "qsub";
  readonly options: Readonly<Record<string, OptionSpec>>;
  /** The option whose values go to the scheduler untouched. */
  readonly untouched: string;
  readonly short: Readonly<Record<string, string>>;
  readonly usage: string;
  readonly render: (job: ScriptJob) => string;
  /** Below the logs. */
  readonly folder: string;
}

export interface PreparedJob {
  readonly typed: JobOptions;
  readonly job: ScriptJob;
  readonly script: string;
  /** Lines about the environment's settings. */
  readonly notes: readonly string[];
  readonly site: Site | null;
  /** Settings of training; null where the job does another thing. */
  readonly trains: Resolved | null;
}

/** A function of what it is given; left out, `around` is this process. */
export async function prepareJob(
  argv: readonly string[],
  scheduler: Scheduler,
  around: { env: Record<string, string>; program: string[] } = {
    env: Deno.env.toObject(),
    program: thisProgram(),
  },
): Promise<PreparedJob> {
  const { name, command, options, untouched, short, usage, render } = scheduler;
  const raw = [untouched, "srun-arg", "env", "setup"];
  const typed = readJobOptions(argv, options, { usage, raw, short });
  const { env, program } = around;
  const trains = typed.command === "train";
  await refuseWords(typed, env);
  const ask = (ranks?: number) =>
    resolveSettings({
      argv: [...typed.job, ...(typed.takesSettings ? typed.words : [])],
      env: typed.takesSettings ? env : withoutRun(env),
      ranks,
      usage,
      positionals: typed.command === "eval" ? 1 : 0,
      job: { command: typed.command },
    });
  const plan = (resolved: ReturnType<typeof ask>) =>
    planJob({
      resolved,
      command: typed.command,
      words: typed.words,
      jobFlags: [
        ...typed.job,
        ...raw.flatMap((name) => (typed.own[name] ?? []).map((value) => `--${name}=${value}`)),
      ],
      typed: ["hpctrain", command, ...argv.filter((word) => !["--submit", "--dry-run"].includes(word))],
      program,
      version: VERSION,
      env,
      also: {
        args: typed.own[untouched],
        srun: typed.own["srun-arg"],
        env: typed.own.env,
        setup: typed.own.setup,
      },
      scheduler: name,
    });
  const { nodes, ranksPerNode } = plan(ask()).layout;
  const resolved = ask(nodes * ranksPerNode); // a preset's batch follows from the number of ranks
  const job = plan(resolved);
  const notes = [...environmentLines(resolved), ...siteLines(resolved, typed.command, name)];
  const { site } = resolved;
  return { typed, job, script: render(job), notes, site, trains: trains ? resolved : null };
}

/** Refuses now what the command itself would refuse when the job has waited for its turn. */
async function refuseWords({ command, words, job }: JobOptions, env: Record<string, string>): Promise<void> {
  if (command === "generate-data") return void (await import("./generate_data.ts")).read(words, false);
  if (!["pack", "bench", "doctor"].includes(command)) return;
  const { options = {}, positionals } = await loadCommand(command), usage = `hpctrain ${command}`;
  const { own, rest } = splitOwnOptions(words, options);
  parseOptions(own, options, `${usage} --help lists its flags.`);
  resolveSettings({ argv: [...job, ...rest], env: withoutRun(env), positionals, usage });
}

/** Leaves out what a run of another command would not read. */
function withoutRun(env: Record<string, string>): Record<string, string> {
  const { HPCTRAIN_PRESET: _preset, ...rest } = env;
  return rest;
}

/** A file of the user's own name, or one beside the output; the folder for that is made too. */
export function deliverScript(
  { job, script, typed }: PreparedJob,
  folder: string,
): { path: string; notes: string[] } {
  const path = typed.own.output?.at(-1) ?? `${folder}/${slug(job.name)}.sh`;
  makeOutputFolder(folder);
  return { path, notes: writeScript(path, script) };
}

/** The number of the job. */
export async function submitScript(
  { name, command }: Scheduler,
  job: ScriptJob,
  path: string,
): Promise<string> {
  const { site: { passed } } = job, request = requestSentence(job);
  const unset = passed.find((name) => Deno.env.get(name) === undefined);
  if (unset !== undefined) {
    throw new UserError(
      "usage",
      `--env ${unset} hands ${unset} of this shell on to the job, and it is not set here: export it first.`,
    );
  }
  if (name === "pbs") return await submit(command, [], path, request);
  const around = Deno.env.get("SBATCH_EXPORT"); // it counts more than the script's own line
  const also = around && passed.length > 0 ? [`--export=${exported(around, passed)}`] : [];
  return (await submit(command, ["--parsable", ...also], path, request)).split(";")[0];
}

export function printArithmetic(
  { job, trains }: PreparedJob,
  print: (line: string) => void = console.log,
): void {
  for (const line of arithmetic(job, trains)) print(line);
  for (const line of trains ? missingData(trains) : []) print(`${line} The job needs it where it runs.`);
}

/** The lines that tell what to type next, in two columns. */
export function linesOfNextCommands(lines: readonly (readonly [command: string, what: string])[]): string {
  const width = Math.max(...lines.map(([command]) => command.length));
  return lines.map(([command, what]) => `  ${command.padEnd(width)}  ${what}`).join("\n");
}

// A sweep as one job array: `sweep` writes or submits it, and `sbatch --kind sweep` prints it too, as it does with
// other jobs.

interface ArrayRequest {
  readonly sweep: Sweep;
  readonly folder: string;
  /** Numbers of the runs that are not done. */
  readonly remaining: readonly number[];
  /** Flags that all runs have, and the job's. */
  readonly words: readonly string[];
  /** The whole command line. */
  readonly typed: readonly string[];
  readonly pbs: boolean;
  /** Runs at the same time. */
  readonly jobs: string | undefined;
}

/** The script of the array, which looks its runs up in the sweep's folder. */
async function prepareArray(
  { sweep, folder, remaining, words, typed, pbs, jobs }: ArrayRequest,
  scheduler: Scheduler,
): Promise<PreparedJob> {
  const prepared = await prepareJob(words, scheduler);
  if (prepared.job.layout.tasks === "per-node") {
    throw new UserError(
      "usage",
      "The ranks of a sweep are started one by one: leave --layout task-per-node out.",
    );
  }
  const torque = prepared.job.site.pbs.dialect === "torque";
  const index = pbs ? torque ? "PBS_ARRAYID" : "PBS_ARRAY_INDEX" : "SLURM_ARRAY_TASK_ID";
  const array = remaining.length > 1; // PBS knows no array of one
  const whichRun = isSearch(sweep)
    ? "next"
    : !array
    ? String(remaining[0])
    : remaining.length === sweep.runs.length
    ? { shell: `"$${index}"` }
    : { shell: `"$(cut -d ' ' -f $((${index} + 1)) <<<'${remaining.join(" ")}')"` };
  const atOnce = jobs === undefined ? undefined : runCount("parallel", jobs);
  const job = {
    ...prepared.job,
    made: {
      ...prepared.job.made,
      command: typed.filter((word) => !["--submit", "--dry-run"].includes(word)),
    },
    name: sweep.name,
    words: ["sweep", "run", folder, whichRun],
    overrides: [], // what is in the environment would be the same for all
    ...(array ? { array: { last: remaining.length - 1, atOnce } } : {}),
  };
  return { ...prepared, job, script: scheduler.render(job) };
}

/** Lines about a run's own environment would be the same for all. */
const arraysNotes = ({ notes, site }: PreparedJob): readonly string[] => site === null ? [] : notes;

const schedulerOf = async (pbs: boolean): Promise<Scheduler> => pbs ? (await import("./qsub.ts")).PBS : SLURM;

export async function asArray(
  request: ArrayRequest & { readonly how: "write" | "submit"; readonly output?: string },
): Promise<number> {
  const { folder, remaining, pbs, how, output } = request;
  const scheduler = await schedulerOf(pbs);
  const prepared = await prepareArray(request, scheduler);
  for (const line of arraysNotes(prepared)) console.error(line);
  const { job, script } = prepared;
  const path = output ?? join(folder, pbs ? "sweep.pbs" : "sweep.sh");
  makeOutputFolder(`${job.logs}/${scheduler.folder}`);
  for (const line of writeScript(path, script)) console.log(line);
  const many = `a job array of ${formatPlural(remaining.length, "run")}`;
  const status: [string, string] = [`hpctrain sweep status ${quote(folder)}`, "how the runs stand"];
  if (how === "write") {
    const submits: [string, string] = [`${scheduler.command} ${quote(path)}`, "submits it"];
    console.log(`Wrote ${path}: ${many}.\n${linesOfNextCommands([submits, status])}`);
    return EXIT.done;
  }
  const id = await submitScript(scheduler, job, path);
  const ends: [string, string] = [pbs ? `qdel ${quote(id)}` : `scancel ${id}`, "ends all of them"];
  console.log(`Submitted job ${id}: ${many} (${path}).\n${linesOfNextCommands([status, ends])}`);
  return EXIT.done;
}

/** The words of a sweep, where `sbatch` or `qsub` is asked for one (`sbatch sweep ...`, `--kind sweep`); else null. */
export function sweepArguments(argv: readonly string[]): string[] | null {
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
  check: (prepared: PreparedJob) => Promise<number>,
): Promise<number> {
  const usage = `hpctrain ${scheduler.command} --kind sweep --lr 1e-4,3e-4 [FLAGS]`;
  const { job, rest } = jobsOwn(words, scheduler);
  const { own, rest: axes } = splitOwnOptions(rest, PLAN_OPTIONS);
  const request = parseOptions(own, PLAN_OPTIONS, usage).options;
  const typed = ["hpctrain", scheduler.command, "--kind", "sweep", ...words];
  const { sweep, folder, remaining, fixed, jobs, changed, summary: notes } = planSweep(
    axes,
    request,
    typed,
    usage,
  );
  const { pbs, how, output } = ending(job, scheduler);
  const array = {
    sweep,
    folder,
    remaining,
    words: [...job, ...fixed],
    typed,
    pbs,
    jobs,
  };
  if (how === "dry-run") {
    console.log(notes);
    return remaining.length === 0 ? EXIT.done : await check(await prepareArray(array, scheduler));
  }
  if (changed) writeSweep(folder, sweep);
  (how === "print" ? console.error : console.log)(notes);
  if (remaining.length === 0) return how === "print" ? EXIT.done : printSweepEnd(sweep, folder);
  if (how !== "print") return await asArray({ ...array, how, output });
  const prepared = await prepareArray(array, scheduler);
  for (const line of arraysNotes(prepared)) console.error(line);
  const { script, job: { logs } } = prepared;
  makeOutputFolder(`${logs}/${scheduler.folder}`); // it may be submitted from here, and sbatch makes none
  console.log(script.trimEnd());
  return EXIT.done;
}

/** The scheduler's options, and their values, apart from what a sweep is made of. */
function jobsOwn(words: readonly string[], { options, untouched, short }: Scheduler) {
  const job: string[] = [], rest: string[] = [];
  const raw = [untouched, "srun-arg", "env", "setup"];
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

// `hpctrain sbatch`: a job script for SLURM, printed, written, checked or submitted.

export const SLURM: Scheduler = {
  name: "slurm",
  command: "sbatch",
  options: OPTIONS,
  untouched: "sbatch-arg",
  short: SHORT,
  usage: command.usage,
  render: renderSlurm,
  folder: "slurm",
};

/** The exit code. */
export async function sbatch(given: string[]): Promise<number> {
  const argv = withoutScheduler(given, SLURM.name);
  const sweep = sweepArguments(argv);
  if (sweep !== null) return await sweepAsJob(sweep, SLURM, dryRun);
  const prepared = await prepareJob(argv, SLURM);
  for (const line of prepared.notes) console.error(line);
  const { typed: { own }, job, script } = prepared;
  const unnamed = prepared.site === null ? await siteHint(Deno.env.toObject(), asksSlurm(own)) : [];
  for (const line of unnamed) console.error(line);
  const folder = `${job.logs}/${SLURM.folder}`;
  refuseFolder(resolvePath(job.logs));
  if (own["dry-run"]) return await dryRun(prepared);
  if (own.submit) {
    const { path, notes } = deliverScript(prepared, folder);
    for (const line of notes) console.error(line);
    printArithmetic(prepared, console.error); // a script reads the number
    const id = await submitScript(SLURM, job, path);
    console.log(`Submitted job ${id} (${path}).\n${linesOfNextCommands(whatNext(id, job))}`);
  } else if (own.output) {
    const { path, notes } = deliverScript(prepared, folder);
    for (const line of notes) console.error(line);
    console.log(`Wrote ${path}.\n${linesOfNextCommands([[`sbatch ${quote(path)}`, "submits it"]])}`);
  } else {
    makeOutputFolder(folder); // it may be submitted from here, and sbatch makes none
    console.log(script.trimEnd());
  }
  return EXIT.done;
}

const asksSlurm = (own: JobOptions["own"]): boolean =>
  own.submit !== undefined || own["dry-run"] !== undefined;

async function dryRun(prepared: PreparedJob): Promise<number> {
  printArithmetic(prepared);
  const file = Deno.makeTempFileSync({ prefix: "hpctrain-", suffix: ".sh" });
  try {
    Deno.writeTextFileSync(file, prepared.script);
    const answer = await runSubmit("sbatch", ["--test-only", file]);
    if (answer && answer.code !== 0) {
      const printed = "what `hpctrain sbatch` prints without --dry-run";
      throw submitRefused("sbatch", answer, printed, requestSentence(prepared.job));
    }
    console.log(
      answer ? `SLURM: ${answer.stderr || answer.stdout}` : "SLURM: not asked, there is no sbatch in PATH",
    );
  } finally {
    Deno.removeSync(file);
  }
  return EXIT.done;
}

function whatNext(id: string, job: ScriptJob): [string, string][] {
  const output = `${job.logs}/slurm/${slug(job.name)}_${id}.out`;
  return [
    [`squeue -j ${id}`, "its place in the queue"],
    [`${programAsCalled()} status ${id}`, "how far it is"],
    [
      `tail -F ${[output, ...(job.errFile ? [errBeside(output)] : [])].map(quote).join(" ")}`,
      "what it prints",
    ],
    [`scancel ${id}`, "ends it"],
  ];
}
