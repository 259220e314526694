// A sweep as one job array: `sweep` writes or submits it, and `sbatch --kind sweep` prints it too, as it does with
// other jobs.
import { join } from "../../deps/path.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatPlural } from "../../core/base/format.ts";
import { quote } from "../../core/base/shell.ts";
import { makeOutputFolder, writeScript } from "../../core/cluster/jobs.ts";
import { COMMANDS, type SchedulerName, schedulerNamed } from "../../core/cluster/script/scheduler.ts";
import { type Sweep, writeSweep } from "../../core/cluster/sweep/runs.ts";
import { runCount } from "../../core/cluster/sweep/search.ts";
import { isSearch } from "../../core/cluster/sweep/trials.ts";
import {
  looksLikeFlag,
  type OptionSpec,
  parseOptions,
  splitFlag,
  splitOwnOptions,
} from "../../core/settings/options.ts";
import { JOB_OPTIONS, PLAN_OPTIONS } from "../options.ts";
import { linesOfNextCommands, type PreparedJob, prepareJob, submitScript, tryOut, UNTOUCHED } from "./job.ts";
import { planSweep, printSweepEnd } from "./sweep_plan.ts";

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
export async function sweepAsJob(
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
