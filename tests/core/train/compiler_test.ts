// The seam of the compiler, which is a part of the program.
import { assertEquals } from "@std/assert";
import { PARTS } from "../../../core/parts.ts";
import { NO_COMPILER, stepCompiler } from "../../../core/train/compiler.ts";
import { whyNotCompiled } from "../../../core/train/compiled_choice.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { started } from "./started.ts";

const FLAGS = [
  "--data-type=synthetic",
  "--model=mlp",
  "--train-samples=8",
  "--val-samples=4",
  "--batch-size=4",
  "--epochs=1",
];

Deno.test("a program without its compiler trains op by op, and says so where --compile asks for one", async () => {
  const folder = Deno.makeTempDirSync(), compilers = { ...PARTS.compilers };
  for (const name of Object.keys(compilers)) Reflect.deleteProperty(PARTS.compilers, name);
  try {
    assertEquals(await stepCompiler(), null);
    await started(folder, [...FLAGS, "--compile=fast"], async (run) => {
      assertEquals(whyNotCompiled(run, run.compiler, run.mode!, run.config, false), NO_COMPILER);
      await trainLoop(run);
      assertEquals(run.cursor.step, 2);
    });
  } finally {
    Object.assign(PARTS.compilers, compilers);
    Deno.removeSync(folder, { recursive: true });
  }
});
