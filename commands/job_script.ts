// What `sbatch` and `qsub` have in common: words -> job -> script, and where it goes. May import core.
import { arithmetic } from "../core/cluster/script/check.ts";
import { makeFolder, writeScript } from "../core/cluster/script/deliver.ts";
import { type Job, slug } from "../core/cluster/script/job.ts";
import { planJob } from "../core/cluster/script/plan.ts";
import { thisProgram } from "../core/cluster/script/program.ts";
import { readTyped, type Typed } from "../core/cluster/script/typed.ts";
import { type OptionSpec, ownWords, parseOptions } from "../core/config/options.ts";
import { resolve, type Resolved } from "../core/config/resolve.ts";
import { variablesTold } from "../core/config/told.ts";
import { VERSION } from "../core/version.ts";
import { read as readGenerateData } from "./generate_data.ts";
import { BENCH_OPTIONS, DOCTOR_OPTIONS, PACK_OPTIONS } from "./options.ts";

export interface Scheduler {
  readonly name: "slurm" | "pbs";
  readonly command: "sbatch" | "qsub";
  readonly options: Readonly<Record<string, OptionSpec>>;
  /** The option whose values go to the scheduler untouched. */
  readonly untouched: string;
  readonly short: Readonly<Record<string, string>>;
  readonly usage: string;
  readonly render: (job: Job) => string;
  /** Below the logs. */
  readonly folder: string;
}

export interface Prepared {
  readonly typed: Typed;
  readonly job: Job;
  readonly script: string;
  /** What is to be said of the environment. */
  readonly told: readonly string[];
  /** Settings of training; null where the job does another thing. */
  readonly trains: Resolved | null;
}

/** A function of what it is given; left out, `around` is this process. */
export function prepareJob(
  argv: readonly string[],
  scheduler: Scheduler,
  around: { env: Record<string, string>; program: string[] } = {
    env: Deno.env.toObject(),
    program: thisProgram(),
  },
): Prepared {
  const { name, command, options, untouched, short, usage, render } = scheduler;
  const raw = [untouched, "env", "setup"];
  const typed = readTyped(argv, options, { usage, raw, short });
  const { env, program } = around;
  const trains = typed.command === "train";
  refuseWords(typed, env);
  const ask = (ranks?: number) =>
    resolve({
      argv: [...typed.job, ...(typed.takesSettings ? typed.words : [])],
      env: typed.takesSettings ? env : withoutRun(env),
      ranks,
      usage,
      positionals: typed.command === "eval" ? 1 : 0,
    });
  const plan = (resolved: ReturnType<typeof ask>) =>
    planJob({
      resolved,
      command: typed.command,
      words: typed.words,
      typed: ["hpctrain", command, ...argv.filter((word) => !["--submit", "--dry-run"].includes(word))],
      program,
      version: VERSION,
      env,
      also: { args: typed.own[untouched], env: typed.own.env, setup: typed.own.setup },
      scheduler: name,
    });
  const { nodes, ranksPerNode } = plan(ask()).layout;
  const resolved = ask(nodes * ranksPerNode); // a preset's batch follows from the number of ranks
  const job = plan(resolved);
  const told = variablesTold(resolved);
  return { typed, job, script: render(job), told, trains: trains ? resolved : null };
}

/** Options beside the settings, and how many words that are no flags, of commands that know the settings. */
const OTHERS: Readonly<Record<string, [Readonly<Record<string, OptionSpec>>, number]>> = {
  pack: [PACK_OPTIONS, 2],
  bench: [BENCH_OPTIONS, 1],
  doctor: [DOCTOR_OPTIONS, 0],
};

/** What the command itself would refuse is refused now, and not when the job has waited for its turn. */
function refuseWords({ command, words, job }: Typed, env: Record<string, string>): void {
  if (command === "generate-data") return void readGenerateData(words, false);
  if (!Object.hasOwn(OTHERS, command)) return;
  const [options, positionals] = OTHERS[command], usage = `hpctrain ${command}`;
  const { own, rest } = ownWords(words, options);
  parseOptions(own, options, `${usage} --help lists its flags.`);
  resolve({ argv: [...job, ...rest], env: withoutRun(env), positionals, usage });
}

/** What a run of another command would not read. */
function withoutRun(env: Record<string, string>): Record<string, string> {
  const { HPCTRAIN_PRESET: _preset, ...rest } = env;
  return rest;
}

/** A file of the user's own name, or one beside the output; the folder for that is made too. */
export function placeScript(
  { job, script, typed }: Prepared,
  folder: string,
): { path: string; said: string[] } {
  const path = typed.own.output?.at(-1) ?? `${folder}/${slug(job.name)}.sh`;
  makeFolder(folder);
  return { path, said: writeScript(path, script) };
}

export function sayArithmetic({ job, trains }: Prepared): void {
  for (const line of arithmetic(job, trains)) console.log(line);
}

/** The lines that tell what to type next, in two columns. */
export function next(lines: readonly (readonly [command: string, what: string])[]): string {
  const width = Math.max(...lines.map(([command]) => command.length));
  return lines.map(([command, what]) => `  ${command.padEnd(width)}  ${what}`).join("\n");
}
