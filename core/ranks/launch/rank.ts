// A rank that `hpctrain launch` started: it ends with its supervisor, keeps to its cores, and writes how it ended
// into a private folder, because MPI's launchers change exit codes and delay signals.
import { dirname, join, resolve } from "../../../deps/path.ts";
import { endWithPipe, runOnCores } from "../../../ffi/libc.ts";
import { EXIT, refused, UserError } from "../../base/errors.ts";
import { JobFailed } from "../control/failure.ts";

/** Before anything else, so that every thread comes to run on these cores. */
export function enterRank(folder: string): void {
  if (!endWithPipe(join(dirname(folder), LEASH))) Deno.exit(EXIT.communication); // the supervisor is no more
  try {
    runOnCores(Deno.readTextFileSync(join(folder, RANK_FILES.cores)).split(",").map(Number));
  } catch { /* none were given */ }
}

/**
 * The code to end with. MPI's launchers kill the other ranks when one ends with any code but 0; a run that was stopped on
 * request ends in its own time on each, and the note has its code.
 */
export function writeEnd(folder: string, code: number, cause?: unknown): number {
  const error = refused(cause, "environment");
  const reason = error === undefined
    ? ""
    : error instanceof UserError
    ? error.message
    : `internal: ${error instanceof Error ? error.message : String(error)}`;
  try {
    const about = error instanceof JobFailed ? error.about : null;
    writeNote(folder, "ended", { code, reason, about, host: Deno.hostname(), at: Date.now() });
  } catch {
    return code;
  }
  return code === EXIT.stopped ? EXIT.done : code;
}

/**
 * For the control thread, which hears of a failure before anybody has ended: MPI's launcher kills all when the first rank
 * ends, and a rank that hangs never comes to say it itself.
 */
export function writeEarlyEnd(code: number, reason: string, about: number | null): void {
  const folder = Deno.env.get(LAUNCH_VARIABLE);
  if (!folder) return;
  try {
    writeNote(folder, "ended", { code, reason, about, host: Deno.hostname(), at: Date.now() });
  } catch { /* then it has no word */ }
}

/**
 * Tells the supervisor which run this is: its folders get the ranks' output, and a restart goes on from there. A folder that
 * takes no more is no reason to end.
 */
export function writeRun({ run, logs, checkpoints }: RunFolders): void {
  const folder = Deno.env.get(LAUNCH_VARIABLE);
  if (!folder) return;
  try {
    writeNote(folder, "run", { run, logs: resolve(logs), checkpoints: resolve(checkpoints) });
  } catch (error) {
    const { message } = refused(error, "environment") as Error;
    console.error(
      `warning: ${message} The launcher does not know of this run: its ranks' files are not kept.`,
    );
  }
}

/** The words before this rank's own arguments on the command line: `launch -n 2 --`; nothing where nobody launched it. */
export function launchCommand(): string[] {
  const folder = Deno.env.get(LAUNCH_VARIABLE);
  return folder ? JSON.parse(Deno.readTextFileSync(join(dirname(folder), COMMAND_FILE))) : [];
}

// The supervisor and its ranks exchange notes through a private folder, because MPI's launchers stand between them:
// codes are changed there, signals and text delayed.

/** How a rank ended, in its own words. A rank that was killed leaves none. */
export interface RankEnding {
  readonly code: number;
  /** The sentence of an error; empty where there was none. */
  readonly reason: string;
  /** The rank that the reason is about, and begins with the name of; null where it names none. */
  readonly about: number | null;
  readonly host: string;
  /** Unix milliseconds. */
  readonly at: number;
}

/** The run that is being trained, as absolute paths. */
export interface RunFolders {
  readonly run: string;
  readonly logs: string;
  readonly checkpoints: string;
}

/** Names a rank's own part of the folder; only ranks that `launch` started have it. */
export const LAUNCH_VARIABLE = "HPCTRAIN_LAUNCH";

/** While the supervisor lives it holds this pipe. */
export const LEASH = "leash";
/** The supervisor's own words, as JSON: for lines that say how to go on. */
export const COMMAND_FILE = "called";

export const rankFolder = (folder: string, rank: number): string => join(folder, String(rank));
export const RANK_FILES = {
  out: "out",
  err: "err",
  pid: "pid",
  cores: "cores",
  ended: "ended",
  run: "run",
} as const;

function writeNote(folder: string, file: "ended" | "run", what: RankEnding | RunFolders): void {
  const written = Deno.makeTempFileSync({ dir: folder }); // two threads may say it at once
  Deno.writeTextFileSync(written, JSON.stringify(what));
  Deno.renameSync(written, join(folder, RANK_FILES[file])); // there as a whole, or not at all
}

export const endOf = (folder: string, rank: number): RankEnding | null =>
  found(rankFolder(folder, rank), "ended");
export const runOf = (folder: string, rank: number): RunFolders | null =>
  found(rankFolder(folder, rank), "run");

export function pidOf(folder: string, rank: number): number | null {
  return Number(text(join(rankFolder(folder, rank), RANK_FILES.pid))?.trim()) || null;
}

function found<T>(folder: string, file: "ended" | "run"): T | null {
  const json = text(join(folder, RANK_FILES[file]));
  return json === null ? null : JSON.parse(json);
}

function text(path: string): string | null {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return null; // not there yet
  }
}
