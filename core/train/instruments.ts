// The clocks of a run: whose time it was, how many samples a second, and how much of the device's peak.
import type { Device } from "../../ffi/tensor.ts";
import { cudaName, gpuBackend } from "../../ffi/cuda.ts";
import type { Cursor } from "../checkpoint/training_state.ts";
import { openAccount, openTimes } from "../run/account.ts";
import type { Built } from "./build.ts";
import type { Launch } from "./launch.ts";
import type { Feed } from "./feed.ts";
import { peakOf } from "./peaks.ts";
import type { Amp } from "./precision.ts";
import { openFlops } from "./throughput.ts";

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
