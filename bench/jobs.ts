// `scripts/bench jobs`: whole jobs from the process's start to its exit, as a user types them, beside the scripts that users
// of PyTorch and of Lightning write. `--threads 1`, `--busy` (beside a neighbour that keeps one core busy) and names of jobs
// choose what is measured; without names, all that is not yet measured of this code.
import { join } from "paths";
import { existsSync } from "node:fs";
import { codeOf, isOfThisCode } from "./age.ts";
import { type Host, openHost, turns } from "./contestant.ts";
import { commandOf, isOwn, JOBS, PEERS, type Side, SIDES, wordsOf } from "./job_lines.ts";
import { type JobResults, type JobRow, jobsPage, rowLines } from "./jobs_page.ts";
import { writePage } from "./page.ts";
import { machine, RESULTS, versionsOf, writeResults } from "./report.ts";
import type { Programs } from "./step.ts";
import { eventsIn, neighbour, type Timed, timed } from "./timed.ts";

const here = (path: string) => new URL(path, import.meta.url).pathname;

export interface JobPrograms extends Pick<Programs, "exe" | "python"> {
  /** A folder with pytorch_lightning, where it could be installed. */
  readonly lightning: string | null;
}

interface Setting {
  readonly threads: number;
  readonly busy: boolean;
}

interface Effort {
  readonly rounds: number;
  /** In place of the job's own. */
  readonly epochs?: number;
  /** The data has this share of its full size. */
  readonly share: number;
}

const FULL: Effort = { rounds: 3, share: 1 };
export const QUICK: Effort = { rounds: 1, epochs: 2, share: 0.02 };
/** How often a turn is taken, if the machine's host takes much of it. */
const TRIES = 2;

/** All sides train the same, but for the loss. */
interface Trained {
  readonly parameters: number;
  readonly steps: number;
  readonly val_loss: number;
}

export const keyOf = (name: string, { threads, busy }: Setting): string =>
  `${name}, ${threads === 1 ? "one thread" : `${threads} threads`}${busy ? ", busy" : ""}`;

/** A job's command line names these; models in TypeScript stand beside this file. */
const filesOf = (name: string): string[] => [JOBS[name].data, ...JOBS[name].more ?? []];

export function makeJobData(python: string, folder: string, share: number, name: string): void {
  const files = filesOf(name).filter((file) => !file.endsWith(".ts"));
  const args = [here("peers/jobs_data.py"), folder, `${share}`, ...files];
  const { success, stderr } = new Deno.Command(python, { args, stdout: "null" }).outputSync();
  if (!success) {
    throw new Error(`the data of ${name} was not made: ${new TextDecoder().decode(stderr).slice(-2000)}`);
  }
}

/** One run in a folder of its own, which has links to the data. */
async function runJob(
  p: JobPrograms,
  data: string,
  name: string,
  side: Side,
  threads: number,
  epochs?: number,
): Promise<Timed & Trained> {
  const folder = Deno.makeTempDirSync();
  try {
    for (const file of filesOf(name)) {
      Deno.symlinkSync(file.endsWith(".ts") ? here(file) : join(data, file), join(folder, file));
    }
    const words = wordsOf(name, side, threads, epochs);
    const line = isOwn(side)
      ? [p.exe, ...words]
      : [p.python, here(`peers/${PEERS[side]}`), ...words.slice(1)];
    const took = await timed(
      p.python,
      line,
      folder,
      side === "Lightning" ? { PYTHONPATH: p.lightning! } : undefined,
    );
    const trained = isOwn(side) ? trainedIn(folder) : JSON.parse(took.said.trim().split("\n").at(-1)!);
    return { ...took, ...trained };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

/** As a run's own events say. */
function trainedIn(folder: string): Trained {
  const events = eventsIn(folder);
  const of = (kind: string) => events.findLast((event) => event.kind === kind);
  return {
    parameters: of("run").parameters,
    steps: of("exit").step,
    val_loss: of("epoch").val_loss,
  };
}

/** A comparison is one only if all train the same network in as many steps; both are told the size of a batch. */
export function sameJob(name: string, side: string, trained: Trained, first: Trained): void {
  for (const what of ["parameters", "steps"] as const) {
    if (trained[what] === first[what]) continue;
    throw new Error(`${name}: ${side} has ${what} ${trained[what]}, and hpctrain ${first[what]}`);
  }
}

export async function measureJob(
  p: JobPrograms,
  data: string,
  name: string,
  { threads, busy }: Setting,
  { rounds, epochs }: Effort,
  host: Host = openHost(undefined, TRIES),
): Promise<JobRow> {
  const sides = SIDES.filter((side) => side !== "Lightning" || p.lightning !== null);
  const { cpu, load } = machine();
  const measured: JobRow["sides"] = {};
  let first: Trained | undefined;
  using _busy = busy ? neighbour() : null;
  for (const [side] of turns(sides, rounds)) {
    const one = await host.turn(() => runJob(p, data, name, side, threads, epochs));
    sameJob(name, side, one, first ??= one);
    const command = commandOf(name, side, threads, epochs);
    const all = measured[side] ??= { command, seconds: [], cpu: [], peak: [], others: [], val_loss: NaN };
    all.seconds.push(rounded(one.seconds));
    all.cpu.push(rounded(one.cpu));
    all.peak.push(one.peak);
    all.others.push(rounded(one.others));
    all.val_loss = one.val_loss;
  }
  const { parameters, steps } = first!;
  const { title, batch } = JOBS[name], date = new Date().toISOString().slice(0, 10);
  return {
    title,
    threads,
    busy,
    parameters,
    steps,
    batch,
    date,
    cpu,
    load,
    code: codeOf("jobs"),
    sides: measured,
  };
}

const rounded = (value: number): number => Math.round(value * 1000) / 1000;

export interface Wanted {
  readonly names: readonly string[];
  readonly settings: readonly Setting[];
}

/** Words of the command line: names of jobs, `--threads N`, `--busy`. */
export function wantedBy(words: readonly string[]): Wanted {
  const names: string[] = [];
  let threads = [1, 2], busy = false;
  for (let i = 0; i < words.length; i++) {
    const word = words[i];
    if (word === "--busy") busy = true;
    else if (word === "--threads") threads = [Number(words[++i])];
    else if (Object.hasOwn(JOBS, word)) names.push(word);
    else throw new Error(`There is no job "${word}". There are: ${Object.keys(JOBS).join(", ")}.`);
  }
  if (!threads.every((count) => count === 1 || count === 2)) throw new Error("--threads takes 1 or 2.");
  return { names, settings: threads.map((count) => ({ threads: count, busy })) };
}

/** Measured anew if it is named; else if it is missing, or of other code than what is here. */
export function due(rows: JobResults["rows"], { names, settings }: Wanted): [string, Setting][] {
  const all = settings.flatMap((setting) =>
    (names.length > 0 ? names : Object.keys(JOBS)).map((name): [string, Setting] => [name, setting])
  );
  if (names.length > 0) return all;
  return all.filter(([name, setting]) => {
    const row = rows[keyOf(name, setting)];
    return row === undefined || !isOfThisCode("jobs", row.code);
  });
}

/** In the order of the page; of several rows the results have the day and the code of the oldest. */
export function inOrder(rows: JobResults["rows"]): JobResults["rows"] {
  const keys = Object.keys(JOBS).flatMap((name) =>
    [false, true].flatMap((busy) => [1, 2].map((threads) => keyOf(name, { threads, busy })))
  );
  return Object.fromEntries(keys.filter((key) => rows[key]).map((key) => [key, rows[key]]));
}

function oldest(rows: JobResults["rows"]): Pick<JobRow, "date" | "code"> {
  const all = Object.values(rows), old = all.filter(({ code }) => !isOfThisCode("jobs", code));
  return (old.length > 0 ? old : all).toSorted((a, b) => a.date < b.date ? -1 : 1)[0];
}

export async function jobsBenchmark(
  p: Programs,
  lightning: string | null,
  words: readonly string[],
  quick: boolean,
): Promise<void> {
  const effort = quick ? QUICK : FULL, wanted = wantedBy(words);
  const path = join(RESULTS, "jobs.json");
  const known = existsSync(path) ? JSON.parse(Deno.readTextFileSync(path)) as JobResults : null;
  const rows: Record<string, JobRow> = { ...known?.rows };
  const folder = join(p.data, quick ? "jobs-quick" : "jobs"),
    programs = { exe: p.exe, python: p.python, lightning };
  if (lightning === null) console.log("Without Lightning, which could not be installed.");
  for (const [name, setting] of due(quick ? {} : rows, wanted)) {
    const key = keyOf(name, setting);
    console.log(key);
    makeJobData(p.python, folder, effort.share, name);
    rows[key] = await measureJob(programs, folder, name, setting, effort);
    for (const line of rowLines(rows[key])) console.log(`  ${line.join("  ")}`);
    if (!quick) write(p, inOrder(rows));
  }
}

/** After each row, so that a benchmark that is cut off goes on where it was. */
function write(p: Programs, rows: JobResults["rows"]): void {
  const { date, code } = oldest(rows);
  const command = "./scripts/bench jobs";
  const results: JobResults = { command, date, machine: machine(), versions: versionsOf(p), rows };
  writeResults("jobs", results, code);
  writePage("jobs", jobsPage(results));
}
