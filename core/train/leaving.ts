// How the executable leaves a run: with its code, whatever signals come, and soon. A program of the user's own
// that trains is never ended.
import { startThread, type Thread } from "../base/threads.ts";
import { outlastSignals } from "./stop.ts";

export type LeavingMessage =
  | { readonly code: number; readonly reason: string; readonly requested: boolean }
  | "saved";

type Tell = (message: LeavingMessage) => void;

/** A thread that has nothing more to do takes what it is told to a module's `take`; null where there is none. */
export type Lend = (module: URL) => ((message: unknown) => void) | null;

let tell: Tell | null = null;

/** `reason` is a failure's. A later code counts more. The training thread waits some 25 ms for a thread that begins. */
export function leaveWith(code: number, reason = "", lend: Lend | null = null): void {
  const message: LeavingMessage = { code, reason, requested: outlastSignals() };
  if (tell !== null) return tell(message);
  tell = lend?.(new URL("./leaving_bound.ts", import.meta.url)) ?? null;
  if (tell !== null) return tell(message);
  const thread: Thread<never> = startThread(
    new URL("./leaving_thread.ts", import.meta.url),
    "leaving",
    message,
  );
  tell = thread.post;
}

/** The last save of all ranks is in place, or failed: from now on the end is waited for with a limit. */
export function leaveSoon(): void {
  tell?.("saved");
}

// An end that hangs, in a library's last calls or on a disk that has gone, is made to come.

/** The last save is in place: what may still be written must not hold a node, or a job that goes back to its queue. */
const MOST_SECONDS = 30;

/** `after` calls in so many seconds. */
export function openExitBound({ end, say, after }: {
  end(code: number, why: string): void;
  say(line: string): void;
  after(seconds: number, act: () => void): void;
}) {
  let code = 0, requested = false, begun = false;
  return {
    /** The process should end with this code. The newest one counts. */
    expect: (now: number) => void (code = now),
    /** From now on it has so many seconds. */
    begin(): void {
      if (begun) return;
      begun = true;
      after(MOST_SECONDS, () => end(code, `The end took longer than ${MOST_SECONDS} s after the last save`));
    },
    /** A first request to stop came before this. */
    requested: () => void (requested = true),
    /** Ctrl-C; the second one ends the process. */
    interrupt(): void {
      if (requested) return end(code, "Ctrl-C once more");
      requested = true;
      say("Ctrl-C: this process is about to end. Once more ends it at once.");
    },
  };
}
