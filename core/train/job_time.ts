// A run that stops by itself when its job's time is nearly over. May import cluster, run (types).
import { jobIn } from "../cluster/scheduler.ts";
import { openTimeLeft, timeIsShort } from "../cluster/time_left.ts";
import type { Run } from "./run.ts";

/** Until a save was measured: a shared disk on a bad day. */
const BYTES_PER_SECOND = 100e6;
/** Weights and what optimizers keep beside them. */
const COPIES = 3;

/** Without effect outside of a scheduler's job. To be called on the first rank alone. */
export function watchJobTime(run: Run, env: Record<string, string>, began: number): void {
  const job = jobIn(env);
  if (job === null) return;
  const time = openTimeLeft({ job, env, began });
  const guess = 1 + COPIES * run.step.arena.flat.byteLength / BYTES_PER_SECOND;
  run.requests.watchTime(() => {
    const left = time.now();
    return left && timeIsShort(left, run.saver.told.saves > 0 ? run.saver.told.longest : guess);
  }, time.close);
}
