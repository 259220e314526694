// The order of the layers.
import { assert, assertEquals } from "@std/assert";
import { resolve } from "../../../core/config/resolve.ts";
import { defaults } from "../../../core/config/tree.ts";
import { withFile } from "./helpers.ts";

Deno.test("defaults give way to preset, file, environment and flags, in this order", () => {
  withFile("training: { epochs: 11, batch_size: 12, lr: 0.5 }", (path) => {
    const env = { HPCTRAIN_BATCH_SIZE: "21", HPCTRAIN_LR: "0.25" };
    const argv = ["--lr", "0.125", "--preset", "debug", "--config", path];
    const { config, origin, preset } = resolve({ argv, env });
    const { epochs, batch_size, optimizer, log_interval, seed } = config.training;
    assertEquals([epochs, batch_size, optimizer.learning_rate, log_interval, seed], [11, 21, 0.125, 10, 0]);
    assertEquals(origin("training.seed"), "default");
    assertEquals(origin("training.log_interval"), "preset debug");
    assert(origin("training.epochs").endsWith("run.yaml:1:21"));
    assertEquals(origin("training.batch_size"), "env HPCTRAIN_BATCH_SIZE");
    assertEquals(origin("training.optimizer.learning_rate"), "--lr");
    assertEquals(preset, "debug");
  });
});

Deno.test("a checkpoint's settings stand above the preset and below flags; what belongs to its machine stays behind", () => {
  const checkpoint = defaults();
  checkpoint.model.hidden_size = 99;
  checkpoint.training.seed = 5;
  checkpoint.training.device = "cuda";
  checkpoint.output.quiet = true;
  const old = { ...checkpoint, gone: 1, wandb: undefined };
  const { config, origin } = resolve({ argv: ["--seed", "6"], env: {}, preset: "debug", checkpoint: old });
  assertEquals([config.model.hidden_size, config.training.seed], [99, 6]);
  assertEquals([config.training.device, config.output.quiet], ["auto", false]);
  assertEquals(origin("model.hidden_size"), "checkpoint");
});
