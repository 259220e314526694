// `hpctrain sweep`: one training for each combination of values, as one job array or on this machine; `sweep status` and
// `sweep best` look at them, `sweep run` is what the jobs do. May import core, @std/path.
import { join } from "@std/path";
import { readAxes, type Words } from "../core/cluster/sweep/axes.ts";
import { findSweep, namesIn, readSweep, type Sweep, writeSweep } from "../core/cluster/sweep/manifest.ts";
import { namesOf } from "../core/cluster/sweep/names.ts";
import { drawn, grid } from "../core/cluster/sweep/points.ts";
import { ranked, type Row, rowsOf, table } from "../core/cluster/sweep/table.ts";
import { thisProgram } from "../core/cluster/script/program.ts";
import { ownWords, parseOptions } from "../core/config/options.ts";
import { resolve } from "../core/config/resolve.ts";
import { EXIT, UserError } from "../core/errors.ts";
import { formatPlural } from "../core/format.ts";
import { VERSION } from "../core/version.ts";
import { SWEEP_OPTIONS } from "./options.ts";

const USAGE =
  "hpctrain sweep --lr 1e-4,3e-4 [--set KEY=A,B] [--random N] [--local | --submit] | sweep status|best [NAME]";

type Own = ReturnType<typeof optionsOf>;

const optionsOf = (words: readonly string[]) => parseOptions(words, SWEEP_OPTIONS, USAGE).options;

export async function sweep(argv: string[]): Promise<number> {
  const [verb, ...words] = argv;
  if (verb === "run") return await runOne(words);
  const { own, rest } = ownWords(argv, SWEEP_OPTIONS);
  const options = optionsOf(own);
  if (verb === "status" || verb === "best") return show(verb, rest.slice(1), options);
  const axes = readAxes(rest, USAGE);
  if (axes.axes.length === 0) {
    throw new UserError(
      "usage",
      "A sweep needs a setting with several values, such as --lr 1e-4,3e-4,1e-3 or --set model.hidden_size=64,128.",
    );
  }
  const { config } = resolve({ argv: [...axes.fixed], env: Deno.env.toObject(), usage: USAGE });
  const made = sweepOf(axes, options, argv, config.output.save_dir);
  const { folder, sweep, again } = place(made, config.output.save_dir, options.name);
  const rows = rowsOf(sweep);
  const todo = rows.flatMap(({ state }, i) => state === "done" ? [] : [i]);
  console.log(
    again
      ? `Sweep ${sweep.name} in ${folder}: ${todo.length} of ${formatPlural(rows.length, "run")} not done yet`
      : `Sweep ${sweep.name} in ${folder}: ${formatPlural(rows.length, "run")}`,
  );
  if (todo.length === 0) return tellEnd(sweep, folder);
  if (options.local) return await locally(sweep, folder, todo, jobsOf(options));
  const { asArray } = await import("./sweep_job.ts");
  return await asArray({ sweep, folder, todo, fixed: axes.fixed, argv, options });
}

function sweepOf(
  { fixed, axes }: Words,
  { name, random, metric }: Own,
  argv: string[],
  saveDir: string,
): Sweep {
  const seed = fixed.find((word) => word.startsWith("--seed="))?.split("=")[1] ?? "0";
  const points = random === undefined ? grid(axes) : drawn(axes, whole("random", random), Number(seed));
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
  const command = ["hpctrain", "sweep", ...argv];
  return { format: 1, version: VERSION, name: called, command, saveDir, metric: metric ?? "val_loss", runs };
}

/** The same runs under the same name are the same sweep, which goes on; others are another one. */
function place(made: Sweep, saveDir: string, asked: string | undefined) {
  const sweeps = join(saveDir, "sweeps");
  const same = (old: Sweep) =>
    JSON.stringify(old.runs.map(({ words }) => words)) ===
      JSON.stringify(made.runs.map(({ words }) => words));
  for (let number = 1;; number++) {
    const name = number === 1 ? made.name : `${made.name}-${number}`;
    const folder = join(sweeps, name);
    const old = readSweep(folder);
    if (old && same(old)) return { folder, sweep: old, again: true };
    if (old && asked !== undefined) {
      throw new UserError(
        "usage",
        `The sweep ${asked} in ${folder} has other runs: choose another --name, or remove that folder.`,
      );
    }
    if (old) continue;
    const runs = made.runs.map((one) => ({ ...one, run: name + one.run.slice(made.name.length) }));
    const sweep = { ...made, name, runs };
    writeSweep(folder, sweep);
    return { folder, sweep, again: false };
  }
}

async function locally(
  sweep: Sweep,
  folder: string,
  todo: readonly number[],
  atOnce: number,
): Promise<number> {
  const { runLocally } = await import("../core/cluster/sweep/local.ts");
  const program = thisProgram();
  const runs = todo.map((i) => ({
    run: sweep.runs[i].run,
    command: [...program, "sweep", "run", folder, String(i)],
  }));
  const code = await runLocally(runs, { atOnce, folder, say: (line) => console.log(line) });
  tellEnd(sweep, folder);
  return code;
}

function tellEnd(sweep: Sweep, folder: string): number {
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
  const { config, positionals } = resolve({
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
  } else if (shown.length > 0) { for (const line of table(shown, metric)) console.log(line); }
  if (verb === "best" && shown.length === 0) {
    throw new UserError(
      "usage",
      `No run of ${sweep.name} has a ${metric} yet. How they stand: hpctrain sweep status ${word}`,
    );
  }
  if (verb === "best" && !options.json) {
    console.log(`\nIts weights: ${join(sweep.saveDir, "checkpoints", `${shown[0].run}_best.pt`)}`);
  }
  return EXIT.done;
}

/** JSON has no NaN. */
const numbered = (row: Row) => ({
  ...row,
  metric: row.metric !== null && Number.isFinite(row.metric) ? row.metric : null,
});

function onlyOne(sweeps: string): string {
  const names = namesIn(sweeps);
  if (names.length === 1) return names[0];
  throw new UserError(
    "usage",
    names.length === 0 ? `There is no sweep below ${sweeps}.` : `Which sweep? There are ${names.join(", ")}.`,
  );
}

const jobsOf = ({ jobs }: Own) => jobs === undefined ? 1 : whole("jobs", jobs);

export function whole(name: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw new UserError("usage", `--${name} should be a whole number from 1 on, but got "${text}".`);
}
