// `hpctrain sbatch` and `hpctrain qsub`: a job script, printed, written, checked or submitted.
import { missingData } from "../../core/train/checks.ts";
import { arithmetic, planJob } from "../../core/cluster/script/plan.ts";
import { makeOutputFolder, writeScript } from "../../core/cluster/jobs.ts";
import { errBeside, type ScriptJob, slug } from "../../core/cluster/script/job.ts";
import { COMMANDS, type SchedulerName, schedulerNamed } from "../../core/cluster/script/scheduler.ts";
import { programAsCalled, quote, thisProgram } from "../../core/base/shell.ts";
import {
  type JobOptions,
  readJobOptions,
  UNTOUCHED,
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
import { join, resolve as resolvePath } from "../../deps/path.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { siteLines } from "../../core/cluster/script/site.ts";
import type { Site } from "../../core/settings/sites.ts";
import { loadCommand } from "../mod.ts";
import { JOB_OPTIONS, PLAN_OPTIONS } from "../options.ts";
import { formatPlural } from "../../core/base/format.ts";
import { type Sweep, writeSweep } from "../../core/cluster/sweep/runs.ts";
import { runCount } from "../../core/cluster/sweep/search.ts";
import { isSearch } from "../../core/cluster/sweep/trials.ts";
import { planSweep, printSweepEnd } from "./sweep_plan.ts";

/** The exit code. */
export async function makeJob(name: SchedulerName, given: string[]): Promise<number> {
  const argv = withoutScheduler(given, name);
  const sweep = sweepArguments(argv);
  if (sweep !== null) return await sweepAsJob(sweep, name);
  const prepared = await prepareJob(argv, name), scheduler = await schedulerNamed(name);
  for (const line of prepared.notes) console.error(line);
  const { typed: { own }, job, script } = prepared;
  const isAsked = own.submit !== undefined || own["dry-run"] !== undefined;
  const unnamed = prepared.site === null ? await scheduler.hint(Deno.env.toObject(), isAsked) : [];
  for (const line of unnamed) console.error(line);
  const folder = `${job.logs}/${name}`;
  scheduler.checkFolder(resolvePath(job.logs));
  if (own["dry-run"]) return await tryOut(prepared, name);
  if (own.submit) {
    const path = deliverScript(prepared, folder);
    printArithmetic(prepared, console.error); // a script reads the number
    const id = await submitScript(name, job, path);
    const output = scheduler.output(job, id);
    const files = [output, ...(job.errFile ? [errBeside(output)] : [])];
    const next = linesOfNextCommands([
      [`${scheduler.queue} ${id}`, "its place in the queue"],
      [`${programAsCalled()} status ${id}`, "how far it is"],
      [`tail -F ${files.map(quote).join(" ")}`, "what it prints"],
      [`${scheduler.cancel} ${id}`, "ends it"],
    ]);
    console.log(`Submitted job ${id} (${path}).\n${next}`);
  } else if (own.output) {
    const path = deliverScript(prepared, folder);
    const next = linesOfNextCommands([[`${COMMANDS[name]} ${quote(path)}`, "submits it"]]);
    console.log(`Wrote ${path}.\n${next}`);
  } else {
    if (scheduler.needsFolder) makeOutputFolder(folder); // it may be submitted from here
    console.log(script.trimEnd());
  }
  return EXIT.done;
}

/** The words of a sweep, where `sbatch` or `qsub` is asked for one (`sbatch sweep ...`, `--kind sweep`); else null. */
function sweepArguments(argv: readonly string[]): string[] | null {
  const words: string[] = [];
  let kind: string | undefined = argv[0] === "sweep" ? "sweep" : undefined;
  for (let i = kind ? 1 : 0; i < argv.length; i++) {
    const { name, value } = splitFlag(argv[i]);
    if (!argv[i].startsWith("--") || name !== "kind") words.push(argv[i]);
    else kind = value ?? argv[++i];
  }
  return kind === "sweep" ? words : null;
}

export async function tryOut(prepared: PreparedJob, name: SchedulerName): Promise<number> {
  printArithmetic(prepared);
  console.log(await (await schedulerNamed(name)).tryOut(prepared.job, prepared.script));
  return EXIT.done;
}

const usageOf = (name: SchedulerName): string =>
  `hpctrain ${COMMANDS[name]} [COMMAND] [FLAGS] [--dry-run | --submit] [--output FILE]`;

interface PreparedJob {
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
  name: SchedulerName,
  around: { env: Record<string, string>; program: string[] } = {
    env: Deno.env.toObject(),
    program: thisProgram(),
  },
): Promise<PreparedJob> {
  const { short, render } = await schedulerNamed(name);
  const usage = usageOf(name);
  const typed = readJobOptions(argv, JOB_OPTIONS[name], { usage, short });
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
    planJob({ resolved, options: typed, argv, program, env, scheduler: name });
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
function deliverScript(
  { job, script, typed }: PreparedJob,
  folder: string,
): string {
  const path = typed.own.output?.at(-1) ?? `${folder}/${slug(job.name)}.sh`;
  makeOutputFolder(folder);
  for (const line of writeScript(path, script)) console.error(line);
  return path;
}

/** The number of the job. */
async function submitScript(name: SchedulerName, job: ScriptJob, path: string): Promise<string> {
  const unset = job.site.passed.find((name) => Deno.env.get(name) === undefined);
  if (unset !== undefined) {
    throw new UserError(
      "usage",
      `--env ${unset} hands ${unset} of this shell on to the job, and it is not set here: export it first.`,
    );
  }
  return await (await schedulerNamed(name)).submit(job, path);
}

function printArithmetic(
  { job, trains }: PreparedJob,
  print: (line: string) => void = console.log,
): void {
  for (const line of arithmetic(job, trains)) print(line);
  for (const line of trains ? missingData(trains) : []) print(`${line} The job needs it where it runs.`);
}

/** The lines that tell what to type next, in two columns. */
function linesOfNextCommands(lines: readonly (readonly [command: string, what: string])[]): string {
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
  readonly scheduler: SchedulerName;
  /** Runs at the same time. */
  readonly jobs: string | undefined;
}

/** The script of the array, which looks its runs up in the sweep's folder. */
async function prepareArray(
  { sweep, folder, remaining, words, typed, scheduler, jobs }: ArrayRequest,
): Promise<PreparedJob> {
  const prepared = await prepareJob(words, scheduler);
  if (prepared.job.layout.tasks === "per-node") {
    throw new UserError(
      "usage",
      "The ranks of a sweep are started one by one: leave --layout task-per-node out.",
    );
  }
  const { index: indexOf, render } = await schedulerNamed(scheduler), index = indexOf(prepared.job);
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
  return { ...prepared, job, script: render(job) };
}

/** Lines about a run's own environment would be the same for all. */
const arraysNotes = ({ notes, site }: PreparedJob): readonly string[] => site === null ? [] : notes;

export async function asArray(
  request: ArrayRequest & { readonly how: "write" | "submit"; readonly output?: string },
): Promise<number> {
  const { folder, remaining, scheduler, how, output } = request;
  const prepared = await prepareArray(request);
  for (const line of arraysNotes(prepared)) console.error(line);
  const { job, script } = prepared;
  const path = output ?? join(folder, scheduler === "pbs" ? "sweep.pbs" : "sweep.sh");
  makeOutputFolder(`${job.logs}/${scheduler}`);
  for (const line of writeScript(path, script)) console.log(line);
  const many = `a job array of ${formatPlural(remaining.length, "run")}`;
  const status: [string, string] = [`hpctrain sweep status ${quote(folder)}`, "how the runs stand"];
  if (how === "write") {
    const submits: [string, string] = [`${COMMANDS[scheduler]} ${quote(path)}`, "submits it"];
    console.log(`Wrote ${path}: ${many}.\n${linesOfNextCommands([submits, status])}`);
    return EXIT.done;
  }
  const id = await submitScript(scheduler, job, path);
  const { cancel } = await schedulerNamed(scheduler);
  const ends: [string, string] = [`${cancel} ${quote(id)}`, "ends all of them"];
  console.log(`Submitted job ${id}: ${many} (${path}).\n${linesOfNextCommands([status, ends])}`);
  return EXIT.done;
}

/** As with any other job: printed, or written, submitted, checked. */
async function sweepAsJob(
  words: readonly string[],
  scheduler: SchedulerName,
): Promise<number> {
  const usage = `hpctrain ${COMMANDS[scheduler]} --kind sweep --lr 1e-4,3e-4 [FLAGS]`;
  const { job, rest } = await jobsOwn(words, scheduler);
  const { own, rest: axes } = splitOwnOptions(rest, PLAN_OPTIONS);
  const request = parseOptions(own, PLAN_OPTIONS, usage).options;
  const typed = ["hpctrain", COMMANDS[scheduler], "--kind", "sweep", ...words];
  const { sweep, folder, remaining, fixed, jobs, changed, summary: notes } = planSweep(
    axes,
    request,
    typed,
    usage,
  );
  const { how, output } = ending(job);
  const array = {
    sweep,
    folder,
    remaining,
    words: [...job, ...fixed],
    typed,
    scheduler,
    jobs,
  };
  if (how === "dry-run") {
    console.log(notes);
    return remaining.length === 0 ? EXIT.done : await tryOut(await prepareArray(array), scheduler);
  }
  if (changed) writeSweep(folder, sweep);
  (how === "print" ? console.error : console.log)(notes);
  if (remaining.length === 0) return how === "print" ? EXIT.done : printSweepEnd(sweep, folder);
  if (how !== "print") return await asArray({ ...array, how, output });
  const prepared = await prepareArray(array);
  for (const line of arraysNotes(prepared)) console.error(line);
  const { script, job: { logs } } = prepared;
  makeOutputFolder(`${logs}/${scheduler}`); // it may be submitted from here, and sbatch makes none
  console.log(script.trimEnd());
  return EXIT.done;
}

/** The scheduler's options, and their values, apart from what a sweep is made of. */
async function jobsOwn(words: readonly string[], scheduler: SchedulerName) {
  const { short } = await schedulerNamed(scheduler);
  const options: Readonly<Record<string, OptionSpec>> = JOB_OPTIONS[scheduler];
  const job: string[] = [], rest: string[] = [];
  for (let i = 0; i < words.length; i++) {
    const word = Object.hasOwn(short, words[i]) ? `--${short[words[i]]}` : words[i];
    const { name, value } = splitFlag(word);
    if (!word.startsWith("--") || !Object.hasOwn(options, name)) {
      rest.push(word);
      continue;
    }
    job.push(word);
    const takes = options[name].kind === "text" && value === undefined && i + 1 < words.length;
    if (takes && (UNTOUCHED.includes(name) || !looksLikeFlag(words[i + 1]))) job.push(words[++i]);
  }
  return { job, rest };
}

type How = "print" | "write" | "submit" | "dry-run";

function ending(job: readonly string[]): { how: How; output?: string } {
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
  return { how, output };
}
