// sweep.json, written once, names the runs of a sweep; the table reads their status from their own files.
import { entriesIn } from "../../base/files.ts";
import { noted, type Validation, whyUnlike } from "../../run/validation.ts";
import { join } from "../../../deps/path.ts";
import { writeAll, writeAtomically } from "../../base/atomic.ts";
import { messageOf, UserError } from "../../base/errors.ts";
import { commandWithoutSecrets } from "../../base/secrets.ts";
import { formatPlural, formatValue, inColumns } from "../../base/format.ts";
import { readRun, type RunData } from "../../run/run_data.ts";
import { progressOf, type RunState, runStatusOf } from "../../run/status.ts";
import { type Goal, goalOf, metricOf } from "./metric.ts";
import type { Search } from "./search.ts";
import { isSearch, readTrials, type Trial, trialRun } from "./trials.ts";

export interface SweepRun {
  readonly run: string;
  readonly words: readonly string[];
  readonly values: Readonly<Record<string, string>>;
}

export interface Sweep {
  readonly format: 1;
  readonly version: string;
  readonly name: string;
  readonly command: readonly string[];
  readonly saveDir: string;
  readonly metric: string;
  readonly runs: readonly SweepRun[];
  /** The runs of a search are chosen one by one: `runs` is empty, and its folder has them. */
  readonly search?: Search;
  readonly goal?: Goal;
  /** Flags that all runs of a search have. */
  readonly fixed?: readonly string[];
}

const manifestIn = (folder: string): string => join(folder, "sweep.json");

export function writeSweep(folder: string, sweep: Sweep): void {
  try {
    Deno.mkdirSync(folder, { recursive: true });
    const text = new TextEncoder().encode(JSON.stringify(sweep, null, 1) + "\n");
    writeAtomically(manifestIn(folder), (file, temporary) => {
      if (hasSecret(sweep)) Deno.chmodSync(temporary, 0o600);
      writeAll(file, text);
    });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.split(" (os error")[0] : String(cause);
    throw new UserError(
      "usage",
      `The sweep can't be noted in ${folder}: ${why}. Name another folder with --save-dir DIR.`,
      { cause },
    );
  }
}

/** Its runs need all of their flags, so others do not get to read them. */
function hasSecret({ runs, fixed = [] }: Sweep): boolean {
  const words = [...fixed, ...runs.flatMap(({ words }) => words)];
  return commandWithoutSecrets(words).some((word, i) => word !== words[i]);
}

export function readSweep(folder: string): Sweep | null {
  const path = manifestIn(folder);
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound || cause instanceof Deno.errors.NotADirectory) return null;
    throw new UserError("usage", `${path} can't be read: ${messageOf(cause)}.`, { cause });
  }
  let sweep: Sweep;
  try {
    sweep = JSON.parse(text);
  } catch (cause) {
    throw new UserError(
      "usage",
      `${path} is damaged: it is no JSON. Make the sweep again in another folder.`,
      { cause },
    );
  }
  const good = sweep?.format === 1 && (sweep.search === undefined || Array.isArray(sweep.search.space)) &&
    Array.isArray(sweep.runs) &&
    sweep.runs.every(({ run, words }) => typeof run === "string" && Array.isArray(words));
  if (!good) throw new UserError("usage", `${path} is no sweep of this version of hpctrain.`);
  return sweep;
}

export function findSweep(word: string, sweeps: string): { folder: string; sweep: Sweep } {
  for (const folder of [word, join(sweeps, word)]) {
    const sweep = readSweep(folder);
    if (sweep) return { folder, sweep };
  }
  const known = sweepNames(sweeps);
  const hint = known.length > 0
    ? `The sweeps there are ${known.join(", ")}.`
    : `There is none below ${sweeps}.`;
  throw new UserError("usage", `${word} is no sweep: it has no sweep.json. ${hint}`);
}

export const sweepNames = (sweeps: string): string[] =>
  entriesIn(sweeps).filter((name) => readSweep(join(sweeps, name)));

export interface SweepRow {
  readonly run: string;
  readonly values: SweepRun["values"];
  readonly state: RunState | "waiting" | "pruned";
  readonly step: number;
  readonly steps: number | null;
  /** The step with the best validation loss has it. */
  readonly metric: number | null;
  readonly epoch: number | null;
  readonly validation?: Validation;
  readonly folder: string;
  readonly why: string;
}

/** `metric` may be another than the one that the sweep is about. */
export function sweepRows(folder: string, sweep: Sweep, metric = sweep.metric): SweepRow[] {
  const request = { ...sweep, metric }, now = Date.now() / 1000;
  if (!isSearch(sweep)) return sweep.runs.map((run) => rowOf(request, run, now));
  return readTrials(folder).map((trial) => {
    const run = trialRun(sweep, trial), { result } = trial;
    if (result === null) return rowOf(request, run, now);
    if (metric === sweep.metric) return settledRow(sweep, run, result);
    return { ...rowOf(request, run, now), state: result.state, why: result.why };
  });
}

function rowOf({ saveDir, metric: wanted }: Sweep, { run, values }: SweepRun, now: number): SweepRow {
  const folder = join(saveDir, "logs", run);
  const data = read(folder);
  if (data === null) {
    const nothing = { step: 0, steps: null, metric: null, epoch: null };
    return { run, values, state: "waiting", ...nothing, folder, why: "Not begun" };
  }
  const { state, why } = runStatusOf(data, now);
  const { step, steps } = progressOf(data);
  const metric = metricOf(data, wanted);
  return {
    run,
    values,
    state,
    step,
    steps,
    metric,
    ...noted(data.run),
    epoch: data.best?.epoch ?? null,
    folder,
    why,
  };
}

/** Its own files need not be read again. */
function settledRow(
  { saveDir }: Sweep,
  { run, values }: SweepRun,
  { state, value, step, epoch, why, validation }: NonNullable<Trial["result"]>,
): SweepRow {
  return {
    run,
    values,
    state,
    step,
    steps: null,
    metric: value,
    epoch,
    validation,
    folder: join(saveDir, "logs", run),
    why,
  };
}

function read(folder: string): RunData | null {
  try {
    Deno.statSync(join(folder, "events.jsonl"));
  } catch {
    return null;
  }
  return readRun(folder);
}

/** Null where the runs with the metric are compared. */
export const whyUnranked = (rows: readonly SweepRow[]): string | null =>
  whyUnlike(rows.filter(({ metric }) => Number.isFinite(metric)).map(({ validation }) => validation));

/** Leaves out rows without the metric; the best one is first. None where they were validated on different data. */
export function ranked(rows: readonly SweepRow[], metric: string, goal = goalOf(metric)): SweepRow[] {
  if (whyUnranked(rows) !== null) return [];
  const sign = goal === "maximize" ? -1 : 1;
  return rows.filter((row): row is SweepRow & { metric: number } => Number.isFinite(row.metric))
    .sort((a, b) => sign * (a.metric - b.metric));
}

export const isSettled = (state: SweepRow["state"]): boolean => ["done", "pruned", "failed"].includes(state);

export function countsOf(rows: readonly SweepRow[]): string {
  const words = { done: "done", pruned: "stopped early", failed: "failed" } as const;
  const counts = Object.entries(words).map(([state, word]) =>
    [rows.filter((row) => row.state === state).length, word] as const
  );
  const rest = rows.filter(({ state }) => !isSettled(state)).length;
  const all = [...counts, [rest, "not ended"] as const].filter(([count]) => count > 0);
  return `${formatPlural(rows.length, "run")}: ${
    all.map(([count, word]) => `${count} ${word}`).join(", ") || "none begun"
  }`;
}

export function sweepTable(rows: readonly SweepRow[], metric: string): string[] {
  const names = [...new Set(rows.flatMap(({ values }) => Object.keys(values)))];
  const head = ["run", ...names, "state", "step", metric];
  const lines = rows.map(({ run, values, state, step, steps, metric: value }) => [
    run,
    ...names.map((name) => values[name] ?? ""),
    state === "pruned" ? "stopped early" : state,
    steps === null ? String(step) : `${step}/${steps}`,
    value === null ? "" : formatValue(value),
  ]);
  return inColumns([head, ...lines]);
}
