// HPCTRAIN_* variables.
import { assertEquals, assertStringIncludes } from "@std/assert";
import { resolveSettings } from "../../../core/settings/resolve.ts";
import { environmentLines } from "../../../core/settings/environment.ts";
import { refusal } from "./helpers.ts";
import { assertSentence, sentenceNamed } from "../../sentences.ts";

Deno.test("an empty variable counts as one that is not set", () => {
  assertEquals(
    resolveSettings({ argv: [], env: { HPCTRAIN_EPOCHS: "" } }).originText("training.epochs"),
    "default",
  );
});

Deno.test("a setting's path comes before its flag, and ours before other programs' variables", () => {
  const env = {
    HPCTRAIN_EPOCHS: "3",
    HPCTRAIN_TRAINING_EPOCHS: "4",
    WANDB_MODE: "online",
    HPCTRAIN_WANDB_MODE: "offline",
  };
  const { config } = resolveSettings({ argv: [], env });
  assertEquals([config.training.epochs, config.wandb.mode], [4, "offline"]);
  assertEquals(resolveSettings({ argv: [], env: { WANDB_MODE: "online" } }).config.wandb.mode, "online");
});

Deno.test("HPCTRAIN_PRESET and HPCTRAIN_CONFIG stand for flags, and give way to them", () => {
  const env = { HPCTRAIN_PRESET: "debug", HPCTRAIN_CONFIG: "no-such.yaml" };
  assertEquals(resolveSettings({ argv: [], env: { HPCTRAIN_PRESET: "debug" } }).preset, "debug");
  assertEquals(
    resolveSettings({ argv: ["--preset", "cpu"], env: { HPCTRAIN_PRESET: "debug" } }).preset,
    "cpu",
  );
  assertStringIncludes(refusal({ env }), "no-such.yaml: no such file.");
  assertStringIncludes(
    refusal({ env: { HPCTRAIN_PRESET: "x" } }),
    'env HPCTRAIN_PRESET: unknown preset "x".',
  );
});

Deno.test("a misspelt variable is refused, one of a stranger is left alone", () => {
  assertStringIncludes(refusal({ env: { HPCTRAIN_EPOCH: "3" } }), "Did you mean HPCTRAIN_EPOCHS?");
  assertStringIncludes(
    refusal({ env: { HPCTRAIN_TRAINING_ZZZ: "3" } }),
    "env HPCTRAIN_TRAINING_ZZZ: no setting",
  );
  const env = {
    HPCTRAIN_EXE: "x",
    HPCTRAIN_CACHE: "x",
    HPCTRAIN_PYTHON: "x",
    HPCTRAIN_MY_SITE_ROOT: "x",
    HOME: "x",
  };
  assertEquals(resolveSettings({ argv: [], env }).config.training.epochs, 100);
});

Deno.test("a few variables need no prefix, and two that say different things are refused", () => {
  const env = {
    EPOCHS: "5",
    LEARNING_RATE: "1e-4",
    DATA_DIR: "maps",
    CHECKPOINT_DIR: "ckpt",
    GPUS: "2",
    NODES: "3",
  };
  const resolved = resolveSettings({ argv: ["--epochs", "7"], env });
  const { training, data, output, distributed } = resolved.config;
  assertEquals([training.epochs, training.optimizer.learning_rate], [7, 1e-4]);
  assertEquals([data.data_path, output.model_dir], ["maps", "ckpt"]);
  assertEquals([distributed.gpus_per_node, distributed.nodes], [2, 3]);
  assertEquals(environmentLines(resolved), [
    "From the environment: DATA_DIR=maps, LEARNING_RATE=0.0001, CHECKPOINT_DIR=ckpt, NODES=3, GPUS=2.",
    sentenceNamed("core/settings/environment: epochs environment gives"),
  ]);
  const quiet = resolveSettings({
    argv: ["--epochs", "7"],
    env: { EPOCHS: "7", MODEL: "gpt", SEED: "3", HPCTRAIN_AMP: "off" },
  });
  assertEquals([environmentLines(quiet), quiet.config.model.name, quiet.config.training.seed], [
    [],
    "mlp",
    0,
  ]);
  assertSentence(
    "core/settings/environment: env learning_rate both",
    refusal({ env: { LR: "1e-3", LEARNING_RATE: "1e-4" } }),
  );
  assertStringIncludes(
    refusal({ env: { HPCTRAIN_EPOCHS: "3", EPOCHS: "4" } }),
    "HPCTRAIN_EPOCHS and EPOCHS: both give",
  );
  assertStringIncludes(
    refusal({ env: { EPOCHS: "many" } }),
    "env EPOCHS: training.epochs (--epochs) must be",
  );
});

Deno.test("a bad value is refused with the variable's name", () => {
  assertSentence(
    "core/settings/environment: env hpctrain_lr training",
    refusal({ env: { HPCTRAIN_LR: "fast" } }),
  );
});
