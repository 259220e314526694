// Saves checkpoints: the latest always, the best when it is one, an epoch's own when asked. May import checkpoint,
// track, its siblings.
import { linkOrCopy, removeOld } from "../checkpoint/retention.ts";
import { writePt } from "../checkpoint/pt.ts";
import { type Cursor, type Parts, toTree } from "../checkpoint/training_state.ts";
import type { Config } from "../config/settings.ts";
import type { Console } from "../track/console.ts";
import type { EventLog } from "../track/events.ts";
import { VERSION } from "../version.ts";
import { bestPath, epochPath, latestPath, type Places } from "./names.ts";
import { learningRate, type Schedule } from "./schedule.ts";

interface Context {
  readonly config: Config;
  readonly places: Places;
  readonly parts: Parts;
  readonly cursor: Cursor;
  readonly schedule: Schedule;
  readonly events: EventLog;
  readonly console: Console;
}

export function saver(c: Context): (reason: string, better: boolean) => void {
  const { config: { output }, places, cursor } = c;
  return (reason, better) => {
    const began = performance.now();
    const path = latestPath(places);
    const tree = toTree(c.parts, cursor, {
      version: VERSION,
      run: places.run,
      seed: c.config.training.seed,
      learningRate: learningRate(c.schedule, cursor.step),
      scheduler: c.schedule,
      config: c.config,
    });
    writePt(path, tree);
    if (better) linkOrCopy(path, bestPath(places));
    if (output.save_every_epoch && reason === "epoch") {
      linkOrCopy(path, epochPath(places, cursor.epoch));
      if (output.keep_last > 0) removeOld(places.checkpoints, output.keep_last, cursor.epoch);
    }
    c.events.emit({
      kind: "save",
      step: cursor.step,
      epoch: cursor.epoch,
      path,
      bytes: Deno.statSync(path).size,
      seconds: (performance.now() - began) / 1000,
      reason: better ? "best" : reason,
    });
  };
}
