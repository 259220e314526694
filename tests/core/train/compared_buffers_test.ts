// Buffers as a plan leaves them beside those of an ordinary step.
import { assertEquals } from "@std/assert";
import { Buffers } from "../../../core/train/compared_buffers.ts";
import { tensor } from "../../../ffi/make.ts";
import { copy_ } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";

useLibtorch();

/** What is said where an ordinary step leaves the one mean, and the plan the other. */
function said(name: string, theirs: number, ours: number): string | null {
  return scope(() => {
    const mean = tensor([0, 0]), variance = tensor([1, 1]);
    const buffers = new Buffers([[`norm.${name}`, mean], ["norm.running_var", variance]]);
    copy_(mean, tensor([theirs, -theirs]));
    buffers.note();
    copy_(mean, tensor([ours, ours]));
    const wrong = buffers.wrong("fast", false);
    buffers.free();
    return wrong;
  });
}

Deno.test("a running mean that is rounding alone is no difference, and one that is more is", () => {
  assertEquals(said("running_mean", 1e-8, 3e-8), null);
  assertEquals(said("running_mean", 1e-2, 3e-2), "norm.running_mean: 320% of its change");
  assertEquals(said("other", 1e-8, 3e-8), "norm.other: 320% of its change");
});
