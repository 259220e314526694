// Which settings a run says it does nothing with.
import { assertEquals, assertMatch } from "@std/assert";
import { resolve } from "../../../core/config/resolve.ts";
import { withoutEffect } from "../../../core/train/limits.ts";

const told = (argv: string[], checkpoint?: unknown) => withoutEffect(resolve({ argv, env: {}, checkpoint }));

Deno.test("a setting that was asked for and does nothing is named, with where it was given", () => {
  const [line, ...more] = told(["--wandb-offline", "--timeout", "5min", "--partition", "gpu"]);
  assertEquals(more, []);
  assertMatch(line, /wandb\.mode \(--wandb-offline\).*distributed\.timeout .*cluster\.partition /);
});

Deno.test("defaults that a checkpoint or a file repeats are nobody's wish", () => {
  assertEquals(told([], resolve({ argv: [], env: {} }).config), []);
  assertEquals(told(["--preset", "multi-node"]), []);
  const [line] = told([], { training: { compile: true, profile_training: false } });
  assertMatch(line, /: training\.compile \(checkpoint\)\.$/);
});
