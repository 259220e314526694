import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { gpuCount, type MachineGpus, machineGpus, shownOf, visibleAmd } from "../../../core/base/gpus.ts";
import { inTemp } from "../../integration/program.ts";
import { assertSentence } from "../../sentences.ts";

const NOTHING: MachineGpus = { nvidia: 0, amd: 0, amdOpen: 0, amdDriver: "none", denied: null };
/** A node of LUMI or Frontier: four MI250X are eight devices. */
const LUMI: MachineGpus = { ...NOTHING, amd: 8, amdOpen: 8, amdDriver: "open" };
const A100: MachineGpus = { ...NOTHING, nvidia: 4 };

function file(root: string, path: string, text = ""): void {
  Deno.mkdirSync(join(root, path, ".."), { recursive: true });
  Deno.writeTextFileSync(join(root, path), text);
}

Deno.test("AMD's GPUs are counted by its driver's list, in which processors have the number 0, and NVIDIA's by their files", () =>
  inTemp((root) => {
    assertEquals(machineGpus(root), NOTHING);
    for (const [node, id] of ["0", "0", "51934", "7290"].entries()) {
      file(root, `sys/class/kfd/kfd/topology/nodes/${node}/gpu_id`, `${id}\n`);
    }
    file(root, "dev/kfd");
    file(root, "dev/dri/renderD128");
    file(root, "dev/dri/card0");
    assertEquals(machineGpus(root), { nvidia: 0, amd: 2, amdOpen: 2, amdDriver: "open", denied: null });
    for (const name of ["nvidia0", "nvidia1", "nvidiactl"]) file(root, `dev/${name}`);
    assertEquals(machineGpus(root).nvidia, 2);
  }));

Deno.test("a file of AMD's GPUs is named where none can be opened; those of other jobs do not count", () =>
  inTemp((root) => {
    file(root, "sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51934\n");
    // Root may open any file, but no folder to write in: as good as one that is denied.
    Deno.mkdirSync(join(root, "dev/dri/renderD128"), { recursive: true });
    Deno.mkdirSync(join(root, "dev/kfd"), { recursive: true });
    const { amdDriver, amdOpen, denied } = machineGpus(root);
    assertEquals([amdDriver, amdOpen, denied], ["denied", 0, join(root, "dev/dri/renderD128")]);
    // Two of three in a job: the other job's is hidden, and nothing is wrong.
    for (const node of [2, 3]) file(root, `sys/class/kfd/kfd/topology/nodes/${node}/gpu_id`, "7290\n");
    for (const name of ["renderD129", "renderD130"]) file(root, `dev/dri/${name}`);
    const part = machineGpus(root);
    assertEquals([part.amd, part.amdOpen, part.denied, gpuCount({}, part)], [3, 2, null, 2]);
  }));

Deno.test("ROCr's variable hides devices from HIP's, which numbers the rest from 0; HIP's comes before CUDA's", () => {
  const shown = (env: Record<string, string>) => gpuCount(env, LUMI);
  assertEquals(shown({}), 8);
  assertEquals(shown({ ROCR_VISIBLE_DEVICES: "2,3" }), 2);
  assertEquals(shown({ ROCR_VISIBLE_DEVICES: "" }), 0);
  assertEquals(shown({ ROCR_VISIBLE_DEVICES: "4,5,6,7", HIP_VISIBLE_DEVICES: "0,1" }), 2);
  assertEquals(shown({ ROCR_VISIBLE_DEVICES: "GPU-d0d1d2d3d4d5d600" }), 1);
  assertEquals(shown({ ROCR_VISIBLE_DEVICES: "0,9,1" }), 1); // the driver reads no further
  assertEquals(shown({ HIP_VISIBLE_DEVICES: "", CUDA_VISIBLE_DEVICES: "1,2,3" }), 3); // "" says nothing to HIP
  assertEquals(shown({ HIP_VISIBLE_DEVICES: "-1" }), 0);
  assertEquals(shown({ CUDA_VISIBLE_DEVICES: "0,0" }), 1);
});

Deno.test("without a machine that shows GPUs the variables alone count them", () => {
  assertEquals(gpuCount({ ROCR_VISIBLE_DEVICES: "0,1,2" }, NOTHING), 3);
  assertEquals(gpuCount({ CUDA_VISIBLE_DEVICES: "2,3" }, NOTHING), 2);
  assertEquals(gpuCount({}, NOTHING), 0);
  assertEquals(gpuCount({ ROCR_VISIBLE_DEVICES: "0" }, A100), 4); // not read by NVIDIA's driver
  assertEquals([shownOf({}, 8), shownOf({ ROCR_VISIBLE_DEVICES: "5" }, 8)], [8, 1]);
});

Deno.test("variables that contradict each other are a sentence with what to write", () => {
  const of = (env: Record<string, string>) => visibleAmd(env, 8).contradiction;
  const both = of({ ROCR_VISIBLE_DEVICES: "2,3", CUDA_VISIBLE_DEVICES: "2,3" })!;
  assertSentence("core/base/gpus: hip numbers gpus", both.what);
  assertSentence("core/base/gpus: write unset job", both.fix);
  assertMatch(of({ ROCR_VISIBLE_DEVICES: "0,1", HIP_VISIBLE_DEVICES: "1,2" })!.what, /finds only 1$/);
  assertMatch(of({ HIP_VISIBLE_DEVICES: "0", CUDA_VISIBLE_DEVICES: "1" })!.what, /the second is left out$/);
  const fine: Record<string, string>[] = [
    {},
    { ROCR_VISIBLE_DEVICES: "2,3", CUDA_VISIBLE_DEVICES: "0,1" },
    { HIP_VISIBLE_DEVICES: "1", CUDA_VISIBLE_DEVICES: "1" },
    { ROCR_VISIBLE_DEVICES: "2,3", HIP_VISIBLE_DEVICES: "-1" }, // hidden on purpose
  ];
  for (const env of fine) assertEquals(of(env), null, JSON.stringify(env));
});
