import { assertEquals, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../core/base/errors.ts";
import { findRun } from "../../../core/run/run_data.ts";

Deno.test("a run is found by its name, its folder, its log and as the newest", () => {
  const folder = Deno.makeTempDirSync();
  try {
    for (const [name, time] of [["old", 1000], ["new", 3000], ["middle", 2000]] as const) {
      Deno.mkdirSync(join(folder, "logs", name), { recursive: true });
      const path = join(folder, "logs", name, "events.jsonl");
      Deno.writeTextFileSync(path, "");
      Deno.utimeSync(path, time, time);
    }
    Deno.mkdirSync(join(folder, "logs", "wandb"));
    const old = join(folder, "logs/old");
    for (const word of ["old", old, `${old}/`, join(old, "events.jsonl"), join(folder, "logs/../logs/old")]) {
      assertEquals(findRun(word, folder), old, word);
    }
    assertEquals(findRun("newest", folder), join(folder, "logs/new"));
    assertThrows(() => findRun("ol", folder), UserError, "The runs there are new, middle, old.");
    assertThrows(() => findRun("wandb", folder), UserError, "is no run");
    assertThrows(() => findRun("newest", old), UserError, "There is no run below");
    assertThrows(() => findRun("x", "/nowhere"), UserError, "--save-dir DIR");
    // Who calls a run "newest" gets that one.
    Deno.mkdirSync(join(folder, "logs/newest"));
    Deno.writeTextFileSync(join(folder, "logs/newest/events.jsonl"), "");
    assertEquals(findRun("newest", folder), join(folder, "logs/newest"));
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
