// What watches over a run's steps: the stopwatch, where their time goes, a loss that jumps.
// May import ffi, track, config (types), its siblings.
import { cudaName } from "../../ffi/cuda.ts";
import type { Device } from "../../ffi/tensor.ts";
import type { Config } from "../config/settings.ts";
import type { Facts } from "../models/model.ts";
import { type Flops, openFlops } from "../track/profile/flops.ts";
import { type Laps, openLaps } from "../track/profile/laps.ts";
import { peakOf } from "../track/profile/peaks.ts";
import { openTimes, type Times } from "../track/profile/times.ts";
import type { Feed } from "./feed.ts";
import { type Guard, openGuard } from "./guards/spikes.ts";
import type { Amp } from "./precision.ts";

export interface Measured {
  readonly laps: Laps;
  readonly times: Times;
  readonly guard: Guard;
  readonly flops: Flops;
}

export interface Where {
  readonly device: Device;
  readonly amp: Amp;
  /** How many devices there are of this kind. */
  readonly world: number;
}

export function openMeasured({ training }: Config, feed: Feed, facts: Facts, where: Where): Measured {
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
      peak: 1e12 * where.world * (training.peak_tflops || knownPeak(training.tf32, where)),
    }),
    guard: openGuard({
      on: training.on_spike,
      zscore: training.spike_zscore,
      window: training.spike_window,
      mostSkipped: training.max_skipped_steps,
    }),
  };
}

/** What the device can do by its name, in 1e12 operations a second; 0 where that is not known. */
function knownPeak(tf32: boolean, { device, amp }: Where): number {
  if (device === "cpu") return 0;
  const kind = amp !== "off" ? "half" : tf32 ? "tf32" : "fp32";
  return peakOf(cudaName(Number(device.slice("cuda:".length))), kind) ?? 0;
}
