// The folder of a search: a file for each trial, written once when it is drawn, and one for its result. Each trial
// is a run; a process takes one after the other, and several processes share the folder.
import { join } from "../../../deps/path.ts";
import { writeAll, writeAtomically } from "../../base/atomic.ts";
import { EXIT, UserError } from "../../base/errors.ts";
import { entriesIn, pathExists } from "../../base/files.ts";
import { makeFolder } from "../../base/new_file.ts";
import type { Validation } from "../../run/validation.ts";
import {
  type Claim,
  createWhole,
  deathsOf,
  endClaim,
  type Holder,
  isHeld,
  lastClaim,
  takeClaim,
} from "./claims.ts";
import { BEGIN, type Climb, measuredOf } from "./metric.ts";
import type { Sweep, SweepRun } from "./runs.ts";
import { type Earlier, nextWords, type Search } from "./search.ts";

export interface Trial {
  readonly number: number;
  readonly run: string;
  /** A word for each dimension of the space. */
  readonly words: readonly string[];
  /** Null while it is not settled. */
  readonly result: TrialResult | null;
  readonly climb: Climb;
}

/** How a trial ended for good. */
interface TrialResult {
  readonly state: "done" | "pruned" | "failed";
  readonly value: number | null;
  readonly step: number;
  readonly epoch: number | null;
  readonly code: number;
  readonly why: string;
  readonly validation?: Validation;
}

export type SearchSweep = Sweep & { readonly search: Search };

export const isSearch = (sweep: Sweep): sweep is SearchSweep => sweep.search !== undefined;

const trialsIn = (folder: string): string => join(folder, "trials");
const nameOf = (number: number): string => String(number).padStart(4, "0");
const pathOf = (folder: string, number: number, ending: string): string =>
  join(trialsIn(folder), `${nameOf(number)}${ending}`);

/** A run that ends so would end so again: its values are to blame, or its settings. */
const FINAL_CODES: readonly number[] = [EXIT.usage, EXIT.data, EXIT.memory, EXIT.numerics];
/** A process that died so many times without a word takes the trial with it. */
const MOST_DEATHS = 5;

/** In the order of their numbers. */
export function readTrials(folder: string): Trial[] {
  const names = new Set(entriesIn(trialsIn(folder)));
  const drawn = [...names].filter((name) => /^\d+\.json$/.test(name)).sort();
  return drawn.map((name) => readTrial(folder, Number(name.slice(0, -5)), names));
}

/** A settled trial does not change, and a process looks often. */
const known = new Map<string, Trial>();

/** `names` are those of the files that are there; a file that is not is not asked for. */
export function readTrial(folder: string, number: number, names?: ReadonlySet<string>): Trial {
  const path = pathOf(folder, number, ".json");
  const before = known.get(path);
  if (before !== undefined) return before;
  const exists = (ending: string) => names === undefined || names.has(nameOf(number) + ending);
  const drawn = readJson(path) as { run?: unknown; words?: unknown } | null;
  if (drawn === null || typeof drawn.run !== "string" || !Array.isArray(drawn.words)) {
    throw new UserError(
      "usage",
      `${path} is damaged: it names no run. Make the sweep again under another --name.`,
    );
  }
  const trial: Trial = {
    number,
    run: drawn.run,
    words: drawn.words.map(String),
    result: exists(".result.json")
      ? readJson(pathOf(folder, number, ".result.json")) as TrialResult | null
      : null,
    climb: exists(".rungs.json") ? readClimb(folder, number) : BEGIN,
  };
  if (trial.result !== null) known.set(path, trial);
  return trial;
}

const readClimb = (folder: string, number: number): Climb =>
  readJson(pathOf(folder, number, ".rungs.json")) as Climb | null ?? BEGIN;

export const writeClimb = (folder: string, number: number, climb: Climb): void =>
  writeJson(pathOf(folder, number, ".rungs.json"), climb);

/** The values of all other trials at a rung; one without a number is the worst. */
export function othersAt(folder: string, number: number, rung: number): number[] {
  return entriesIn(trialsIn(folder)).filter((name) => name.endsWith(".rungs.json"))
    .map((name) => Number(name.slice(0, name.indexOf("."))))
    .filter((other) => other !== number)
    .map((other) => readClimb(folder, other))
    .flatMap(({ values }) => rung < values.length ? [values[rung] ?? Infinity] : []);
}

export function runsOfTrials(folder: string, sweep: SearchSweep): SweepRun[] {
  return readTrials(folder).map((trial) => trialRun(sweep, trial));
}

export function trialRun({ search, fixed = [] }: SearchSweep, { run, words }: Trial): SweepRun {
  return {
    run,
    words: [...fixed, ...search.space.map(({ before }, d) => before + words[d])],
    values: Object.fromEntries(search.space.map(({ name }, d) => [name, words[d]])),
  };
}

const runName = (sweep: Sweep, number: number): string => `${sweep.name}-${String(number).padStart(3, "0")}`;

/** A run of such a name is there, and its events would be taken for those of this new sweep. */
export function hasOldRuns(sweep: Sweep, named: string | undefined): boolean {
  const runs = isSearch(sweep) ? [runName(sweep, 0)] : sweep.runs.map(({ run }) => run);
  const logs = runs.map((run) => join(sweep.saveDir, "logs", run))
    .find((folder) => pathExists(join(folder, "events.jsonl")));
  if (logs === undefined) return false;
  if (named === undefined) return true;
  throw new UserError(
    "usage",
    `${logs} is of another sweep of the name ${named}: choose another --name, or remove its runs.`,
  );
}

export interface TakenTrial {
  readonly trial: Trial;
  readonly claim: Claim;
}

/** Draws a trial where fewer are there than there may be. Somebody else may take it first. */
async function drawTrial(folder: string, sweep: SearchSweep, trials: readonly Trial[]): Promise<void> {
  const number = trials.length;
  if (number >= sweep.search.maxRuns) return;
  makeFolder(trialsIn(folder));
  const run = runName(sweep, number);
  const words = await nextWords(sweep.search, number, trials.map((trial) => earlier(sweep, trial)));
  createWhole(pathOf(folder, number, ".json"), JSON.stringify({ run, words }) + "\n");
}

function earlier({ goal }: SearchSweep, { words, result }: Trial): Earlier {
  if (result === null) return { words, state: "running", value: null, step: 0 };
  const { state, value, step } = result;
  return { words, state, value: value === null ? null : goal === "maximize" ? -value : value, step };
}

/**
 * The next trial to train: one that this job had before, one that nobody has begun or that was stopped, a new
 * one, or one whose process died. Null where none is left or others hold them; `passed` ones are left alone.
 */
export async function nextTrial(
  folder: string,
  sweep: SearchSweep,
  me: Holder,
  passed: ReadonlySet<number> = new Set(),
): Promise<number | null> {
  for (;;) {
    const trials = readTrials(folder);
    const [first] = openTrials(folder, trials)
      .filter(({ number, last }) => !passed.has(number) && (last === null || !isHeld(last, me)))
      .map(({ number, last }) => ({ number, turn: turnOf(last, me) }))
      .sort((a, b) => a.turn - b.turn || a.number - b.number);
    const mayDraw = trials.length < sweep.search.maxRuns;
    if (first && (first.turn !== DIED || !mayDraw)) return first.number;
    if (!mayDraw) return null;
    await drawTrial(folder, sweep, trials);
  }
}

const OWN = 0, WAITS = 1, DIED = 2;

function turnOf(last: Claim | null, me: Holder): number {
  if (last === null || last.holder.ended) return WAITS;
  return last.holder.job !== null && last.holder.job === me.job ? OWN : DIED;
}

const openTrials = (folder: string, trials: readonly Trial[]) =>
  trials.filter(({ result }) => result === null)
    .map(({ number }) => ({ number, last: lastClaim(trialsIn(folder), nameOf(number)) }));

/** Trials that another process of this machine trains. */
export const heldClaims = (folder: string, me: Holder): Claim[] =>
  openTrials(folder, readTrials(folder)).flatMap(({ last }) =>
    last !== null && last.holder.host === me.host && isHeld(last, me) ? [last] : []
  );

export async function takeTrial(folder: string, sweep: SearchSweep, me: Holder): Promise<TakenTrial | null> {
  for (;;) {
    const number = await nextTrial(folder, sweep, me);
    if (number === null) return null;
    const taken = claimTrial(folder, sweep, number, me);
    if (taken !== null) return taken;
  }
}

/** Null where somebody else holds it, or where it turns out to be over. */
export function claimTrial(
  folder: string,
  sweep: SearchSweep,
  number: number,
  me: Holder,
): TakenTrial | null {
  const deaths = deathsOf(trialsIn(folder), nameOf(number));
  const claim = takeClaim(trialsIn(folder), nameOf(number), me);
  if (claim === null) return null;
  const trial = readTrial(folder, number); // only now: its last holder may have settled it just before it let go
  const result = trial.result ?? resultOf(sweep, trial) ??
    (deaths >= MOST_DEATHS ? failed(1, `Its process died ${MOST_DEATHS} times without a word`) : null);
  if (result === null) return { trial, claim };
  if (trial.result === null) settleTrial(folder, number, result);
  endClaim(claim);
  return null;
}

/** The trial of a start of a job, which its first rank has claimed; null before. */
export function trialOfStart(folder: string, start: string): Trial | null {
  const trials = readTrials(folder);
  return trials.find(({ number }) => lastClaim(trialsIn(folder), nameOf(number))?.holder.start === start) ??
    null;
}

const noneOf = (folder: string, start: string): string => join(trialsIn(folder), `none-${start}`);

/** For the other ranks of a job that found nothing to do. */
export const tellNone = (folder: string, start: string): void => void createWhole(noneOf(folder, start), "");
export const isNone = (folder: string, start: string): boolean => pathExists(noneOf(folder, start));

export const failed = (code: number, why: string): TrialResult => ({
  state: "failed",
  value: null,
  step: 0,
  epoch: null,
  code,
  why,
});

export const isFinal = (code: number): boolean => FINAL_CODES.includes(code);

/** The run's own events tell; null means that it is to go on. */
export function resultOf(sweep: SearchSweep, { run, climb }: Trial): TrialResult | null {
  const found = measuredOf(join(sweep.saveDir, "logs", run), sweep.metric);
  const value = found?.value ?? null, step = found?.step ?? 0, epoch = found?.epoch ?? null;
  const validated = found?.validation && { validation: found.validation };
  if (climb.stoppedAt !== null) {
    return {
      state: "pruned",
      value,
      step,
      epoch,
      code: EXIT.stopped,
      why: `Stopped at rung ${climb.stoppedAt + 1}`,
      ...validated,
    };
  }
  const exit = found?.exit ?? null;
  if (exit === null) return null;
  if (exit.code !== EXIT.done) {
    return isFinal(exit.code) ? { ...failed(exit.code, exit.message), step } : null;
  }
  if (value === null) return { ...failed(exit.code, `It has no finite ${sweep.metric}`), step };
  return { state: "done", value, step, epoch, code: EXIT.done, why: "", ...validated };
}

export function settleTrial(folder: string, number: number, result: TrialResult): void {
  writeJson(pathOf(folder, number, ".result.json"), result);
}

function writeJson(path: string, value: unknown): void {
  const bytes = new TextEncoder().encode(JSON.stringify(value) + "\n");
  writeAtomically(path, (file) => writeAll(file, bytes), { sync: false });
}

/** Null where there is none, or none whole yet. */
function readJson(path: string): unknown {
  try {
    return JSON.parse(Deno.readTextFileSync(path));
  } catch {
    return null;
  }
}
