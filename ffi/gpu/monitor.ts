// A GPU tells of itself while it computes, by its vendor's library: NVML or ROCm SMI. It needs no libtorch, and any thread may ask.
import { BACKENDS, type GpuKind } from "./backends.ts";
import { openNvml } from "./nvml.ts";
import { openRocmSmi } from "./rocm_smi.ts";

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

export interface GpuMonitor {
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
