// What watches over a run's steps: the stopwatch, where their time goes, a loss that jumps.
// May import track, config (types), its siblings.
import type { Config } from "../config/settings.ts";
import type { Facts } from "../models/model.ts";
import { type Flops, openFlops } from "../track/profile/flops.ts";
import { type Laps, openLaps } from "../track/profile/laps.ts";
import { openTimes, type Times } from "../track/profile/times.ts";
import type { Feed } from "./feed.ts";
import { type Guard, openGuard } from "./guards/spikes.ts";

export interface Measured {
  readonly laps: Laps;
  readonly times: Times;
  readonly guard: Guard;
  readonly flops: Flops;
}

export function openMeasured({ training }: Config, feed: Feed, facts: Facts, world: number): Measured {
  const laps = openLaps(), flops = openFlops();
  const tokens = facts.task === "language" ? facts.input.shape[0] : 0;
  return {
    laps,
    flops,
    times: openTimes({
      laps,
      waited: feed.waited,
      tokens,
      perSample: () => flops.perSample,
      peak: training.peak_tflops * 1e12 * world,
    }),
    guard: openGuard({
      on: training.on_spike,
      zscore: training.spike_zscore,
      window: training.spike_window,
      mostSkipped: training.max_skipped_steps,
    }),
  };
}
