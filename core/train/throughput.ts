// Training speed, the time left, and the operations of a sample.
import { countFlops } from "../../ffi/profile.ts";
import type { Device } from "../../ffi/tensor.ts";
import { cudaName, gpuBackend } from "../../ffi/cuda.ts";
import type { Cursor } from "../checkpoint/training_state.ts";
import { openAccount, openTimes } from "../run/account.ts";
import type { Built } from "./build.ts";
import type { Launch } from "./launch.ts";
import type { Feed } from "./feed.ts";
import { peakOf } from "./peaks.ts";
import type { Amp } from "./precision.ts";

/** A power of two; a step leaves the window after 30 s. */
const STEPS = 128, MASK = STEPS - 1;
const MAX_AGE_MS = 30_000;

export type Throughput = ReturnType<typeof openThroughput>;

/**
 * A plain quotient of sums, never a median: a stall every twenty steps is part of it. The first step warms
 * up, and is not in the window.
 */
export function openThroughput(now: () => number = () => performance.now()) {
  // A rate is one subtraction, since it may be read at each of a thousand steps a second.
  const ended = new Float64Array(STEPS);
  const msBefore = new Float64Array(STEPS);
  const samplesBefore = new Float64Array(STEPS);
  let ms = 0, samples = 0;
  let next = 0, count = 0, warm = false;
  let last = now();
  let epochSamples = 0, epochMs = 0;

  function rate(): number | null {
    while (count > 1 && last - ended[(next - count) & MASK] > MAX_AGE_MS) count--;
    const oldest = (next - count) & MASK;
    const took = count > 0 ? ms - msBefore[oldest] : 0;
    return took > 0 ? (samples - samplesBefore[oldest]) * 1000 / took : null;
  }

  return {
    /** So many samples of the global batch. It allocates nothing. */
    step(n: number): void {
      const time = now();
      const took = time - last;
      last = time;
      epochSamples += n;
      epochMs += took;
      if (!warm) {
        warm = true;
        return;
      }
      ended[next] = time;
      msBefore[next] = ms;
      samplesBefore[next] = samples;
      ms += took;
      samples += n;
      next = (next + 1) & MASK;
      if (count < STEPS) count++;
    },
    /** An evaluation or a save is not training time. */
    pause(): void {
      // This time belongs to the epoch, though not to a step of the window.
      epochMs += now() - last;
      last = now();
    },
    resume(): void {
      last = now();
    },
    /** Over the window; null until two steps were seen. */
    rate,
    startEpoch(): void {
      epochSamples = 0;
      epochMs = 0;
      last = now();
    },
    /** Training time alone counts; null before the first step. */
    epochRate: (): number | null => epochMs > 0 && epochSamples > 0 ? epochSamples * 1000 / epochMs : null,
    /** For so many samples; null while the rate is unknown. */
    secondsLeft(n: number): number | null {
      const perSecond = rate();
      return perSecond === null ? null : Math.max(0, n) / perSecond;
    },
  };
}

/** Backward computes two products for one of forward. */
const WITH_BACKWARD = 3;

export function openFlops() {
  let perSample: number | null = null, begun = false;
  return {
    /** Null before the first forward pass has counted them. */
    get perSample(): number | null {
      return perSample;
    },
    /** Called before each step, with the rows of its first batch. */
    before(rows: number): void {
      if (begun || rows === 0) return;
      begun = true;
      countFlops((operations) => perSample = WITH_BACKWARD * operations / rows);
    },
  };
}

/** The clocks of a run: whose time it was, how many operations a sample takes, and how much of the device's peak. */
export function openInstruments(
  { config: { training }, device, team }: Launch,
  { data, amp }: Built,
  feed: Feed,
  cursor: Cursor,
) {
  const waits = { data: feed.waited, communication: team?.collectives.waited ?? (() => 0) };
  const account = openAccount(waits), flops = openFlops(), { facts } = data.train;
  const times = openTimes({
    account,
    done: { step: cursor.step, samples: cursor.samples },
    tokens: facts.task === "language" ? facts.input.shape[0] : 0,
    perSample: () => flops.perSample,
    peak: 1e12 * (team?.world ?? 1) * (training.peak_tflops || knownPeak(training.tf32, device, amp)),
  });
  return { account, flops, times };
}

/** 1e12 operations a second; 0 where it is not known. */
function knownPeak(tf32: boolean, device: Device, amp: Amp): number {
  if (device === "cpu") return 0;
  const kind = amp !== "off" ? amp : tf32 && gpuBackend().tf32Since !== null ? "tf32" : "fp32";
  return peakOf(cudaName(Number(device.slice("cuda:".length))), kind) ?? 0;
}
