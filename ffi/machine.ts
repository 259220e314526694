export function glibcVersion(): string | null {
  return ask("libc.so.6", { gnu_get_libc_version: { parameters: [], result: "pointer" } }, (libc) => {
    const text = libc.gnu_get_libc_version();
    return text && new Deno.UnsafePointerView(text).getCString();
  });
}

/** The processor's abilities in Linux's words: "avx2", "avx512f". Empty where nothing tells. */
export function cpuFlags(): ReadonlySet<string> {
  try {
    const line = Deno.readTextFileSync("/proc/cpuinfo").match(/^flags\s*:(.*)$/m);
    return new Set(line?.[1].trim().split(/\s+/));
  } catch {
    return new Set();
  }
}

/** The newest CUDA that the driver serves, "13.2"; null without a driver. */
export function driversCuda(): string | null {
  const symbols = { cuDriverGetVersion: { parameters: ["buffer"], result: "i32" } } as const;
  return ask("libcuda.so.1", symbols, (cu) => {
    const version = new Int32Array(1);
    if (cu.cuDriverGetVersion(version) !== 0 || version[0] === 0) return null;
    return `${Math.floor(version[0] / 1000)}.${Math.floor(version[0] % 1000 / 10)}`;
  });
}

function ask<I extends Deno.ForeignLibraryInterface, R>(
  name: string,
  symbols: I,
  use: (library: Deno.DynamicLibrary<I>["symbols"]) => R,
): R | null {
  try {
    const library = Deno.dlopen(name, symbols);
    try {
      return use(library.symbols);
    } finally {
      library.close();
    }
  } catch {
    return null;
  }
}

// NVML works from any thread; without the library or the GPU there is no reading.

interface GpuState {
  readonly gpu_percent?: number;
  readonly gpu_memory_percent?: number;
  readonly gpu_memory_bytes?: number;
  readonly gpu_memory_total_bytes?: number;
  readonly gpu_power_w?: number;
  readonly gpu_temperature_c?: number;
  readonly gpu_clock_mhz?: number;
  readonly gpu_memory_clock_mhz?: number;
  readonly gpu_throttle?: readonly string[];
}

interface Nvml {
  read(): GpuState;
  close(): void;
}

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
export function openNvml(uuid: string, path = "libnvidia-ml.so.1"): Nvml | null {
  let library;
  try {
    library = Deno.dlopen(path, verbs);
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
