// The presets: what they hold, and the layouts they are for.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  batchForRanks,
  getDebugConfig,
  getMultiGpuConfig,
  getMultiNodeConfig,
  getSingleGpuConfig,
  resolveSettings,
} from "../../../core/settings/resolve.ts";
import { checkLayout, loadPreset, PRESET_NAMES } from "../../../core/settings/presets.ts";
import { fromArgv, sentence } from "./helpers.ts";
import { assertSentence } from "../../sentences.ts";

Deno.test("every file in presets/ is a preset, and every preset a file that loads", () => {
  const files = [...Deno.readDirSync(new URL("../../../presets", import.meta.url))]
    .filter(({ isFile }) => isFile).map(({ name }) => name);
  assertEquals(files.sort(), PRESET_NAMES.map((name) => `${name}.yaml`).sort());
  for (const name of PRESET_NAMES) assert(loadPreset(name).about.length > 10, name);
});

Deno.test("the batch of a rank is 128 on 1 GPU, 64 on 4, 32 on 8 and on 2 x 4", () => {
  assertEquals(getSingleGpuConfig().training.batch_size, 128);
  assertEquals(getMultiGpuConfig({ numGpus: 4 }).training.batch_size, 64);
  assertEquals(getMultiGpuConfig({ numGpus: 8 }).training.batch_size, 32);
  assertEquals(getMultiNodeConfig({ numNodes: 2, gpusPerNode: 4 }).training.batch_size, 32);
  assertEquals([2, 3, 5, 16, 64].map(batchForRanks), [128, 64, 32, 32, 32]);
});

Deno.test("a preset read for a known number of ranks sizes its batch by it, and a flag still wins", () => {
  const ask = (...argv: string[]) => resolveSettings({ argv, env: {}, ranks: 8 }).config.training.batch_size;
  assertEquals(ask("--preset", "multi-gpu"), 32);
  assertEquals(ask("--preset", "multi-gpu", "--batch-size", "5"), 5);
  assertEquals(ask("--preset", "cpu-cluster"), 64);
  assertEquals(fromArgv("--preset", "multi-gpu").config.training.batch_size, 64);
});

Deno.test("presets for several ranks scale the learning rate linearly from a batch of 64", () => {
  for (const name of ["cpu-cluster", "single-gpu", "multi-gpu", "multi-node"]) {
    const { lr_scaling, base_batch_size } = fromArgv("--preset", name).config.training;
    assertEquals([lr_scaling, base_batch_size], ["linear", 64], name);
  }
});

Deno.test("the library's configurations carry the layout they were asked for", () => {
  const { nodes, gpus_per_node } = getMultiNodeConfig({ numNodes: 2, gpusPerNode: 4 }).distributed;
  assertEquals([nodes, gpus_per_node], [2, 4]);
  assertEquals(getDebugConfig().data.type, "synthetic");
  assertStringIncludes(
    sentence(() => getMultiGpuConfig({ numGpus: 0 })),
    "numGpus must be a whole number from 1",
  );
});

Deno.test("quickstart and debug fit every world", () => {
  for (const name of ["quickstart", "debug"]) {
    checkLayout(loadPreset(name), { nodes: 1, ranks: 1, device: "cpu" });
    checkLayout(loadPreset(name), { nodes: 4, ranks: 16, device: "cuda" });
  }
});

Deno.test("a world that fits is let through", () => {
  checkLayout(loadPreset("cpu"), { nodes: 1, ranks: 4, device: "cpu" });
  checkLayout(loadPreset("cpu-cluster"), { nodes: 3, ranks: 6, device: "cpu" });
  checkLayout(loadPreset("single-gpu"), { nodes: 1, ranks: 1, device: "cuda" });
  checkLayout(loadPreset("multi-gpu"), { nodes: 1, ranks: 8, device: "cuda" });
  checkLayout(loadPreset("multi-node"), { nodes: 2, ranks: 8, device: "cuda" });
});

Deno.test("a world that does not fit is refused with the command that makes one", () => {
  const said = sentence(() => checkLayout(loadPreset("multi-node"), { nodes: 1, ranks: 1, device: "cpu" }));
  assertSentence("core/settings/presets: preset multi-node gpus", said);
  assertStringIncludes(said, "this world has 1 CPU rank on 1 node");
  assertStringIncludes(said, "./hpctrain sbatch --preset multi-node");
  assertStringIncludes(said, "--any-layout");
  const misfits = [
    ["cpu", { nodes: 2, ranks: 4, device: "cpu" }],
    ["cpu-cluster", { nodes: 1, ranks: 1, device: "cpu" }],
    ["single-gpu", { nodes: 1, ranks: 2, device: "cuda" }],
    ["single-gpu", { nodes: 1, ranks: 1, device: "cpu" }],
    ["multi-gpu", { nodes: 2, ranks: 8, device: "cuda" }],
    ["multi-node", { nodes: 1, ranks: 8, device: "cuda" }],
  ] as const;
  for (const [name, world] of misfits) assert(sentence(() => checkLayout(loadPreset(name), world)), name);
});
