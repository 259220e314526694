// What watches over a run's steps: the account of its time, where their time goes, a loss that jumps.
// May import ffi, track, config (types), its siblings.
import { cudaName } from "../../ffi/cuda.ts";
import type { Device } from "../../ffi/tensor.ts";
import type { Cursor } from "../checkpoint/training_state.ts";
import type { Config } from "../config/settings.ts";
import type { Facts } from "../models/model.ts";
import { type Account, openAccount, type Waits } from "../track/account.ts";
import { type Flops, openFlops } from "../track/profile/flops.ts";
import { peakOf } from "../track/profile/peaks.ts";
import { openTimes, type Times } from "../track/profile/times.ts";
import { type Guard, openGuard } from "./guards/spikes.ts";
import type { Amp } from "./precision.ts";

export interface Measured {
  readonly account: Account;
  readonly times: Times;
  readonly guard: Guard;
  readonly flops: Flops;
}

export interface Where {
  readonly device: Device;
  readonly amp: Amp;
  /** How many devices there are of this kind. */
  readonly world: number;
  readonly waits: Waits;
}

export function openMeasured({ training }: Config, facts: Facts, done: Cursor, where: Where): Measured {
  const account = openAccount(where.waits), flops = openFlops();
  const tokens = facts.task === "language" ? facts.input.shape[0] : 0;
  return {
    account,
    flops,
    times: openTimes({
      account,
      done: { step: done.step, samples: done.samples },
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
