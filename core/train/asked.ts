// What is due between two steps: a stop, a save, an end after so many steps; and how a save or a stop is done. May import
// its siblings, track's account.
import { REST, SAVE } from "../track/account.ts";
import { every, isTimed } from "./interval.ts";
import type { Pauses } from "./pauses.ts";
import type { Ending, Run } from "./run.ts";

/** Reasons; null where nothing is due. */
export interface Asked {
  readonly stop: string | null;
  readonly save: string | null;
}

/**
 * `here`: a step is done, or an epoch; else data is waited for. With other ranks it gives what all of them do, at the same
 * step.
 */
export function openAsked(run: Run, pauses: Pauses): (here: boolean) => Asked {
  const { config: { training }, cursor, plan, requests, together } = run;
  const saveDue = every(training.save_interval, plan.stepsPerEpoch);
  const timed = isTimed(training.save_interval);
  return (here) => {
    const due = here && !(together && timed) && saveDue(cursor.step) ? "interval" : null;
    if (!together) return { stop: requests.stop(), save: requests.takeSave() ? "request" : due };
    together.wish(requests, timed && together.team.rank === 0 && saveDue(cursor.step));
    const agreed = here ? together.control.here() : null;
    const within = here ? pauses.takeSave() : null;
    if (agreed?.what === "stop") return { stop: agreed.reason, save: null };
    return { stop: null, save: agreed?.reason ?? within ?? due };
  };
}

/** Whether --max-steps are done. */
export const enough = ({ config: { training }, cursor }: Run): boolean =>
  training.max_steps > 0 && cursor.step >= training.max_steps;

export async function save(run: Run, reason: string, better: boolean): Promise<void> {
  run.together?.control.phase("save");
  run.account.lap(REST);
  await run.saver.save(reason, better);
  run.account.lap(SAVE);
}

export async function stopped(run: Run, reason: string): Promise<Ending> {
  await save(run, "stop", false);
  return stoppedFor(reason);
}

/** Of a run whose last save has all of it. */
export const stoppedFor = (reason: string): Ending => ({
  outcome: `Stopped on request (${reason})`,
  stopped: true,
});
