// Back to the last checkpoint after a spike: its weights and optimizer's state are taken again, the batches since are left
// out, and steps go on counting. Every rank calls it at the same step. May import checkpoint, dist (types), its siblings.
import type { Run } from "../run.ts";

/** Where a run's weights can be taken from again: gives the step they are of, or null when there is no checkpoint yet. */
export type GoBack = () => { step: number; path: string } | null;

export async function rewind(run: Run): Promise<void> {
  const { guard, cursor, events, console, saver } = run;
  const spike = guard.pending!;
  run.together?.control.phase("starting");
  await saver.settle().catch(() => {}); // a disk that refused a save has told so; what was saved before is there
  const back = run.goBack();
  if (back === null) {
    guard.pending = null;
    return warn(run, `${spike.message}. There is no checkpoint to go back to yet (--on-spike rewind).`);
  }
  guard.wentBack(back.step);
  const message = `${spike.message}: going back to the weights of step ${back.step}; the batches of steps ` +
    `${back.step + 1} to ${cursor.step} are left out (--on-spike rewind).`;
  console.warn(message);
  events.emit({
    kind: "rewind",
    step: cursor.step,
    epoch: cursor.epoch + 1,
    to_step: back.step,
    path: back.path,
    reason: spike.message,
  });
  events.emit({ kind: "warning", step: spike.step, message, about: "spike" });
}

function warn({ console, events }: Run, message: string): void {
  console.warn(message);
  events.emit({ kind: "warning", message, about: "spike" });
}
