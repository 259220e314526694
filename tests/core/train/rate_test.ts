// The learning rate: what somebody typed is what is used, and a preset scales its own.
import { assertEquals, assertStringIncludes } from "@std/assert";
import { variableOf } from "../../../core/settings/environment.ts";
import { getMultiNodeConfig, originsOf, resolveSettings } from "../../../core/settings/resolve.ts";
import { isTyped, type Origin } from "../../../core/settings/values.ts";
import { rateLine, scaledLearningRate } from "../../../core/train/schedule.ts";
import { fromArgv, withFile } from "../settings/helpers.ts";
import { assertSentence } from "../../sentences.ts";

const peak = (resolved: ReturnType<typeof resolveSettings>, global = 256) =>
  scaledLearningRate(resolved.config.training, global);
const PRESETS = ["cpu-cluster", "single-gpu", "multi-gpu", "multi-node"];

Deno.test("linear scaling multiplies the rate by global batch over base batch, none leaves it", () => {
  const t = { base_batch_size: 64, optimizer: { learning_rate: 1e-3 } };
  assertEquals(scaledLearningRate({ ...t, lr_scaling: "linear" }, 256), 4e-3);
  assertEquals(scaledLearningRate({ ...t, lr_scaling: "none" }, 256), 1e-3);
});

Deno.test("a rate typed as a flag, in a file or as a variable is the rate that is used, with every preset", () => {
  for (const preset of PRESETS) {
    const argv = ["--preset", preset];
    assertEquals(peak(fromArgv(...argv)), 1.2e-3, `${preset} scales its own`);
    assertEquals(peak(fromArgv(...argv, "--lr", "0.01")), 0.01);
    assertEquals(peak(fromArgv(...argv, "--set", "training.lr=0.01")), 0.01);
    assertEquals(peak(resolveSettings({ argv, env: { HPCTRAIN_LR: "0.01" } })), 0.01);
    withFile("training: { optimizer: { learning_rate: 0.01 } }", (path) => {
      assertEquals(peak(fromArgv(...argv, "--config", path)), 0.01);
    });
  }
});

Deno.test("a typed rate is scaled where linear scaling was typed as well, wherever either stands", () => {
  const argv = ["--preset", "multi-node", "--lr", "0.01"];
  assertEquals(peak(fromArgv(...argv, "--lr-scaling", "linear")), 0.04);
  assertEquals(peak(resolveSettings({ argv, env: { HPCTRAIN_LR_SCALING: "linear" } })), 0.04);
  withFile("training: { lr_scaling: linear }", (path) => {
    assertEquals(peak(fromArgv(...argv, "--config", path)), 0.04);
  });
  assertEquals(peak(fromArgv("--preset", "multi-node", "--lr-scaling", "none")), 3e-4);
});

Deno.test("a run that goes on keeps its rate, and one that is typed anew is used as it is", () => {
  const preset = ["--preset", "multi-node"];
  const typed = fromArgv(...preset, "--lr", "0.01").config, own = fromArgv(...preset).config;
  const again = (checkpoint: unknown, ...more: string[]) =>
    peak(resolveSettings({ argv: [...preset, ...more], env: {}, checkpoint }));
  assertEquals(again(typed), 0.01);
  assertEquals(again(typed, "--lr", "0.01"), 0.01, "a job that is started again");
  assertEquals(again(own), 1.2e-3);
  assertEquals(again(own, "--lr", "0.02"), 0.02);
});

Deno.test("a rate that a program sets is used as it is, and a preset's own is scaled", () => {
  const config = getMultiNodeConfig({ numNodes: 2, gpusPerNode: 4 });
  const asked = () =>
    peak(resolveSettings({ argv: [], env: {}, program: { config, preset: "multi-node" }, ranks: 8 }));
  assertEquals(asked(), 1.2e-3);
  config.training.optimizer.learning_rate = 0.01;
  assertEquals(asked(), 0.01);
});

Deno.test("a value's layer is a field, and its words are for people", () => {
  const env = { HPCTRAIN_EPOCHS: "3" };
  const resolved = resolveSettings({
    argv: ["--preset", "multi-gpu", "--lr=1e-3"],
    env,
    checkpoint: { data: { flip: "both" } },
  });
  const { origin, originText } = resolved;
  const variable = (path: string) => variableOf(origin(path));
  assertEquals(
    ["training.optimizer.learning_rate", "training.epochs", "data.flip", "training.amp", "training.seed"].map(
      (path) => origin(path).kind,
    ),
    ["flag", "environment", "checkpoint", "preset", "default"],
  );
  assertEquals([variable("training.epochs"), variable("training.seed")], ["HPCTRAIN_EPOCHS", null]);
  assertEquals(originText("training.lr_scaling"), "--lr, used as typed");
  assertEquals(originsOf(resolved)["training.lr_scaling"], "--lr, used as typed");
  assertEquals(["file", "environment", "flag"].map((kind) => isTyped({ kind } as Origin)), [
    true,
    true,
    true,
  ]);
});

Deno.test("the line of the start says the rate, where it is from, and the factor", () => {
  const line = (...argv: string[]) => {
    const { config, originText } = fromArgv("--preset", "multi-gpu", ...argv);
    return rateLine(config.training, 256, originText);
  };
  assertSentence("core/train/rate: learning rate scaled", line("--lr", "0.01"));
  const scaled = line();
  assertStringIncludes(scaled, "1.2e-3 = 0.0003 (default) x 4");
  assertStringIncludes(scaled, "lr_scaling is linear (preset multi-gpu)");
  assertStringIncludes(line("--lr=6e-4", "--lr-scaling=linear"), "2.4e-3 = 0.0006 (--lr) x 4");
});
