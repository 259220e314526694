import { assertEquals } from "@std/assert";
import { openWandbSummary } from "../../../../core/outputs/wandb/sink.ts";

Deno.test("W&B's best evaluation is the least finite loss: one that is not finite never is", () => {
  const summary = openWandbSummary();
  const losses = ["Infinity", "3", "-Infinity", "2", "NaN"];
  losses.forEach((loss, step) => summary.seen({ step, values: new Map([["val/loss", loss]]) }));
  const said = Object.fromEntries(summary.changed().map(({ key, json }) => [key.join(), json]));
  assertEquals([said["best/step"], said["best/loss"]], ["3", "2"]);
});
