// NVML: what an NVIDIA GPU tells of itself. It works from any thread; without the library or the GPU there is no reading.
import { BACKENDS, openFirst } from "./backends.ts";
import type { GpuMonitor } from "./monitor.ts";

const verbs = {
  nvmlInit_v2: { parameters: [], result: "i32" },
  nvmlShutdown: { parameters: [], result: "i32" },
  nvmlDeviceGetHandleByUUID: { parameters: ["buffer", "buffer"], result: "i32" },
  nvmlDeviceGetUtilizationRates: { parameters: ["u64", "buffer"], result: "i32" },
  nvmlDeviceGetMemoryInfo: { parameters: ["u64", "buffer"], result: "i32" },
  nvmlDeviceGetPowerUsage: { parameters: ["u64", "buffer"], result: "i32" },
  nvmlDeviceGetTemperature: { parameters: ["u64", "u32", "buffer"], result: "i32" },
  nvmlDeviceGetClockInfo: { parameters: ["u64", "u32", "buffer"], result: "i32" },
  nvmlDeviceGetCurrentClocksThrottleReasons: { parameters: ["u64", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const ON_DIE = 0, SM = 1, MEMORY = 2;

/**
 * Bits of nvmlClocksThrottleReasons that mean less speed than the GPU has; neither idleness nor the user's
 * own clocks count.
 */
const REASONS: readonly (readonly [bit: bigint, name: string])[] = [
  [0x4n, "power cap"],
  [0x8n, "hardware slowdown"],
  [0x10n, "slowest GPU of a group"],
  [0x20n, "software thermal slowdown"],
  [0x40n, "hardware thermal slowdown"],
  [0x80n, "power brake"],
];

/** `uuid` has CUDA's form: "GPU-8f6f...". */
export function openNvml(uuid: string, paths = BACKENDS.cuda.management): GpuMonitor | null {
  let library;
  try {
    library = openFirst(paths, verbs);
  } catch {
    return null; // no driver, or a container without its tools
  }
  const { symbols: nvml } = library;
  const words = new Uint32Array(2), longs = new BigUint64Array(3);
  if (nvml.nvmlInit_v2() !== 0) return library.close(), null;
  const name = new TextEncoder().encode(uuid + "\0");
  if (nvml.nvmlDeviceGetHandleByUUID(name, longs) !== 0) {
    nvml.nvmlShutdown();
    library.close();
    return null;
  }
  const gpu = longs[0];
  const ifGood = <T>(code: number, value: () => T): T | undefined => code === 0 ? value() : undefined;
  const word = (code: number) => ifGood(code, () => words[0]);
  return {
    read() {
      const use = ifGood(nvml.nvmlDeviceGetUtilizationRates(gpu, words), () => [...words]);
      const memory = ifGood(nvml.nvmlDeviceGetMemoryInfo(gpu, longs), () => [...longs].map(Number));
      const milliwatts = word(nvml.nvmlDeviceGetPowerUsage(gpu, words));
      return {
        gpu_percent: use?.[0],
        gpu_memory_percent: use?.[1],
        gpu_memory_bytes: memory?.[2],
        gpu_memory_total_bytes: memory?.[0],
        gpu_power_w: milliwatts === undefined ? undefined : milliwatts / 1000,
        gpu_temperature_c: word(nvml.nvmlDeviceGetTemperature(gpu, ON_DIE, words)),
        gpu_clock_mhz: word(nvml.nvmlDeviceGetClockInfo(gpu, SM, words)),
        gpu_memory_clock_mhz: word(nvml.nvmlDeviceGetClockInfo(gpu, MEMORY, words)),
        gpu_throttle: ifGood(
          nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu, longs),
          () => reasons(longs[0]),
        ),
      };
    },
    close() {
      nvml.nvmlShutdown();
      library.close();
    },
  };
}

const reasons = (bits: bigint): string[] => REASONS.filter(([bit]) => bits & bit).map(([, name]) => name);
