// An optimizer's traits are what the rest of a run knows of it.
import { assert, assertEquals } from "@std/assert";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import { createOptimizer, optimizersThat, traitsOf } from "../../../../core/train/optimizers.ts";
import { packParameters } from "../../../../core/train/arena.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { sourceFiles } from "../../../../scripts/lib/source_files.ts";
import { open, settings } from "../rig.ts";

open();

for (const type of optimizersThat(() => true)) {
  Deno.test(`${type} has the state that its traits name, and is compiled, cut and shared out as they say`, () => {
    manualSeed(1n);
    const { root } = mlp({ inputs: 7, hidden: 37, layers: 3, outputs: 1 });
    const arena = packParameters(root.namedParameters(), "cpu");
    const { optimizer: chosen } = settings("--optimizer", type, "--scheduler", "constant").training;
    const traits = traitsOf(chosen), made = createOptimizer(chosen, arena, root);
    assertEquals(made.type, type);
    assertEquals([...made.slots.keys()], traits.slots);
    assertEquals(
      made.state !== undefined,
      traits.compiled !== null,
      "a loop of machine code reads whole vectors",
    );
    assertEquals(traits.perElement, traits.shardable === true, "a part of a bucket has parts of parameters");
    const bytes = new Set([...made.slots.values()].flat()).values().reduce((sum, t) => sum + t.byteLength, 0);
    const each = traits.bytesPerWeight(chosen) - (made.averages ? 4 : 0);
    if (type !== "muon") {
      assert(Math.abs(bytes / arena.flat.byteLength - each / 4) < 0.1, `${bytes}, ${each}`);
    }
  });
}

Deno.test("an optimizer's name decides nothing outside its folder", () => {
  const named = sourceFiles("core/train").filter((file) =>
    !file.startsWith("core/train/optimizers/") &&
    /"(lamb|lion|muon|schedule_free)"/.test(Deno.readTextFileSync(file))
  );
  assertEquals(named, []);
});
