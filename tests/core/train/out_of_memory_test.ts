import { assert, assertEquals } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { addGraphMemory, outOfMemory } from "../../../core/train/memory.ts";
import { NativeError } from "../../../ffi/errors.ts";
import { inFolder } from "../checkpoint/python.ts";
import { started } from "./started.ts";

const OUT = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 99999999 bytes.";
const SYNTHETIC = "--data-type synthetic --train-samples 64 --val-samples 4".split(" ");

/** The sentence for libtorch's own words, in a run with these flags. */
function sentence(folder: string, ...flags: string[]): Promise<string> {
  return started(folder, [...SYNTHETIC, ...flags], (prepared) => {
    prepared.cursor.step = 6;
    const error = outOfMemory(new NativeError("mm", "f32[9, 9]", OUT), prepared);
    if (!(error instanceof UserError)) throw error;
    assertEquals(error.kind, "memory");
    return error.message;
  });
}

Deno.test(
  "out of memory names the step, the batch and libtorch's words, and offers what fits",
  inFolder(async (folder) => {
    const said = await sentence(folder, "--batch-size", "32");
    assert(said.startsWith("Out of memory at step 7 with a batch of 32"), said);
    assert(said.includes(OUT), said);
    assert(said.includes("--batch-size 16 --global-batch-size 32"), said);
    assert(said.includes("--gradient-checkpointing"), said);
    assert(said.includes("--amp bf16"), said);
  }),
);

Deno.test(
  "where captured steps hold memory, a run without them is offered first",
  inFolder((folder) =>
    started(folder, SYNTHETIC, (prepared) => {
      addGraphMemory(prepared, 2 ** 30);
      const { message } = outOfMemory(new NativeError("mm", "", OUT), prepared) as UserError;
      assert(message.includes("with: --no-compile (captured steps hold 1.0 GiB), or --batch-size"), message);
    })
  ),
);

Deno.test(
  "what a run has already is not offered again",
  inFolder(async (folder) => {
    const said = await sentence(folder, "--batch-size", "1", "--gradient-checkpointing", "--amp", "bf16");
    assert(said.endsWith("Less memory is needed with: a smaller model."), said);
  }),
);

Deno.test(
  "other errors pass through as they are",
  inFolder((folder) =>
    started(folder, SYNTHETIC, (prepared) => {
      for (const error of [new NativeError("mm", "", "shapes cannot be multiplied"), new Error("x"), 3]) {
        assertEquals(outOfMemory(error, prepared), error);
      }
    })
  ),
);
