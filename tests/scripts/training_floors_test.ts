import { assertEquals } from "@std/assert";
import { goesUp } from "../../scripts/lint_floors.ts";

Deno.test("a file of training that knows what stands above it there is refused, if only by a type", () => {
  const up = (from: string, to: string) =>
    goesUp({ from: `core/train/${from}`, to: `core/train/${to}`, typeOnly: true });
  assertEquals(up("arena.ts", "gradients/zero.ts"), true);
  assertEquals(up("gradients/strategy.ts", "pauses.ts"), true);
  assertEquals(up("pauses.ts", "trainer.ts"), true);
  assertEquals(up("trainer.ts", "loop.ts"), true);
  assertEquals(up("loop.ts", "trainer.ts"), false);
  assertEquals(up("epoch.ts", "loop.ts"), false);
  assertEquals(up("run.ts", "arena.ts"), false);
});
