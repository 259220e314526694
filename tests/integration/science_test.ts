// The cases of science at small size; `./scripts/science` runs them at full size.
import { assert } from "@std/assert";
import { met, sentence } from "../science/case.ts";
import { CASES } from "../science/cases.ts";
import { inTemp } from "./program.ts";

for (const { promise, run } of Object.values(CASES)) {
  Deno.test(promise, () =>
    inTemp(async (folder) => {
      const figures = await run(folder, "small");
      assert(figures.length > 0 && figures.every(met), figures.map(sentence).join("\n"));
    }));
}
