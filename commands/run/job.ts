// `hpctrain sbatch` and `hpctrain qsub`: a job script, printed, written, checked or submitted.
import { missingData } from "../../core/train/checks.ts";
import { arithmetic, planJob } from "../../core/cluster/script/plan.ts";
import { makeOutputFolder, writeScript } from "../../core/cluster/jobs.ts";
import { errBeside, type ScriptJob, slug } from "../../core/cluster/script/job.ts";
import { COMMANDS, type SchedulerName, schedulerNamed } from "../../core/cluster/script/scheduler.ts";
import { programAsCalled, quote, thisProgram } from "../../core/base/shell.ts";
import { type JobOptions, readJobOptions, withoutScheduler } from "../../core/cluster/script/options.ts";
import { parseOptions, splitFlag, splitOwnOptions } from "../../core/settings/options.ts";
import { type Resolved, resolveSettings } from "../../core/settings/resolve.ts";
import { environmentLines } from "../../core/settings/environment.ts";
import { VERSION } from "../../core/base/version.ts";
import { resolve as resolvePath } from "../../deps/path.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { siteLines } from "../../core/cluster/script/site.ts";
import type { Site } from "../../core/settings/sites.ts";
import { loadCommand } from "../mod.ts";
import { JOB_OPTIONS } from "../options.ts";

/** The exit code. */
export async function makeJob(name: SchedulerName, given: string[]): Promise<number> {
  const argv = withoutScheduler(given, name);
  const sweep = sweepArguments(argv);
  if (sweep !== null) return await (await import("./job_array.ts")).sweepAsJob(sweep, name);
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

export const usageOf = (name: SchedulerName): string =>
  `hpctrain ${COMMANDS[name]} [COMMAND] [FLAGS] [--dry-run | --submit] [--output FILE]`;

/** Values of these options may begin with a dash. */
export const UNTOUCHED = [
  ...Object.values(COMMANDS).map((command) => `${command}-arg`),
  "srun-arg",
  "env",
  "setup",
];

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
  name: SchedulerName,
  around: { env: Record<string, string>; program: string[] } = {
    env: Deno.env.toObject(),
    program: thisProgram(),
  },
): Promise<PreparedJob> {
  const { short, render } = await schedulerNamed(name);
  const submitted = COMMANDS[name], usage = usageOf(name);
  const typed = readJobOptions(argv, JOB_OPTIONS[name], { usage, raw: UNTOUCHED, short });
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
        ...UNTOUCHED.flatMap((name) => (typed.own[name] ?? []).map((value) => `--${name}=${value}`)),
      ],
      typed: ["hpctrain", submitted, ...argv.filter((word) => !["--submit", "--dry-run"].includes(word))],
      program,
      version: VERSION,
      env,
      also: {
        args: typed.own[`${submitted}-arg`],
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
export async function submitScript(name: SchedulerName, job: ScriptJob, path: string): Promise<string> {
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
export function linesOfNextCommands(lines: readonly (readonly [command: string, what: string])[]): string {
  const width = Math.max(...lines.map(([command]) => command.length));
  return lines.map(([command, what]) => `  ${command.padEnd(width)}  ${what}`).join("\n");
}
