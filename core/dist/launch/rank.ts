// A rank that `hpctrain launch` started: it ends with its supervisor, keeps to its cores, and says how it ended.
// May import ffi/process, errors, notes.
import { dirname, join, resolve } from "../../../deps/path.ts";
import { endWithPipe, runOnCores } from "../../../ffi/process.ts";
import { EXIT, refused, UserError } from "../../errors.ts";
import { CALLED, FILES, LEASH, leave, type RunPlaces, VARIABLE } from "./notes.ts";

/** Before anything else, so that every thread comes to run on these cores. */
export function enterRank(folder: string): void {
  if (!endWithPipe(join(dirname(folder), LEASH))) Deno.exit(EXIT.communication); // the supervisor is no more
  try {
    runOnCores(Deno.readTextFileSync(join(folder, FILES.cores)).split(",").map(Number));
  } catch { /* none were given */ }
}

/**
 * The code to end with. MPI's launchers kill the other ranks when one ends with any code but 0; a run that was stopped on
 * request ends in its own time on each, and the note has its code.
 */
export function leaveEnd(folder: string, code: number, cause?: unknown): number {
  const error = refused(cause, "environment");
  const reason = error === undefined
    ? ""
    : error instanceof UserError
    ? error.message
    : `internal: ${error instanceof Error ? error.message : String(error)}`;
  try {
    leave(folder, "ended", { code, reason, host: Deno.hostname(), at: Date.now() });
  } catch {
    return code;
  }
  return code === EXIT.stopped ? EXIT.done : code;
}

/**
 * For the control thread, which hears of a failure before anybody has ended: MPI's launcher kills all when the first rank
 * ends, and a rank that hangs never comes to say it itself.
 */
export function leaveEarly(code: number, reason: string): void {
  const folder = Deno.env.get(VARIABLE);
  if (!folder) return;
  try {
    leave(folder, "ended", { code, reason, host: Deno.hostname(), at: Date.now() });
  } catch { /* then it has no word */ }
}

/**
 * Tells the supervisor which run this is: its folders get the ranks' output, and a restart goes on from there. A folder that
 * takes no more is no reason to end.
 */
export function tellRun({ run, logs, checkpoints }: RunPlaces): void {
  const folder = Deno.env.get(VARIABLE);
  if (!folder) return;
  try {
    leave(folder, "run", { run, logs: resolve(logs), checkpoints: resolve(checkpoints) });
  } catch (error) {
    const { message } = refused(error, "environment") as Error;
    console.error(
      `warning: ${message} The launcher does not know of this run: its ranks' files are not kept.`,
    );
  }
}

/** What stood before this rank's own arguments on the command line: `launch -n 2 --`; nothing where nobody launched it. */
export function calledAs(): string[] {
  const folder = Deno.env.get(VARIABLE);
  return folder ? JSON.parse(Deno.readTextFileSync(join(dirname(folder), CALLED))) : [];
}
