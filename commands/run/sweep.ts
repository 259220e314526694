// `hpctrain sweep`: one training for each combination of values, as one job array or on this machine; `sweep status`
// and `sweep best` look at them, `sweep run` is what the jobs do.
import { join } from "../../deps/path.ts";
import { drawn, grid, namesOf, readAxes, type SweepRequest } from "../../core/cluster/sweep/axes.ts";
import {
  findSweep,
  ranked,
  readSweep,
  rowsOf,
  type Sweep,
  sweepNames,
  type SweepRow,
  sweepTable,
  writeSweep,
} from "../../core/cluster/sweep/runs.ts";
import { thisProgram } from "../../core/base/shell.ts";
import { parseOptions, splitFlag, splitOwnOptions } from "../../core/settings/options.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { findSetting, FLAGS } from "../../core/settings/settings.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatPlural } from "../../core/base/format.ts";
import { pathExists } from "../../core/base/files.ts";
import { readEvents } from "../../core/run/event_log.ts";
import { VERSION } from "../../core/base/version.ts";
import { SWEEP_OPTIONS } from "../sweep.ts";

export const USAGE =
  "hpctrain sweep --lr 1e-4,3e-4 [--set KEY=A,B] [--random N] [--local | --submit] | sweep status|best [NAME]";

type Own = ReturnType<typeof optionsOf>;

const optionsOf = (words: readonly string[]) => parseOptions(words, SWEEP_OPTIONS, USAGE).options;

export async function sweep(argv: string[]): Promise<number> {
  const [verb, ...words] = argv;
  if (verb === "run") return await runOne(words);
  const { own, rest } = splitOwnOptions(argv, SWEEP_OPTIONS);
  const options = optionsOf(own);
  if (verb === "status" || verb === "best") return show(verb, rest.slice(1), options);
  const planned = planSweep(rest, options, ["hpctrain", "sweep", ...argv], USAGE);
  const { sweep, folder, todo, fixed } = planned;
  if (planned.made) writeSweep(folder, sweep);
  console.log(planned.summary);
  if (todo.length === 0) return printSweepEnd(sweep, folder);
  if (options.local) return await locally(sweep, folder, todo, jobsOf(options));
  const { asArray } = await import("./sbatch.ts");
  const { pbs, jobs, submit } = options;
  const typed = ["hpctrain", "sweep", ...argv];
  return await asArray({
    sweep,
    folder,
    todo,
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
  readonly todo: readonly number[];
  /** Flags that all runs have. */
  readonly fixed: readonly string[];
  /** It is new, and not noted yet. */
  readonly made: boolean;
  readonly summary: string;
}

/** Plans the sweep of these words, or the one that they go on with. Writes nothing. */
export function planSweep(
  words: readonly string[],
  options: Pick<Own, "name" | "random" | "metric">,
  typed: readonly string[],
  usage: string,
): PlannedSweep {
  const axes = readAxes(words, usage);
  if (axes.axes.length === 0) {
    throw new UserError(
      "usage",
      "A sweep needs a setting with several values, such as --lr 1e-4,3e-4,1e-3 or --set model.hidden_size=64,128.",
    );
  }
  const { config } = resolveSettings({ argv: [...axes.fixed], env: Deno.env.toObject(), usage });
  const request = sweepOf(axes, options, typed, config.output.save_dir);
  const { folder, sweep, made } = place(request, config.output.save_dir, options.name);
  const rows = rowsOf(sweep);
  const todo = rows.flatMap(({ state }, i) => state === "done" ? [] : [i]);
  const all = formatPlural(rows.length, "run");
  const summary = `Sweep ${sweep.name} in ${folder}: ${made ? all : `${todo.length} of ${all} not done yet`}`;
  return { sweep, folder, todo, fixed: axes.fixed, made, summary };
}

function sweepOf(
  { fixed, axes }: SweepRequest,
  { name, random, metric }: Pick<Own, "name" | "random" | "metric">,
  command: readonly string[],
  saveDir: string,
): Sweep {
  const seed = fixed.find((word) => word.startsWith("--seed="))?.split("=")[1] ?? "0";
  const points = random === undefined
    ? grid(axes)
    : drawn(axes, parseWholeOption("random", random), Number(seed));
  const called = name ?? "sweep";
  if (!/^[\w][\w.+-]{0,60}$/.test(called)) {
    throw new UserError(
      "usage",
      `--name "${called}" should be of letters, digits, dots, dashes and underscores, at most 60.`,
    );
  }
  const names = namesOf(called, axes, points);
  const runs = points.map((point, i) => ({
    run: names[i],
    words: [...fixed, ...axes.map(({ before }, k) => before + point[k])],
    values: Object.fromEntries(axes.map((axis, k) => [axis.name, point[k]])),
  }));
  return { format: 1, version: VERSION, name: called, command, saveDir, metric: metric ?? "val_loss", runs };
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
  const trained = ({ runs }: Sweep) =>
    JSON.stringify(runs.map(({ words }) => words.filter((word) => !isOfTheJob(word))));
  const same = (old: Sweep) => trained(old) === trained(made);
  for (let number = 1;; number++) {
    const name = number === 1 ? made.name : `${made.name}-${number}`;
    const folder = join(sweeps, name);
    const old = readSweep(folder);
    if (old && same(old)) return { folder, sweep: old, made: false };
    if (old && request !== undefined) {
      throw new UserError(
        "usage",
        `The sweep ${request} in ${folder} has other runs: choose another --name, or remove that folder.`,
      );
    }
    if (old) continue;
    const runs = made.runs.map((one) => ({ ...one, run: name + one.run.slice(made.name.length) }));
    return { folder, sweep: { ...made, name, runs }, made: true };
  }
}

async function locally(
  sweep: Sweep,
  folder: string,
  todo: readonly number[],
  atOnce: number,
): Promise<number> {
  const { runLocally } = await import("../../core/cluster/sweep/local.ts");
  const program = thisProgram();
  const runs = todo.map((i) => ({
    run: sweep.runs[i].run,
    command: [...program, "sweep", "run", folder, String(i)],
  }));
  const code = await runLocally(runs, { atOnce, folder, say: (line) => console.log(line) });
  printSweepEnd(sweep, folder);
  return code;
}

export function printSweepEnd(sweep: Sweep, folder: string): number {
  const [best] = ranked(rowsOf(sweep), sweep.metric);
  if (best) console.log(`Best ${sweep.metric}: ${best.metric} of ${best.run}`);
  console.log(`All of them: hpctrain sweep status ${folder}`);
  return EXIT.done;
}

/** `sweep run FOLDER NUMBER [FLAGS]`: one training, which goes on from its checkpoint where it has one. */
async function runOne([folder, number, ...more]: string[]): Promise<number> {
  const sweep = folder === undefined ? null : readSweep(folder);
  const run = sweep?.runs[Number(number)];
  if (!sweep || !run) {
    const why = sweep ? `has runs 0 to ${sweep.runs.length - 1}` : "is no sweep: it has no sweep.json";
    throw new UserError(
      "usage",
      `${folder ?? "Nothing"} ${why}. Usage: hpctrain sweep run FOLDER NUMBER.`,
    );
  }
  const { train } = await import("./train.ts");
  return await train([...run.words, ...more, `--run-name=${run.run}`, "--resume=auto"]);
}

function show(verb: "status" | "best", words: readonly string[], options: Own): number {
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
  const rows = rowsOf({ ...sweep, metric });
  const shown = verb === "best" ? ranked(rows, metric) : rows;
  if (options.json) {
    console.log(JSON.stringify({ sweep: sweep.name, folder, metric, runs: shown.map(numbered) }));
  } else if (shown.length > 0) { for (const line of sweepTable(shown, metric)) console.log(line); }
  if (verb === "best" && shown.length === 0) {
    throw new UserError(
      "usage",
      `No run of ${sweep.name} has a ${metric} yet. How they stand: hpctrain sweep status ${word}`,
    );
  }
  if (verb === "best" && !options.json) {
    console.log(`\nIts weights: ${weightsOf(sweep, shown[0].run)}`);
  }
  return EXIT.done;
}

/** The run's own events name the file: its folder and format are the run's. */
function weightsOf({ saveDir }: Sweep, run: string): string {
  const saved = readEvents(join(saveDir, "logs", run, "events.jsonl"))
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

function onlyOne(sweeps: string): string {
  const names = sweepNames(sweeps);
  if (names.length === 1) return names[0];
  throw new UserError(
    "usage",
    names.length === 0 ? `There is no sweep below ${sweeps}.` : `Which sweep? There are ${names.join(", ")}.`,
  );
}

const jobsOf = ({ jobs }: Own) => jobs === undefined ? 1 : parseWholeOption("jobs", jobs);

export function parseWholeOption(name: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw new UserError("usage", `--${name} should be a whole number from 1 on, but got "${text}".`);
}
