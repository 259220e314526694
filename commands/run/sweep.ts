// `hpctrain sweep`: one training for each combination of values, or for those that a search chooses, as one job array
// or on this machine; `sweep status`, `sweep best` and `sweep report` look at them, `sweep run` is what the jobs do.
import { join } from "../../deps/path.ts";
import { drawnPoints, grid, readAxes, runNames, type SweepRequest } from "../../core/cluster/sweep/axes.ts";
import {
  countsOf,
  findSweep,
  ranked,
  readSweep,
  type Sweep,
  sweepNames,
  type SweepRow,
  sweepRows,
  sweepTable,
  whyUnranked,
  writeSweep,
} from "../../core/cluster/sweep/runs.ts";
import { goalOf } from "../../core/cluster/sweep/metric.ts";
import { joinedSpace, readSearchFile, type SearchFile, spaceOfAxes } from "../../core/cluster/sweep/space.ts";
import { runCount, searchOf } from "../../core/cluster/sweep/search.ts";
import { hasOldRuns, isSearch } from "../../core/cluster/sweep/trials.ts";
import { commandWithoutSecrets } from "../../core/base/secrets.ts";
import { thisProgram } from "../../core/base/shell.ts";
import { didYouMean } from "../../core/base/suggest.ts";
import { looksLikeFlag, parseOptions, splitFlag, splitOwnOptions } from "../../core/settings/options.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { type Config, findSetting, FLAGS } from "../../core/settings/settings.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatPlural } from "../../core/base/format.ts";
import { pathExists } from "../../core/base/files.ts";
import { readEvents } from "../../core/run/event_log.ts";
import { VERSION } from "../../core/base/version.ts";
import { PLAN_OPTIONS, SWEEP_OPTIONS } from "../sweep.ts";

export const USAGE =
  "hpctrain sweep [FILE] --lr 1e-4,3e-4 [--set KEY=A,B] [--search KIND --max-runs N] [--local | --submit] | sweep status|best|report [NAME]";

type Own = ReturnType<typeof optionsOf>;

const optionsOf = (words: readonly string[]) => parseOptions(words, SWEEP_OPTIONS, USAGE).options;

export async function sweep(argv: string[]): Promise<number> {
  const [verb, ...words] = argv;
  if (verb === "run") return await runOne(words);
  const { own, rest } = splitOwnOptions(argv, SWEEP_OPTIONS);
  const options = optionsOf(own);
  if (verb === "status" || verb === "best" || verb === "report") {
    return await show(verb, rest.slice(1), options);
  }
  const planned = planSweep(rest, options, ["hpctrain", "sweep", ...argv], USAGE);
  const { sweep, folder, remaining, fixed } = planned;
  if (planned.changed) writeSweep(folder, sweep);
  console.log(planned.summary);
  if (remaining.length === 0) return printSweepEnd(sweep, folder);
  const { jobs } = planned;
  if (options.local) {
    return await locally(sweep, folder, remaining, jobs === undefined ? 1 : runCount("parallel", jobs));
  }
  const { asArray } = await import("./sbatch.ts");
  const { pbs, submit } = options;
  const typed = ["hpctrain", "sweep", ...argv];
  return await asArray({
    sweep,
    folder,
    remaining,
    words: fixed,
    typed,
    pbs,
    jobs,
    how: submit ? "submit" : "write",
  });
}

export interface PlannedSweep {
  readonly sweep: Sweep;
  readonly folder: string;
  /** Numbers of the runs that are not done. */
  readonly remaining: readonly number[];
  /** Flags that all runs have. */
  readonly fixed: readonly string[];
  /** Runs at the same time, as it was typed. */
  readonly jobs: string | undefined;
  /** It is new or has more runs, which is not noted yet. */
  readonly changed: boolean;
  readonly summary: string;
}

/** Plans the sweep of these words, or the one that they go on with. Writes nothing. */
export function planSweep(
  words: readonly string[],
  given: PlanOptions,
  typed: readonly string[],
  usage: string,
): PlannedSweep {
  const { file, rest } = searchFileIn(words, usage);
  const options = { ...file?.options, ...withoutUnset(given) };
  const axes = readAxes(rest, usage);
  if (axes.axes.length === 0 && !file?.space.length) {
    throw new UserError(
      "usage",
      "A sweep needs a setting with several values, such as --lr 1e-4,3e-4,1e-3 or --set model.hidden_size=64,128.",
    );
  }
  const { config } = resolveSettings({ argv: [...axes.fixed], env: Deno.env.toObject(), usage });
  const request = sweepOf(axes, options, typed, config, file);
  const { folder, sweep, made, changed } = place(request, config.output.save_dir, options.name);
  const settled = isSearch(sweep) ? ["done", "pruned", "failed"] : ["done"];
  const states = sweepRows(folder, sweep).map(({ state }) => state);
  const numbers = Array.from({ length: sweep.search?.maxRuns ?? states.length }, (_, i) => i);
  const remaining = numbers.filter((i) => !settled.includes(states[i]));
  const all = formatPlural(numbers.length, "run");
  const summary = `Sweep ${sweep.name} in ${folder}: ${
    made ? all : `${remaining.length} of ${all} not done yet`
  }`;
  return {
    sweep,
    folder,
    remaining,
    fixed: axes.fixed,
    jobs: options.jobs ?? options.parallel,
    changed,
    summary,
  };
}

/** A first word that is no flag is the file of a search. */
function searchFileIn(
  words: readonly string[],
  usage: string,
): { file: SearchFile | null; rest: readonly string[] } {
  const [first] = words;
  if (first === undefined || looksLikeFlag(first)) return { file: null, rest: words };
  if (!pathExists(first)) {
    const hint = didYouMean(first, ["status", "best", "report"]);
    throw new UserError("usage", `"${first}" is no file of a search and no flag.${hint} Usage: ${usage}`);
  }
  return { file: readSearchFile(first), rest: words.slice(1) };
}

const withoutUnset = (options: PlanOptions): Partial<PlanOptions> =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));

type PlanOptions = Pick<Own, keyof typeof PLAN_OPTIONS>;

function sweepOf(
  { fixed: typed, axes }: SweepRequest,
  options: Partial<PlanOptions>,
  command: readonly string[],
  { output, training }: Config,
  file: SearchFile | null,
): Sweep {
  const { random, search } = options, called = options.name ?? "sweep", metric = options.metric ?? "val_loss";
  if (!/^[\w][\w.+-]{0,60}$/.test(called)) {
    throw new UserError(
      "usage",
      `--name "${called}" should be of letters, digits, dots, dashes and underscores, at most 60.`,
    );
  }
  const seed = training.seed;
  const fixed = typed.filter((word) => !word.startsWith("--set=cluster.env=")); // the script has them, and others can't read it
  const about = {
    format: 1,
    version: VERSION,
    name: called,
    command: commandWithoutSecrets(command),
    saveDir: output.save_dir,
    metric,
  } as const;
  if (search !== undefined || file !== null) {
    if (random !== undefined) {
      throw new UserError(
        "usage",
        "--random N is short for a search: give --search random --max-runs N alone.",
      );
    }
    const space = joinedSpace(file?.space ?? [], spaceOfAxes(axes));
    const chosen = searchOf({ ...options, search: search ?? "grid" }, space, seed);
    return { ...about, runs: [], fixed, goal: goalOf(metric, options.goal), search: chosen };
  }
  refuseWithoutSearch(options);
  const points = random === undefined ? grid(axes) : drawnPoints(axes, runCount("random", random), seed);
  const names = runNames(called, axes, points);
  const runs = points.map((point, i) => ({
    run: names[i],
    words: [...fixed, ...axes.map(({ before }, k) => before + point[k])],
    values: Object.fromEntries(axes.map((axis, k) => [axis.name, point[k]])),
  }));
  const goal = options.goal === undefined ? {} : { goal: goalOf(metric, options.goal) };
  return { ...about, runs, ...goal };
}

function refuseWithoutSearch(options: Partial<PlanOptions>): void {
  const name = (["max-runs", "first-rung", "reduce"] as const).find((one) => options[one] !== undefined);
  if (name === undefined) return;
  throw new UserError("usage", `--${name} belongs to a search: add --search random, tpe or asha.`);
}

/** A longer time, another queue: the same runs all the same. */
const isOfTheJob = (word: string): boolean => {
  const { name, value = "" } = splitFlag(word);
  const path = name === "set" ? findSetting(value.split("=")[0])?.path : FLAGS.get(name)?.declared.path;
  return path?.startsWith("cluster.") ?? false;
};

/** The same runs under the same name are the same sweep, which goes on; others are another one. */
function place(made: Sweep, saveDir: string, request: string | undefined) {
  const sweeps = join(saveDir, "sweeps");
  const own = (words: readonly string[]) => words.filter((word) => !isOfTheJob(word));
  // More runs of a search are the same search.
  const trained = ({ runs, search, fixed = [], metric, goal }: Sweep) =>
    JSON.stringify(
      search ? [own(fixed), metric, goal, { ...search, maxRuns: 0 }] : runs.map(({ words }) => own(words)),
    );
  const same = (old: Sweep) => trained(old) === trained(made);
  for (let number = 1;; number++) {
    const name = number === 1 ? made.name : `${made.name}-${number}`;
    const folder = join(sweeps, name);
    const old = readSweep(folder);
    if (old && same(old)) {
      const maxRuns = made.search?.maxRuns, fixed = made.fixed;
      const sweep = old.search && maxRuns ? { ...old, fixed, search: { ...old.search, maxRuns } } : old;
      return { folder, sweep, made: false, changed: sweep !== old };
    }
    if (old && request !== undefined) {
      throw new UserError(
        "usage",
        `The sweep ${request} in ${folder} has other runs: choose another --name, or remove that folder.`,
      );
    }
    if (old || (made.search && hasOldRuns({ ...made, name }, request))) continue;
    const runs = made.runs.map((one) => ({ ...one, run: name + one.run.slice(made.name.length) }));
    return { folder, sweep: { ...made, name, runs }, made: true, changed: true };
  }
}

async function locally(
  sweep: Sweep,
  folder: string,
  remaining: readonly number[],
  atOnce: number,
): Promise<number> {
  if (isSearch(sweep)) return await (await import("./search.ts")).searchLocally(folder, sweep, atOnce);
  const { runLocally } = await import("../../core/cluster/sweep/local.ts");
  const program = thisProgram();
  let next = 0;
  const code = await runLocally(() => {
    const i = remaining[next++];
    if (i === undefined) return null;
    const command = [...program, "sweep", "run", folder, String(i)];
    return { run: sweep.runs[i].run, command, number: next, of: remaining.length };
  }, { atOnce, folder, say: (line) => console.log(line) });
  printSweepEnd(sweep, folder);
  return code;
}

export function printSweepEnd(sweep: Sweep, folder: string): number {
  const rows = sweepRows(folder, sweep), [best] = ranked(rows, sweep.metric, sweep.goal);
  if (best) console.log(`Best ${sweep.metric}: ${best.metric} of ${best.run}`);
  else if (whyUnranked(rows) !== null) console.log(whyUnranked(rows));
  console.log(`All of them: hpctrain sweep status ${folder}`);
  return EXIT.done;
}

/** `sweep run FOLDER NUMBER [FLAGS]`: one training, which goes on from its checkpoint where it has one. */
async function runOne([folder, number, ...more]: string[]): Promise<number> {
  const sweep = folder === undefined ? null : readSweep(folder);
  if (sweep && isSearch(sweep)) {
    return await (await import("./search.ts")).runTrial(folder, sweep, number, more);
  }
  const run = sweep?.runs[Number(number)];
  if (!sweep || !run) {
    const why = sweep ? `has runs 0 to ${sweep.runs.length - 1}` : "is no sweep: it has no sweep.json";
    throw new UserError(
      "usage",
      `${folder ?? "Nothing"} ${why}. Usage: hpctrain sweep run FOLDER NUMBER.`,
    );
  }
  const { runTrain } = await import("./train.ts");
  return await runTrain([...run.words, ...more, `--run-name=${run.run}`, "--resume=auto"]);
}

async function show(
  verb: "status" | "best" | "report",
  words: readonly string[],
  options: Own,
): Promise<number> {
  const { config, positionals } = resolveSettings({
    argv: [...words],
    env: Deno.env.toObject(),
    positionals: 1,
    usage: USAGE,
  });
  const sweeps = join(config.output.save_dir, "sweeps");
  const word = positionals[0] ?? onlyOne(sweeps);
  const { folder, sweep } = findSweep(word, sweeps);
  const metric = options.metric ?? sweep.metric;
  const goal = goalOf(metric, options.goal ?? (metric === sweep.metric ? sweep.goal : undefined));
  const rows = sweepRows(folder, sweep, metric);
  const best = ranked(rows, metric, goal);
  if (verb === "report") {
    const weights = best.length > 0 ? weightsOf(sweep, best[0].run) : null;
    const { writeSweepPage } = await import("./sweep_report.ts");
    return await writeSweepPage({ folder, sweep: { ...sweep, metric }, goal, rows, weights }, options.out);
  }
  const shown = verb === "best" ? best : rows;
  if (options.json) {
    console.log(JSON.stringify({ sweep: sweep.name, folder, metric, runs: shown.map(numbered) }));
  } else if (shown.length > 0) { for (const line of sweepTable(shown, metric)) console.log(line); }
  const why = whyUnranked(rows);
  if (verb === "best" && why !== null) {
    throw new UserError("usage", `${why} How they stand: hpctrain sweep status ${word}`);
  }
  if (verb === "best" && shown.length === 0) {
    throw new UserError(
      "usage",
      `No run of ${sweep.name} has a ${metric} yet. How they stand: hpctrain sweep status ${word}`,
    );
  }
  if (!options.json && isSearch(sweep)) console.log(countsOf(rows));
  if (verb === "best" && !options.json) {
    console.log(`\nIts weights: ${weightsOf(sweep, shown[0].run)}`);
  }
  return EXIT.done;
}

/** The run's own events name the file: its folder and format are the run's. */
function weightsOf({ saveDir }: Sweep, run: string): string {
  const log = join(saveDir, "logs", run, "events.jsonl");
  const saved = (pathExists(log) ? readEvents(log) : [])
    .flatMap((event) => event.kind === "save" ? [event.path] : []).at(-1);
  if (saved === undefined) return "none is saved yet";
  const best = saved.replace(/_latest(\.\w+)$/, "_best$1");
  return pathExists(best) ? best : saved;
}

/** JSON has no NaN. */
const numbered = (row: SweepRow) => ({
  ...row,
  metric: row.metric !== null && Number.isFinite(row.metric) ? row.metric : null,
});

export function onlyOne(sweeps: string): string {
  const names = sweepNames(sweeps);
  if (names.length === 1) return names[0];
  throw new UserError(
    "usage",
    names.length === 0 ? `There is no sweep below ${sweeps}.` : `Which sweep? There are ${names.join(", ")}.`,
  );
}
