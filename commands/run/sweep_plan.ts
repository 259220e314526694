// The runs of a sweep, planned from the words of a command; a sweep of the same words goes on.
import { join } from "../../deps/path.ts";
import { drawnPoints, grid, readAxes, runNames, type SweepRequest } from "../../core/cluster/sweep/axes.ts";
import { ranked, readSweep, type Sweep, sweepRows, whyUnranked } from "../../core/cluster/sweep/runs.ts";
import { type Goal, goalOf } from "../../core/cluster/sweep/metric.ts";
import { joinedSpace, readSearchFile, type SearchFile, spaceOfAxes } from "../../core/cluster/sweep/space.ts";
import { runCount, searchOf } from "../../core/cluster/sweep/search.ts";
import { hasOldRuns, isSearch } from "../../core/cluster/sweep/trials.ts";
import { monitorOf } from "../../core/run/best.ts";
import { commandWithoutSecrets } from "../../core/base/secrets.ts";
import { didYouMean } from "../../core/base/suggest.ts";
import { looksLikeFlag, splitFlag } from "../../core/settings/options.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { type Config, findSetting, FLAGS } from "../../core/settings/settings.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatPlural } from "../../core/base/format.ts";
import { pathExists } from "../../core/base/files.ts";
import { VERSION } from "../../core/base/version.ts";
import type { PLAN_OPTIONS } from "../options.ts";

interface PlannedSweep {
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

type PlanOptions = Readonly<Record<keyof typeof PLAN_OPTIONS, string | undefined>>;

function sweepOf(
  { fixed: typed, axes }: SweepRequest,
  options: Partial<PlanOptions>,
  command: readonly string[],
  { output, training }: Config,
  file: SearchFile | null,
): Sweep {
  const { random, search } = options, called = options.name ?? "sweep", metric = options.metric ?? "val_loss";
  const wanted = options.goal ?? goalOfRuns(training, metric);
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
    return { ...about, runs: [], fixed, goal: goalOf(metric, wanted), search: chosen };
  }
  refuseWithoutSearch(options);
  const points = random === undefined ? grid(axes) : drawnPoints(axes, runCount("random", random), seed);
  const names = runNames(called, axes, points);
  const runs = points.map((point, i) => ({
    run: names[i],
    words: [...fixed, ...axes.map(({ before }, k) => before + point[k])],
    values: Object.fromEntries(axes.map((axis, k) => [axis.name, point[k]])),
  }));
  const goal = wanted === undefined ? {} : { goal: goalOf(metric, wanted) };
  return { ...about, runs, ...goal };
}

/** The runs are told what is better (--monitor-mode), so they are ranked by that. */
function goalOfRuns(training: Config["training"], metric: string): Goal | undefined {
  const { name, mode } = monitorOf({ training }), plain = (one: string) => one.replace(/^val_/, "");
  if (training.monitor_mode === "auto" || plain(name) !== plain(metric)) return undefined;
  return mode === "max" ? "maximize" : "minimize";
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
        `The sweep ${request} in ${folder} has other runs: choose another --name, or remove that folder and its runs.`,
      );
    }
    const runs = made.runs.map((one) => ({ ...one, run: name + one.run.slice(made.name.length) }));
    const sweep = { ...made, name, runs };
    if (old || hasOldRuns(sweep, request)) continue;
    return { folder, sweep, made: true, changed: true };
  }
}

export function printSweepEnd(sweep: Sweep, folder: string): number {
  const rows = sweepRows(folder, sweep), [best] = ranked(rows, sweep.metric, sweep.goal);
  if (best) console.log(`Best ${sweep.metric}: ${best.metric} of ${best.run}`);
  else if (whyUnranked(rows) !== null) console.log(whyUnranked(rows));
  console.log(`All of them: hpctrain sweep status ${folder}`);
  return EXIT.done;
}
