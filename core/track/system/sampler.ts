// How this rank and its machine are, as an event: now, and since the last time. Off the training thread.
// May import ffi's NVML, its siblings, event types.
import { openNvml } from "../../../ffi/nvml.ts";
import type { SystemEvent } from "../event_types.ts";
import { ratesBetween, readCounters } from "./process.ts";

export interface SystemSetup {
  readonly rank: number;
  readonly world: number;
  /** Seconds between two events. */
  readonly interval: number;
  /** Folder of the run, where ranks other than the first leave what they have. */
  readonly logs: string;
  /** The rank's GPU, as CUDA names it ("GPU-8f...-..."); null on a CPU. */
  readonly gpu: string | null;
}

export interface Sampler {
  sample(step: number): SystemEvent;
  close(): void;
}

export function openSampler({ rank, world, gpu }: Pick<SystemSetup, "rank" | "world" | "gpu">): Sampler {
  const nvml = gpu === null ? null : openNvml(gpu);
  const host = Deno.hostname();
  let before = readCounters();
  return {
    sample(step) {
      const now = readCounters();
      const { rss_bytes = 0, ...rates } = ratesBetween(before, now);
      before = now;
      const whose = world > 1 ? { rank, host } : {};
      return { kind: "system", step, ...whose, rss_bytes, ...rates, ...nvml?.read() };
    },
    close: () => nvml?.close(),
  };
}
