// The runs of a search: several at a time on this machine, or one as a job of an array; and the page about them.
import { join } from "../../deps/path.ts";
import { EXIT, messageOf, UserError } from "../../core/base/errors.ts";
import { remove } from "../../core/base/atomic.ts";
import { formatValue } from "../../core/base/format.ts";
import { thisProgram } from "../../core/base/shell.ts";
import { startThread } from "../../core/base/threads.ts";
import { endClaim, processStart, startOfJob, thisHolder } from "../../core/cluster/sweep/claims.ts";
import { tellJournals } from "../../core/cluster/sweep/journals.ts";
import { runLocally } from "../../core/cluster/sweep/local.ts";
import { evaluationsOf } from "../../core/cluster/sweep/metric.ts";
import { countsOf, isSettled, sweepRows } from "../../core/cluster/sweep/runs.ts";
import {
  claimTrial,
  failed,
  heldClaims,
  isFinal,
  isNone,
  nextTrial,
  readTrial,
  resultOf,
  type SearchSweep,
  settleTrial,
  type TakenTrial,
  takeTrial,
  tellNone,
  type Trial,
  trialOfStart,
  trialRun,
} from "../../core/cluster/sweep/trials.ts";
import type { WatchOptions } from "../../core/cluster/sweep/watch_thread.ts";
import { rankContext } from "../../core/ranks/context.ts";
import { printSweepEnd } from "./sweep_plan.ts";

const say = (line: string): void => console.log(line);

// Here.

/** The exit code is that of the failed runs only where all failed. */
export async function searchLocally(folder: string, sweep: SearchSweep, atOnce: number): Promise<number> {
  const me = await thisHolder(Deno.env.toObject());
  const passed = new Set<number>();
  let result = false;
  const next = async (stopping: () => boolean) => {
    while (!stopping()) {
      const number = await nextTrial(folder, sweep, me, passed);
      if (number !== null) {
        if (passed.has(number)) continue; // those that begin at once are given the same one
        passed.add(number);
        return localRun(folder, sweep, number);
      }
      const [held] = heldClaims(folder, me).filter(({ holder }) => !ours.has(holder.pid));
      if (held === undefined) return null;
      if (!result) say(`Waiting for process ${held.holder.pid}, which trains a run of this sweep.`);
      result = true;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    return null;
  };
  const ours = new Set<number>();
  const code = await runLocally(next, { atOnce, folder, say, started: (pid) => ours.add(pid) });
  const rows = sweepRows(folder, sweep);
  say(countsOf(rows));
  printSweepEnd(sweep, folder);
  if (code === EXIT.stopped && rows.some(({ state }) => !isSettled(state))) return EXIT.stopped;
  return rows.some(({ state }) => state === "done" || state === "pruned") ? EXIT.done : code;
}

function localRun(folder: string, sweep: SearchSweep, number: number) {
  const trial = readTrial(folder, number);
  const { values } = trialRun(sweep, trial);
  return {
    run: trial.run,
    about: Object.entries(values).map(([name, value]) => `${name} ${value}`).join(", "),
    number: number + 1,
    of: sweep.search.maxRuns,
    command: [...thisProgram(), "sweep", "run", folder, String(number)],
    ended: (code: number) => becameOf(sweep, readTrial(folder, number), code),
  };
}

function becameOf({ metric }: SearchSweep, { result }: Trial, code: number): string | null {
  if (result === null) return code === EXIT.done ? "is trained by another process" : null;
  const value = result.value === null ? "" : ` with ${metric} ${formatValue(result.value)}`;
  if (result.state === "done") return `is done${value}`;
  return result.state === "pruned" ? `was stopped early${value}` : `failed with code ${result.code}`;
}

// One trial, in a process of its own.

/** `which` is a number, or "next" in a job array. */
export async function runTrial(
  folder: string,
  sweep: SearchSweep,
  which: string | undefined,
  more: readonly string[],
): Promise<number> {
  const env = Deno.env.toObject();
  const { rank, world } = rankContext(env);
  if (rank > 0) return await train(sweep, await trialOfRank(folder, env, rank), more);
  const me = await thisHolder(env);
  if (which !== "next" && !(/^\d+$/.test(which ?? "") && Number(which) < sweep.search.maxRuns)) {
    throw new UserError(
      "usage",
      `${folder} has runs 0 to ${
        sweep.search.maxRuns - 1
      }. Usage: hpctrain sweep run FOLDER NUMBER, or next.`,
    );
  }
  const taken = which === "next"
    ? await takeTrial(folder, sweep, me)
    : claimTrial(folder, sweep, Number(which), me);
  if (taken === null) {
    if (world > 1 && me.start !== null) tellNone(folder, me.start);
    say(
      which === "next"
        ? "No run of this sweep is left to take."
        : `Run ${which} is over, or another process trains it.`,
    );
    return EXIT.done;
  }
  const parent = which === "next" ? null : { pid: Deno.ppid, started: processStart(Deno.ppid) ?? "" };
  return await trainTaken(folder, sweep, taken, { more, parent });
}

async function trainTaken(
  folder: string,
  sweep: SearchSweep,
  { trial, claim }: TakenTrial,
  { more, parent }: { more: readonly string[]; parent: WatchOptions["parent"] },
): Promise<number> {
  const { number } = trial, logs = join(sweep.saveDir, "logs", trial.run);
  remove(join(logs, "STOP")); // of a stop that came after the end
  const options: WatchOptions = { folder, sweep, number, logs, claim, climb: trial.climb, parent };
  const module = new URL("../../core/cluster/sweep/watch_thread.ts", import.meta.url);
  const thread = startThread(module, "sweep", options);
  let broke: UserError | null = null;
  try {
    const code = await train(sweep, trial, more);
    const pruned = readTrial(folder, number).climb.stoppedAt !== null;
    return pruned ? EXIT.done : code;
  } catch (error) {
    if (error instanceof UserError) broke = error;
    throw error;
  } finally {
    thread.end();
    const result = resultOf(sweep, readTrial(folder, number)) ??
      (broke && isFinal(broke.exitCode) ? failed(broke.exitCode, messageOf(broke)) : null);
    if (result !== null) settleTrial(folder, number, result);
    const evaluations = new Map([[number, evaluationsOf(logs, sweep.metric)]]);
    await tellJournals(
      [folder, sweep, evaluations],
      (title, cause) =>
        console.error(`Warning: ${title} of the sweep could not be written: ${messageOf(cause)}`),
    );
    endClaim(claim);
  }
}

const train = async (sweep: SearchSweep, trial: Trial, more: readonly string[]): Promise<number> => {
  const { run, words } = trialRun(sweep, trial);
  return await (await import("./train.ts")).runTrain([
    ...words,
    ...more,
    `--run-name=${run}`,
    "--resume=auto",
  ]);
};

const PATIENCE_MS = 300_000;

/** The first rank takes a trial for all of its job. */
async function trialOfRank(folder: string, env: Record<string, string>, rank: number): Promise<Trial> {
  const start = await startOfJob(env);
  if (start === null) {
    throw new UserError(
      "usage",
      "HPCTRAIN_SECRET is not set: the ranks of a search's job know each other by it. The scripts of `hpctrain sweep` set it.",
    );
  }
  for (const until = Date.now() + PATIENCE_MS; Date.now() < until;) {
    const trial = trialOfStart(folder, start);
    if (trial !== null) return trial;
    if (isNone(folder, start)) Deno.exit(EXIT.done);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new UserError(
    "communication",
    `Rank ${rank} has waited ${
      PATIENCE_MS / 1000
    } s for rank 0 to take a run of ${folder}. Is the folder one that all nodes share?`,
  );
}
