// The order of the layers.
import { assert, assertEquals } from "@std/assert";
import { resolveSettings } from "../../../core/settings/resolve.ts";
import { defaultConfig } from "../../../core/settings/settings.ts";
import { refusal, withFile } from "./helpers.ts";

Deno.test("defaults give way to preset, file, environment and flags, in this order", () => {
  withFile("training: { epochs: 11, batch_size: 12, lr: 0.5 }", (path) => {
    const env = { HPCTRAIN_BATCH_SIZE: "21", HPCTRAIN_LR: "0.25" };
    const argv = ["--lr", "0.125", "--preset", "debug", "--config", path];
    const { config, originText, preset } = resolveSettings({ argv, env });
    const { epochs, batch_size, optimizer, log_interval, seed } = config.training;
    assertEquals([epochs, batch_size, optimizer.learning_rate, log_interval, seed], [11, 21, 0.125, 10, 0]);
    assertEquals(originText("training.seed"), "default");
    assertEquals(originText("training.log_interval"), "preset debug");
    assert(originText("training.epochs").endsWith("run.yaml:1:21"));
    assertEquals(originText("training.batch_size"), "env HPCTRAIN_BATCH_SIZE");
    assertEquals(originText("training.optimizer.learning_rate"), "--lr");
    assertEquals(preset, "debug");
  });
});

Deno.test("a checkpoint's settings stand above the preset and below flags; what belongs to its machine stays behind", () => {
  const checkpoint = defaultConfig();
  checkpoint.model.hidden_size = 99;
  checkpoint.training.seed = 5;
  checkpoint.training.device = "cuda";
  checkpoint.output.quiet = true;
  const old = { ...checkpoint, gone: 1, wandb: undefined };
  const { config, originText } = resolveSettings({
    argv: ["--seed", "6"],
    env: {},
    preset: "debug",
    checkpoint: old,
  });
  assertEquals([config.model.hidden_size, config.training.seed], [99, 6]);
  assertEquals([config.training.device, config.output.quiet], ["auto", false]);
  assertEquals(originText("model.hidden_size"), "checkpoint");
});

Deno.test("a run of a version without a setting goes on as it did then, and a new run has the default", () => {
  const windows = (checkpoint: unknown, ...argv: string[]) =>
    resolveSettings({ argv, env: {}, checkpoint }).config.data.windows;
  assertEquals(windows(undefined), "shifted");
  assertEquals(windows({ data: { shuffle: true } }), "fixed");
  assertEquals(windows({ data: { windows: "random" } }), "random");
  assertEquals(windows({ data: { shuffle: true } }, "--windows", "random"), "random");
});

Deno.test("the mistakes of flags, files, variables and the preset are all told at once, each with its place", () => {
  const file = `training:
  epochs: many
  batch_sise: 3
  optimizer: { type: adm }
wandb: 7
`;
  const said = withFile(file, (path) =>
    refusal({
      argv: [
        "--lrr",
        "3",
        "--preset",
        "cpuu",
        "--config",
        path,
        "--patience",
        "x",
        "--precision=bf17",
        "extra",
        "--seed",
        "3",
      ],
      env: { HPCTRAIN_TRAINING_ZZZ: "1", LR: "fast", LEARNING_RATE: "1e-3" },
    }).replaceAll(path, "run.yaml"));
  const [head, ...lines] = said.split("\n");
  assertEquals(head, "The configuration has 11 mistakes.");
  const places = lines.map((line) =>
    /^ {2}(Unknown flag --lrr|Unexpected argument "extra"|--[\w-]+|[^:]+(:\d+:\d+)?)/.exec(line)![1]
  );
  assertEquals(places, [
    "Unknown flag --lrr",
    "--patience",
    "--precision",
    'Unexpected argument "extra"',
    "--preset",
    "run.yaml:2:11",
    "run.yaml:3:3",
    "run.yaml:4:22",
    "run.yaml:5:8",
    "env HPCTRAIN_TRAINING_ZZZ",
    "env LR",
  ]);
});
