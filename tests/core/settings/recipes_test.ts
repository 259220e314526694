// The recipes: what they hold, and where they stand among presets, files and flags.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { loadRecipe, RECIPE_NAMES } from "../../../core/settings/recipes.ts";
import { assertSentence } from "../../sentences.ts";
import { fromArgv, sentence } from "./helpers.ts";

Deno.test("every file of recipes is a recipe with its source, and every recipe a file whose settings there are", () => {
  const files = [...Deno.readDirSync(new URL("../../../presets/recipes", import.meta.url))].map(({ name }) =>
    name
  );
  assertEquals(files.sort(), RECIPE_NAMES.map((name) => `${name}.yaml`).sort());
  for (const name of RECIPE_NAMES) {
    const { about, from, assignments } = loadRecipe(name);
    assert(about.length > 10 && assignments.length > 3, name);
    assertMatch(from, /^https:|^arXiv:/, name);
    assertEquals(fromArgv("--recipe", name).preset, null);
  }
});

Deno.test("a recipe wins over a preset, whatever their order, and flags win over it; its origin is told", () => {
  const { config: { training }, originText } = fromArgv(
    "--recipe",
    "nanogpt-124m",
    "--preset",
    "single-gpu",
    "--lr",
    "1e-3",
  );
  assertEquals([training.batch_size, training.optimizer.learning_rate, training.amp], [12, 1e-3, "auto"]);
  assertEquals(originText("training.batch_size"), "recipe nanogpt-124m");
  assertEquals(fromArgv("--recipe", "nanoGPT-124M").config.training.clip_norm, 1);
  const unknown = sentence(() => fromArgv("--recipe", "nanogpt"));
  assertSentence("core/settings/recipes: unknown recipe mean", unknown);
});
