// Which of CUDA's libraries would compute: told by what is in memory, on libraries that are made up.
import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  gpuLibraryCheck,
  type GpuLibraryFacts,
  judgeGpuLibraries,
  sourceOf,
} from "../../../../core/cluster/doctor/gpu_libraries.ts";
import { gpuLibraries } from "../../../../ffi/gpu/libraries.ts";
import { CUDA_RELEASES, cudnnOf } from "../../../../ffi/libraries/releases.ts";
import { inTemp } from "../../../integration/program.ts";
import { buildGpuLibraries } from "../../../native/double.ts";
import { assertSentence } from "../../../sentences.ts";

const SITE = "/opt/env/lib/python3.12/site-packages";
const library = (name: "cuDNN" | "cuBLAS" | "NVRTC", version: string, from = "beside libtorch") => ({
  ...{ name, version, from },
  path: `${SITE}/nvidia/lib${name.toLowerCase()}.so`,
});

/** An H100 with all that PyTorch 2.15.0 is released with. */
const NODE: GpuLibraryFacts = {
  libraries: [library("cuDNN", "9.26.0"), library("cuBLAS", "13.4.1"), library("NVRTC", "13.2")],
  attention: "cuDNN",
  generation: 9,
  torch: "2.15.0",
  cudnn: "9.26.0",
};

const withOld = (from: string, more: Partial<GpuLibraryFacts> = {}) =>
  judgeGpuLibraries({
    ...NODE,
    libraries: [{ ...library("cuDNN", "9.10.2", from), path: "/sw/cudnn/lib/libcudnn.so.9" }],
    attention: "flash",
    ...more,
  });

Deno.test("doctor says which cuDNN, cuBLAS and NVRTC are loaded, from where, and which attention follows", () => {
  const [line, ...more] = judgeGpuLibraries(NODE);
  assertEquals([line.state, more.length], ["good", 0]);
  assertSentence("core/cluster/doctor/gpu_libraries: cudnn cublas nvrtc", line.said);
  assertEquals(judgeGpuLibraries({ ...NODE, libraries: [] }), []);
});

Deno.test("a cuDNN that is older than PyTorch's is a warning, with what it costs where attention is by cuDNN", () => {
  const [, line] = withOld("LD_LIBRARY_PATH");
  assertEquals(line.state, "warn");
  assertSentence("core/cluster/doctor/gpu_libraries: cudnn older attention", line.said);
  assertMatch(line.fix!, /\/sw\/cudnn\/lib off LD_LIBRARY_PATH/);
  assertMatch(withOld("beside libtorch")[1].fix!, /libtorch install --cuda/);
  assert(!withOld("LD_LIBRARY_PATH", { generation: 8 })[1].said.includes("attention"));
  assertEquals(withOld("LD_LIBRARY_PATH", { cudnn: null }).length, 1); // what that PyTorch came with is not known
  assertEquals(withOld("LD_LIBRARY_PATH", { cudnn: "9.10.2" }).length, 1);
});

Deno.test("each release that can be installed for GPUs tells its cuDNN", () => {
  for (const torch of Object.keys(CUDA_RELEASES)) assertMatch(cudnnOf(torch)!, /^\d+\.\d+\.\d+$/);
  assertEquals([cudnnOf("2.15.0"), cudnnOf("2.12.0")], ["9.26.0", null]);
});

Deno.test("a library's path tells who brought it, through links, too", () =>
  inTemp((folder) => {
    for (const name of ["env/torch/lib", "env/nvidia/cudnn/lib", "sw/cudnn-9.10"]) {
      Deno.mkdirSync(`${folder}/${name}`, { recursive: true });
    }
    Deno.symlinkSync(`${folder}/sw/cudnn-9.10`, `${folder}/cudnn`);
    const env = { LD_LIBRARY_PATH: `relative:${folder}/cudnn:`, HPCTRAIN_NVRTC: "/x/libnvrtc.so" };
    const from = (path: string) => sourceOf(path, `${folder}/env/torch/lib`, env);
    assertEquals(from(`${folder}/env/nvidia/cudnn/lib`), "beside libtorch");
    Deno.writeTextFileSync(`${folder}/sw/cudnn-9.10/libcudnn.so.9`, "");
    assertEquals(from(`${folder}/sw/cudnn-9.10/libcudnn.so.9`), "LD_LIBRARY_PATH");
    assertEquals([from("/x/libnvrtc.so"), from("/usr/lib/libcublas.so.13")], ["HPCTRAIN_NVRTC", null]);
  }));

Deno.test({
  name: "what is loaded is asked for its version, and a libtorch for CPUs has none of them",
  sanitizeResources: false, // the compiler stays open, as in a run
  fn: () =>
    inTemp((folder) => {
      const none = gpuLibraryCheck.gather({ dir: folder, gpu: null, version: [2, 15, 0] }, [], {});
      assertEquals(none.libraries, []);
      const paths = buildGpuLibraries(Deno.realPathSync(folder));
      const opened = paths.map((path) => Deno.dlopen(path, {}));
      const loaded = gpuLibraries();
      assertEquals(loaded.map(({ name, version }) => [name, version]), [
        ["cuDNN", "9.10.2"],
        ["cuBLAS", "12.8.4"],
        ["NVRTC", "12.8"],
      ]);
      assertEquals(loaded.map(({ path }) => path), paths);
      const facts = gpuLibraryCheck.gather({ dir: "/opt/lib", gpu: "cuda", version: [2, 10, 0] }, [], {
        LD_LIBRARY_PATH: folder,
      });
      assertEquals(facts.libraries.map(({ from }) => from), Array(3).fill("LD_LIBRARY_PATH"));
      assertEquals([facts.attention, facts.cudnn], [null, "9.10.2"]);
      opened.forEach((library) => library.close());
    }),
});
