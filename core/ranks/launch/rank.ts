// A rank that `hpctrain launch` started. MPI's launchers change exit codes and delay signals, so it writes
// how it ended into a private folder.
import { readText } from "../../base/files.ts";
import { dirname, join, resolve } from "../../../deps/path.ts";
import { endWithPipe, runOnCores } from "../../../ffi/libc.ts";
import { EXIT, messageOf, refused, UserError } from "../../base/errors.ts";
import { JobFailed } from "../control/failure.ts";
import { LAUNCH_VARIABLE } from "../launchers.ts";

/** It runs before anything else, so that every thread comes to run on these cores. */
export function enterRank(folder: string): void {
  if (!endWithPipe(join(dirname(folder), LEASH))) Deno.exit(EXIT.communication); // the supervisor is no more
  try {
    runOnCores(Deno.readTextFileSync(join(folder, RANK_FILES.cores)).split(",").map(Number));
  } catch { /* none were given */ }
}

/**
 * Gives the code to end with. MPI's launchers kill the other ranks when one ends with any code but 0; a run
 * that was stopped on request ends in its own time on each, and the note has its code.
 */
export function writeEnd(folder: string, code: number, cause?: unknown): number {
  const error = refused(cause, "environment");
  const reason = error === undefined
    ? ""
    : error instanceof UserError
    ? error.message
    : `internal: ${messageOf(error)}`;
  try {
    const about = error instanceof JobFailed ? error.about : null;
    writeNote(folder, "ended", { code, reason, about, host: Deno.hostname(), at: Date.now() });
  } catch {
    return code;
  }
  return codeForLauncher(code);
}

const codeForLauncher = (code: number): number => code === EXIT.stopped ? EXIT.done : code;

/** For a rank whose end hangs, from another thread: what it has noted before stays. Gives the code to end with. */
export function writeForcedEnd(code: number, reason: string): number {
  const folder = Deno.env.get(LAUNCH_VARIABLE);
  if (!folder) return code;
  if (readText(join(folder, RANK_FILES.ended)) === null) writeEarlyEnd(code, reason, null);
  return codeForLauncher(code);
}

/**
 * The control thread learns of a failure before any rank has ended: MPI's launcher kills all when the first
 * rank ends, and a hanging rank can't report it itself.
 */
export function writeEarlyEnd(code: number, reason: string, about: number | null): void {
  const folder = Deno.env.get(LAUNCH_VARIABLE);
  if (!folder) return;
  try {
    writeNote(folder, "ended", { code, reason, about, host: Deno.hostname(), at: Date.now() });
  } catch { /* then it has no word */ }
}

/** The supervisor stores the ranks' output in the run's folders, and a restart goes on from there. */
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

/**
 * Gives the words before this rank's own arguments on the command line, such as `launch -n 2 --`; none
 * outside a launch.
 */
export function launchCommand(): string[] {
  const folder = Deno.env.get(LAUNCH_VARIABLE);
  return folder ? JSON.parse(Deno.readTextFileSync(join(dirname(folder), COMMAND_FILE))) : [];
}

export interface RankEnding {
  readonly code: number;
  readonly reason: string;
  /** The reason begins with this rank's name; null where it names none. */
  readonly about: number | null;
  readonly host: string;
  readonly at: number;
}

export interface RunFolders {
  readonly run: string;
  readonly logs: string;
  readonly checkpoints: string;
}

export const LEASH = "leash";
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
export const rankRun = (folder: string, rank: number): RunFolders | null =>
  found(rankFolder(folder, rank), "run");

export function pidOf(folder: string, rank: number): number | null {
  return Number(readText(join(rankFolder(folder, rank), RANK_FILES.pid))?.trim()) || null;
}

function found<T>(folder: string, file: "ended" | "run"): T | null {
  const json = readText(join(folder, RANK_FILES[file]));
  return json === null ? null : JSON.parse(json);
}
