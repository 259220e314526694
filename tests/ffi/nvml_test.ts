import { assert, assertEquals } from "@std/assert";
import { openNvml } from "../../ffi/gpu/monitor.ts";
import { openSampler } from "../../core/run/system.ts";
import { inTemp } from "../integration/program.ts";
import { buildNvmlDouble, COMPILER } from "../native/double.ts";

const GPU = "GPU-11223344-5566-7788-99aa-bbccddeeff00";
const none = COMPILER === null ? " (needs a C compiler, and none was found)" : "";
if (COMPILER === null && Deno.env.get("CI") === "true") {
  throw new Error("NVML is tested on a double: install cc, gcc or clang.");
}

async function under(mode: string, body: () => void | Promise<void>): Promise<void> {
  Deno.env.set("NVML_DOUBLE", mode);
  try {
    await body();
  } finally {
    Deno.env.delete("NVML_DOUBLE");
  }
}

Deno.test({
  name:
    `a GPU's load, memory, power, temperature, clocks and brakes are read in units that people use${none}`,
  ignore: COMPILER === null,
  fn: () =>
    inTemp((folder) => {
      const nvml = openNvml(GPU, [buildNvmlDouble(folder)])!;
      assertEquals(nvml.read(), {
        gpu_percent: 87,
        gpu_memory_percent: 41,
        gpu_memory_bytes: 30 * 2 ** 30,
        gpu_memory_total_bytes: 80 * 2 ** 30,
        gpu_power_w: 312.5,
        gpu_temperature_c: 61,
        gpu_clock_mhz: 1755,
        gpu_memory_clock_mhz: 2619,
        gpu_throttle: ["power cap", "hardware thermal slowdown"],
      });
      nvml.close();
    }),
});

Deno.test({
  name: `what a driver does not tell is left out, and the rest is told${none}`,
  ignore: COMPILER === null,
  fn: () =>
    inTemp((folder) =>
      under("old", () => {
        const nvml = openNvml(GPU, [buildNvmlDouble(folder)])!;
        const { gpu_throttle, gpu_power_w } = nvml.read();
        assertEquals([gpu_throttle, gpu_power_w], [undefined, 312.5]);
        nvml.close();
      })
    ),
});

Deno.test({
  name: `a library that does not start, and a GPU that it does not know, are no GPU${none}`,
  ignore: COMPILER === null,
  fn: () =>
    inTemp(async (folder) => {
      const path = buildNvmlDouble(folder);
      await under("lost", () => assertEquals(openNvml(GPU, [path]), null));
      assertEquals(openNvml("GPU-00000000-0000-0000-0000-000000000000", [path]), null);
      const nvml = openNvml(GPU, [path]);
      assert(nvml !== null, "the two before it have cleaned up");
      nvml!.close();
    }),
});

Deno.test("without the library there is nothing to tell of a GPU, and the rest of the machine is told", () => {
  assertEquals(openNvml(GPU, ["libnvidia-ml.so.absent"]), null);
  const sampler = openSampler({ rank: 0, world: 1, gpu: { kind: "cuda", uuid: GPU } });
  assert(sampler.sample(1).rss_bytes > 1e6);
  sampler.close();
});
