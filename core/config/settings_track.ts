// Settings of what a run tells of itself and guards against; they stand in the sections training and output.
import { choice, duration, float, int, text } from "./kinds.ts";

/** Of training. */
export const guards = {
  on_spike: choice(["off", "warn", "skip", "rewind"], "off", {
    flag: "on-spike",
    help:
      "when the loss jumps: say so, leave that step out, or go back to the last checkpoint and leave those batches out",
  }),
  spike_zscore: float(8, {
    min: 1,
    max: 1000,
    help: "a loss is a spike this many standard deviations above the mean of the last ones",
  }),
  spike_window: int(100, { min: 10, max: 1e6, help: "losses that a spike is judged by" }),
  peak_tflops: float(0, {
    min: 0,
    max: 1e9,
    flag: "peak-tflops",
    empty: "known of most GPUs",
    help:
      "what one device can do, in 1e12 operations a second: for the share of it that training makes use of (mfu)",
  }),
  profile_steps: text("10-20", {
    flag: "profile-steps",
    pattern: {
      regex: /^[1-9]\d{0,8}(-[1-9]\d{0,8})?$/,
      says: "steps of this start of the run such as 10-20",
    },
    help: "steps that --profile-training looks at, counted from where this process begins",
  }),
};

/** Of output. */
export const telling = {
  on_event: text("", {
    flag: "on-event",
    empty: "none",
    help: "command that gets warnings, spikes, failed saves and the end of the run as JSON on its input",
  }),
  system_interval: duration("10s", ["seconds"], {
    flag: "system-interval",
    help: "how often each rank notes memory, processor, disk, network and GPU; 0 never",
  }),
};
