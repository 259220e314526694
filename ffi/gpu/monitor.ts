// A GPU tells of itself while it computes, by its vendor's library: NVML or ROCm SMI. It needs no libtorch, and any thread may ask.
import { BACKENDS, type GpuKind, openFirst } from "./backends.ts";

export interface GpuState {
  readonly gpu_percent?: number;
  readonly gpu_memory_percent?: number;
  readonly gpu_memory_bytes?: number;
  readonly gpu_memory_total_bytes?: number;
  readonly gpu_power_w?: number;
  readonly gpu_temperature_c?: number;
  readonly gpu_clock_mhz?: number;
  readonly gpu_memory_clock_mhz?: number;
  /** Errors of its memory that were not corrected, since its driver was loaded. */
  readonly gpu_memory_errors?: number;
  readonly gpu_throttle?: readonly string[];
}

interface GpuMonitor {
  read(): GpuState;
  close(): void;
}

/** A GPU, for a thread that has no libtorch. */
export interface GpuName {
  readonly kind: GpuKind;
  /** "GPU-8f6f...", as its driver has it. */
  readonly uuid: string;
}

/** Null where the library is missing or does not know the GPU. */
export function openGpuMonitor({ kind, uuid }: GpuName): GpuMonitor | null {
  const open = kind === "hip" ? openRocmSmi : openNvml;
  return open(uuid, BACKENDS[kind].management);
}

// NVML: what an NVIDIA GPU tells of itself. It works from any thread; without the library or the GPU there is no reading.

const NVML = {
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
    library = openFirst(paths, NVML);
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

// ROCm SMI: what an AMD GPU tells of itself. Names, numbers and places in records are those of its public header
// (include/rocm_smi/rocm_smi.h of github.com/ROCm/rocm_smi_lib, as ROCm 6.3 and 7 have it). Never tried on hardware.

const ROCM_SMI = {
  rsmi_init: { parameters: ["u64"], result: "i32" },
  rsmi_shut_down: { parameters: [], result: "i32" },
  rsmi_num_monitor_devices: { parameters: ["buffer"], result: "i32" },
  rsmi_dev_unique_id_get: { parameters: ["u32", "buffer"], result: "i32" },
  rsmi_dev_busy_percent_get: { parameters: ["u32", "buffer"], result: "i32" },
  rsmi_dev_memory_busy_percent_get: { parameters: ["u32", "buffer"], result: "i32" },
  rsmi_dev_memory_total_get: { parameters: ["u32", "i32", "buffer"], result: "i32" },
  rsmi_dev_memory_usage_get: { parameters: ["u32", "i32", "buffer"], result: "i32" },
  rsmi_dev_power_get: { parameters: ["u32", "buffer", "buffer"], result: "i32" },
  rsmi_dev_temp_metric_get: { parameters: ["u32", "u32", "i32", "buffer"], result: "i32" },
  rsmi_dev_gpu_clk_freq_get: { parameters: ["u32", "i32", "buffer"], result: "i32" },
  rsmi_dev_ecc_count_get: { parameters: ["u32", "u64", "buffer"], result: "i32" },
  rsmi_dev_gpu_metrics_info_get: { parameters: ["u32", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** A test holds these against the header's. */
export const ROCM_SMI_FUNCTIONS: readonly string[] = Object.keys(ROCM_SMI);

const VRAM = 0, SYSTEM_CLOCK = 0, MEMORY_CLOCK = 4, NOW = 0, MEMORY_BLOCK = 1n;
/** MI300 and later have no sensor at an edge, but one at the hottest place. */
const EDGE = 0, JUNCTION = 1;

/** rsmi_frequencies_t since ROCm 6: which of up to 33 frequencies in Hz it has now. */
const FREQUENCIES = { bytes: 280, supported: 4, current: 8, first: 16, most: 33 };

/** rsmi_gpu_metrics_t grows at its end. All bits are set in what a GPU does not tell. */
const METRICS_BYTES = 16 * 1024, THROTTLED_BY = 112, UNKNOWN = 2n ** 64n - 1n;

/** Bits of indep_throttle_status, as amdgpu_smu.h of the Linux kernel has them; up to MI200. */
const ROCM_REASONS: readonly (readonly [first: number, last: number, name: string])[] = [
  [0, 7, "power cap"],
  [16, 23, "current limit"],
  [32, 45, "hardware thermal slowdown"],
  [46, 47, "hardware slowdown"],
];

/** MI300 and later count how long each of these has held it back. */
const HELD_BACK: readonly (readonly [place: number, name: string])[] = [
  [432, "hardware slowdown"],
  [440, "power cap"],
  [448, "hardware thermal slowdown"],
  [456, "hardware thermal slowdown"],
  [464, "hardware thermal slowdown"],
];

/** `uuid` has HIP's form: "GPU-" and sixteen digits. */
export function openRocmSmi(uuid: string, paths = BACKENDS.hip.management): GpuMonitor | null {
  const wanted = /^GPU-([0-9a-f]{16})$/i.exec(uuid)?.[1];
  if (wanted === undefined) return null;
  let library;
  try {
    library = openFirst(paths, ROCM_SMI);
  } catch {
    return null; // no ROCm, or a container without its tools
  }
  const { symbols: smi } = library;
  if (smi.rsmi_init(0n) !== 0) return library.close(), null;
  const close = () => {
    smi.rsmi_shut_down();
    library.close();
  };
  const longs = new BigUint64Array(2), words = new Uint32Array(2), signed = new BigInt64Array(1);
  const ifGood = <T>(code: number, value: () => T): T | undefined => code === 0 ? value() : undefined;
  const word = (code: number) => ifGood(code, () => words[0]);
  const long = (code: number) => ifGood(code, () => Number(longs[0]));
  const count = word(smi.rsmi_num_monitor_devices(words)) ?? 0;
  const gpu = Array.from({ length: count }, (_, i) => i).find((i) =>
    smi.rsmi_dev_unique_id_get(i, longs) === 0 && longs[0] === BigInt(`0x${wanted}`)
  );
  if (gpu === undefined) return close(), null;

  const list = new DataView(new ArrayBuffer(FREQUENCIES.bytes));
  const megahertz = (clock: number) =>
    ifGood(smi.rsmi_dev_gpu_clk_freq_get(gpu, clock, new Uint8Array(list.buffer)), () => {
      const current = list.getUint32(FREQUENCIES.current, true);
      const known = Math.min(list.getUint32(FREQUENCIES.supported, true), FREQUENCIES.most);
      if (current >= known) return undefined;
      return Math.round(Number(list.getBigUint64(FREQUENCIES.first + 8 * current, true)) / 1e6);
    });
  const degrees = (sensor: number) =>
    ifGood(smi.rsmi_dev_temp_metric_get(gpu, sensor, NOW, signed), () => Number(signed[0]) / 1000);
  const metrics = new DataView(new ArrayBuffer(METRICS_BYTES));
  let before: readonly bigint[] | null = null;
  const throttle = () =>
    ifGood(smi.rsmi_dev_gpu_metrics_info_get(gpu, new Uint8Array(metrics.buffer)), () => {
      const held = HELD_BACK.map(([place]) => metrics.getBigUint64(place, true));
      const reasons = throttledBy(metrics.getBigUint64(THROTTLED_BY, true), before, held);
      before = held;
      return reasons;
    });
  return {
    read() {
      const microwatts = long(smi.rsmi_dev_power_get(gpu, longs, words));
      return {
        gpu_percent: word(smi.rsmi_dev_busy_percent_get(gpu, words)),
        gpu_memory_percent: word(smi.rsmi_dev_memory_busy_percent_get(gpu, words)),
        gpu_memory_bytes: long(smi.rsmi_dev_memory_usage_get(gpu, VRAM, longs)),
        gpu_memory_total_bytes: long(smi.rsmi_dev_memory_total_get(gpu, VRAM, longs)),
        gpu_power_w: microwatts === undefined ? undefined : microwatts / 1e6,
        gpu_temperature_c: degrees(EDGE) ?? degrees(JUNCTION),
        gpu_clock_mhz: megahertz(SYSTEM_CLOCK),
        gpu_memory_clock_mhz: megahertz(MEMORY_CLOCK),
        gpu_memory_errors: ifGood(
          smi.rsmi_dev_ecc_count_get(gpu, MEMORY_BLOCK, longs),
          () => Number(longs[1]),
        ),
        gpu_throttle: throttle(),
      };
    },
    close,
  };
}

function throttledBy(bits: bigint, before: readonly bigint[] | null, held: readonly bigint[]): string[] {
  const now = bits === UNKNOWN
    ? []
    : ROCM_REASONS.filter(([first, last]) =>
      Array.from({ length: last - first + 1 }, (_, i) => 1n << BigInt(first + i)).some((bit) => bits & bit)
    ).map(([, , name]) => name);
  const since = HELD_BACK.filter((_, i) =>
    before !== null && held[i] !== UNKNOWN && before[i] !== UNKNOWN && held[i] > before[i]
  ).map(([, name]) => name);
  return [...new Set([...now, ...since])];
}
