// `hpctrain sweep`: one training for each combination of values, or for those that a search chooses, as one job array
// or on this machine; `sweep status`, `sweep best` and `sweep report` look at them, `sweep run` is what the jobs do.
import { join } from "../../deps/path.ts";
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
import { runCount } from "../../core/cluster/sweep/search.ts";
import { isSearch } from "../../core/cluster/sweep/trials.ts";
import { thisProgram } from "../../core/base/shell.ts";
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { pathExists } from "../../core/base/files.ts";
import { readEvents } from "../../core/run/event_log.ts";
import { OPTIONS } from "../sweep.ts";
import { planSweep, printSweepEnd } from "./sweep_plan.ts";

export const USAGE =
  "hpctrain sweep [FILE] --lr 1e-4,3e-4 [--set KEY=A,B] [--search KIND --max-runs N] [--local | --submit] | sweep status|best|report [NAME]";

type Own = ReturnType<typeof optionsOf>;

const optionsOf = (words: readonly string[]) => parseOptions(words, OPTIONS, USAGE).options;

export async function sweep(argv: string[]): Promise<number> {
  const [verb, ...words] = argv;
  if (verb === "run") return await runOne(words);
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
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
  const { asArray } = await import("./job.ts");
  return await asArray({
    sweep,
    folder,
    remaining,
    words: fixed,
    typed: ["hpctrain", "sweep", ...argv],
    scheduler: options.pbs ? "pbs" : "slurm",
    jobs,
    how: options.submit ? "submit" : "write",
  });
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

function onlyOne(sweeps: string): string {
  const names = sweepNames(sweeps);
  if (names.length === 1) return names[0];
  throw new UserError(
    "usage",
    names.length === 0 ? `There is no sweep below ${sweeps}.` : `Which sweep? There are ${names.join(", ")}.`,
  );
}
