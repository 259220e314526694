// How the executable leaves a run: with its code, whatever signals come, and soon. A program of the user's own
// that trains is never ended.
import { startThread, type Thread } from "../base/threads.ts";
import { outlastSignals } from "./stop.ts";

export type LeavingMessage =
  | { readonly code: number; readonly reason: string; readonly requested: boolean }
  | "saved";

let thread: Thread<never> | null = null;

/** `reason` is a failure's. A later code counts more. */
export function leaveWith(code: number, reason = ""): void {
  const message: LeavingMessage = { code, reason, requested: outlastSignals() };
  if (thread === null) {
    thread = startThread(new URL("./leaving_thread.ts", import.meta.url), "leaving", message);
  } else thread.post(message);
}

/** The last save of all ranks is in place, or failed: from now on the end is waited for with a limit. */
export function leaveSoon(): void {
  const message: LeavingMessage = "saved";
  thread?.post(message);
}

// An end that hangs, in a library's last calls or on a disk that has gone, is made to come.

/** The last save is in place: what may still be written must not hold a node, or a job that goes back to its queue. */
export const MOST_SECONDS = 30;

export interface ExitBound {
  /** The process should end with this code. The newest one counts. */
  expect(code: number): void;
  /** From now on it has so many seconds. */
  begin(): void;
  /** Ctrl-C; the second one ends the process. `requested`: the first was a request to stop before this. */
  interrupt(): void;
  requested(): void;
}

export interface ExitPorts {
  end(code: number, why: string): void;
  say(line: string): void;
  /** Calls `act` in so many seconds. */
  after(seconds: number, act: () => void): void;
}

export function openExitBound({ end, say, after }: ExitPorts): ExitBound {
  let code = 0, requested = false, begun = false;
  return {
    expect: (now) => void (code = now),
    begin() {
      if (begun) return;
      begun = true;
      after(MOST_SECONDS, () => end(code, `The end took longer than ${MOST_SECONDS} s after the last save`));
    },
    requested: () => void (requested = true),
    interrupt() {
      if (requested) return end(code, "Ctrl-C once more");
      requested = true;
      say("Ctrl-C: this process is about to end. Once more ends it at once.");
    },
  };
}
