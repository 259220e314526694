// Saves checkpoints: the latest always, the best when it is one, an epoch's own when asked. May import ffi,
// checkpoint, track, its siblings.
import { allTrue, isfinite } from "../../ffi/ops.ts";
import { scope } from "../../ffi/tensor.ts";
import { linkOrCopy, removeOld } from "../checkpoint/retention.ts";
import { writePt } from "../checkpoint/pt.ts";
import { type Cursor, type Parts, toTree } from "../checkpoint/training_state.ts";
import type { Config } from "../config/settings.ts";
import type { Console } from "../track/console.ts";
import type { EventLog } from "../track/events.ts";
import { VERSION } from "../version.ts";
import { UserError } from "../errors.ts";
import type { Arena } from "./arena.ts";
import { firstNonFinite } from "./non_finite.ts";
import { bestPath, epochPath, latestPath, type Places } from "./names.ts";
import { learningRate, type Schedule } from "./schedule.ts";

interface Context {
  readonly arena: Arena;
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
    refuseSpoilt(c.arena, cursor.step, path);
    const tree = toTree(c.parts, cursor, {
      version: VERSION,
      run: places.run,
      seed: c.config.training.seed,
      learningRate: learningRate(c.schedule, cursor.step),
      scheduler: c.schedule,
      config: c.config,
    });
    const bytes = writePt(path, tree);
    if (better) linkOrCopy(path, bestPath(places));
    if (output.save_every_epoch && reason === "epoch" && cursor.stepInEpoch === 0) {
      linkOrCopy(path, epochPath(places, cursor.epoch));
      if (output.keep_last > 0) removeOld(places.checkpoints, output.keep_last, cursor.epoch);
    }
    c.events.emit({
      kind: "save",
      step: cursor.step,
      epoch: cursor.epoch,
      path,
      bytes,
      seconds: (performance.now() - began) / 1000,
      reason: better ? "best" : reason,
    });
  };
}

/** A step whose loss was finite can leave weights that are not: such a state never replaces a good checkpoint. */
function refuseSpoilt(arena: Arena, step: number, path: string): void {
  if (scope(() => allTrue(isfinite(arena.flat)).item()) !== 0) return;
  throw new UserError(
    "numerics",
    `The weights are no longer finite at step ${step} (first such tensor: ${firstNonFinite(arena)}). ` +
      `Nothing was saved over ${path}. Try a lower --lr, --clip-norm 1, or a longer --warmup.`,
  );
}
