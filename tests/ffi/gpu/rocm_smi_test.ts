import { assertEquals } from "@std/assert";
import { openGpuMonitor, openRocmSmi } from "../../../ffi/gpu/monitor.ts";

const GPU = "GPU-d0d1d2d3d4d5d600";

Deno.test("without ROCm SMI, and with a name that is not of HIP's form, there is nothing to tell of an AMD GPU", () => {
  assertEquals(openRocmSmi(GPU, ["librocm_smi64.so.absent"]), null);
  assertEquals(openRocmSmi("GPU-11223344-5566-7788-99aa-bbccddeeff00"), null);
  assertEquals(openGpuMonitor({ kind: "hip", uuid: GPU }), null); // this machine has none
});
