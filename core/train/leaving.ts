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
