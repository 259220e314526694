// Where both ways of a step are timed, neither keeps its memory while the other one runs.
import { assert } from "@std/assert";
import { machineIsa } from "../../../ffi/machine.ts";
import { returnFreedMemory } from "../../../ffi/libc.ts";
import { Workspace } from "../../../core/compile/workspace.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { inFolder } from "../checkpoint/python.ts";
import { started } from "./started.ts";

/** A value of a layer takes 64 MiB. */
const FLAGS = "--data-type synthetic --model mlp --hidden-size 64 --train-samples 262144 --val-samples 64 " +
  "--batch-size 262144 --max-steps 2 --epochs 2 --eval-batch-size 64";

const mebibytes = (field: "VmHWM" | "VmRSS"): number =>
  Number(new RegExp(`${field}:\\s+(\\d+)`).exec(Deno.readTextFileSync("/proc/self/status"))![1]) / 1024;

/** What the run takes beyond what was there before. */
async function peakOf(folder: string, way: string): Promise<number> {
  returnFreedMemory();
  return await started(`${folder}/${way}`, [...FLAGS.split(" "), `--compile=${way}`], async (run) => {
    const before = mebibytes("VmRSS");
    Deno.writeTextFileSync("/proc/self/clear_refs", "5"); // the peak begins anew
    await trainLoop(run);
    return mebibytes("VmHWM") - before;
  });
}

Deno.test({
  name: "a large step that is timed compiled and op by op takes hardly more memory than the larger of them",
  ignore: machineIsa() === null,
  fn: inFolder(async (folder) => {
    const plain = await peakOf(folder, "off"),
      { isLarge } = Object.getOwnPropertyDescriptors(Workspace.prototype);
    Object.defineProperty(Workspace.prototype, "isLarge", { get: () => true, configurable: true });
    const compiled = await peakOf(folder, "exact");
    Object.defineProperty(Workspace.prototype, "isLarge", isLarge);
    assert(compiled < 1.25 * plain, `${compiled} MiB compiled, and ${plain} MiB op by op`);
  }),
});
