// What the device, its driver and libtorch are. May import ffi, check.
import {
  cudaCapability,
  cudaCapabilityMinor,
  cudaDevices,
  cudaMemory,
  cudaVersions,
} from "../../ffi/cuda.ts";
import type { Device } from "../../ffi/tensor.ts";
import type { Check } from "./check.ts";

/** The driver's own list names the model; without it the capability must do. */
export function deviceName(device: Device): string {
  if (device === "cpu") return "CPU";
  try {
    const [first] = Deno.readDirSync("/proc/driver/nvidia/gpus");
    const text = Deno.readTextFileSync(`/proc/driver/nvidia/gpus/${first.name}/information`);
    const name = /^Model:\s*(.+)$/m.exec(text)?.[1].trim();
    if (name && !/unknown/i.test(name)) return name;
  } catch (error) {
    if (error instanceof RangeError) throw error; // a container may hide the list; anything else is ours
  }
  return `NVIDIA GPU of capability ${cudaCapability()}.${cudaCapabilityMinor()}`;
}

export const facts: Check = {
  name: "device",
  run({ device, libtorch }) {
    const torch = `libtorch ${libtorch.versionText}`;
    if (device === "cpu") {
      return { ok: true, figure: `CPU, ${torch}`, detail: { libtorch: libtorch.versionText } };
    }
    const { driver, runtime } = cudaVersions();
    const capability = `${cudaCapability()}.${cudaCapabilityMinor()}`;
    const gib = Math.round(cudaMemory().total / 2 ** 30);
    return {
      ok: true,
      figure: `${deviceName(device)}, ${gib} GiB, capability ${capability}, driver for CUDA ${driver}, ` +
        `runtime ${runtime}, ${torch}, ${cudaDevices()} here`,
      detail: { capability, driver, runtime, libtorch: libtorch.versionText, gib },
    };
  },
};
