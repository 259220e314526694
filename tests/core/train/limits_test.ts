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

Deno.test("which columns and rows to use has an effect on data of columns, and none on other data", () => {
  const flags = ["--features", "a,b", "--targets", "c", "--bad-samples", "skip"];
  assertEquals(told([...flags, "--data-path", "x.csv"]), []);
  assertEquals(told([...flags, "--data-type", "npz", "--data-path", "x"]), []);
  const [line] = told(flags);
  assertMatch(line, /data\.bad_samples \(--bad-samples\), data\.features .*, data\.targets/);
});
