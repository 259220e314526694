// The thread beside a trial's training: it keeps the claim alive, tells journals of evaluations, and asks a losing run to
// stop. Training itself never waits for it.
import { join } from "../../../deps/path.ts";
import type { ThreadScope } from "../../base/threads.ts";
import { EventFollower } from "../../run/event_log.ts";
import type { Event } from "../../run/events.ts";
import { type Claim, isLast, processStart, TOUCH_MS, touchClaim } from "./claims.ts";
import { type Climb, evaluationOf, type TrialEvaluation } from "./metric.ts";
import { tellJournals } from "./journals.ts";
import { climberOf } from "./search.ts";
import { othersAt, type SearchSweep, writeClimb } from "./trials.ts";

declare const self: ThreadScope;

export interface WatchOptions {
  readonly folder: string;
  readonly sweep: SearchSweep;
  readonly number: number;
  /** The run's folder, where STOP asks it to stop. */
  readonly logs: string;
  readonly claim: Claim;
  readonly climb: Climb;
  /** Without this process the run is to stop; null for a run that has none. */
  readonly parent: { readonly pid: number; readonly started: string } | null;
}

const POLL_MS = 200;
const TELL_MS = 2_000;

self.onmessage = async ({ data }: MessageEvent<WatchOptions>) => {
  const { folder, sweep, number, logs, claim, parent } = data;
  let now = data.climb, end = Infinity, orphan = false, stopRequested = false;
  const evaluations: TrialEvaluation[] = [], climb = await climberOf(sweep.search);
  const see = (event: Event) => {
    if (event.kind === "config") end = endOf(event.config, sweep);
    const evaluation = evaluationOf(event, sweep.metric);
    if (evaluation === null) return;
    evaluations.push(evaluation);
    if (sweep.search.rungs === null || climb === null || now.stoppedAt !== null) return;
    const value = sweep.goal === "maximize" ? -evaluation.value : evaluation.value;
    const after = climb(now, { ...evaluation, value }, sweep.search.rungs, {
      end,
      othersAt: (rung) => othersAt(folder, number, rung),
    });
    if (after === now) return;
    writeClimb(folder, number, now = after); // before it stops: whoever takes it up knows
  };
  const log = new EventFollower(join(logs, "events.jsonl"), see, () => evaluations.splice(0));
  let touched = performance.now(), reportedAt = -Infinity, reportedStep = -1; // it is told that the run begins
  for (;;) {
    log.poll();
    if (!orphan && parent !== null && processStart(parent.pid) !== parent.started) orphan = true;
    if (!stopRequested && (now.stoppedAt !== null || orphan)) stopRequested = askToStop(logs);
    const at = performance.now();
    if (at - touched > TOUCH_MS) {
      if (!isLast(claim)) Deno.kill(Deno.pid, "SIGKILL"); // this machine slept, and another one has the trial now
      touchClaim(claim);
      touched = at;
    }
    if (at - reportedAt > TELL_MS && evaluations.length !== reportedStep) {
      [reportedAt, reportedStep] = [at, evaluations.length];
      await tellJournals([folder, sweep, new Map([[number, evaluations]])], () => {}); // the end tells all
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
};

/** Where the run ends by itself, in the unit of the rungs. */
function endOf(config: unknown, { search: { rungs } }: SearchSweep): number {
  const { epochs, max_steps } =
    (config as { training?: { epochs?: number; max_steps?: number } })?.training ?? {};
  return (rungs?.unit === "steps" ? max_steps : epochs) || Infinity;
}

/** The file is the one way that reaches all ranks and keeps the job from the queue. False where the run has no folder yet. */
function askToStop(logs: string): boolean {
  try {
    Deno.writeTextFileSync(join(logs, "STOP"), "");
    return true;
  } catch {
    return false;
  }
}
