// `hpctrain config`.
import { assert, assertEquals } from "@std/assert";
import { settingsPage } from "../../core/settings/reference.ts";
import { ALL_SETTINGS } from "../../core/settings/settings.ts";
import { hpctrain } from "./helpers.ts";

Deno.test("config shows each value and its origin, aligned", async () => {
  const { code, out } = await hpctrain(["config", "--preset", "debug", "--lr", "1e-3"], {
    HPCTRAIN_SEED: "4",
  });
  assertEquals(code, 0);
  const line = (key: string) => out.split("\n").find((text) => text.trim().startsWith(key))!;
  assert(/optimizer\.learning_rate +0\.001 +--lr$/.test(line("optimizer.learning_rate")));
  assert(/seed +4 +env HPCTRAIN_SEED$/.test(line("seed")));
  assert(/epochs +3 +preset debug$/.test(line("epochs")));
  assert(/max_steps +0 \(no limit\) +default$/.test(line("max_steps")));
  assertEquals(line("seed").indexOf("env"), line("epochs").indexOf("preset"));
  for (const { path } of ALL_SETTINGS) assert(line(path.slice(path.indexOf(".") + 1)), path);
});

Deno.test("config --json is one document with every value and every origin", async () => {
  const { out } = await hpctrain(["config", "--json", "--preset", "cpu", "--set", "training.epochs=7"]);
  const { preset, config, origin } = JSON.parse(out);
  assertEquals([preset, config.training.epochs, origin["training.epochs"]], [
    "cpu",
    7,
    "--set training.epochs",
  ]);
  assertEquals(Object.keys(origin).length, ALL_SETTINGS.length);
  assertEquals(config.output.json, false);
});

Deno.test("what config --yaml prints is a file that gives the same configuration", async () => {
  const argv = ["--preset", "quickstart", "--wandb-tags", "a,b", "--warmup", "1ep", "--run-name", "123"];
  const { out } = await hpctrain(["config", "--yaml", ...argv]);
  const want = JSON.parse((await hpctrain(["config", "--json", ...argv])).out).config;
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/run.yaml`, out);
    const got =
      JSON.parse((await hpctrain(["config", "--json", "--config", `${folder}/run.yaml`])).out).config;
    assertEquals(got, want);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("config --schema is JSON Schema and --docs the page of settings", async () => {
  const schema = JSON.parse((await hpctrain(["config", "--schema"])).out);
  assertEquals(schema.properties.training.properties.epochs.minimum, 1);
  assertEquals(schema.properties.train, { $ref: "#/properties/training" });
  assertEquals((await hpctrain(["config", "--docs"])).out.trimEnd(), settingsPage().trimEnd());
});

Deno.test("a mistake in a file ends config with its place and exit code 2", async () => {
  const path = Deno.makeTempFileSync({ suffix: ".yaml" });
  try {
    Deno.writeTextFileSync(path, "training:\n  epochs: many\n");
    const { code, out, err } = await hpctrain(["config", "--config", path]);
    assertEquals([code, out], [2, ""]);
    assert(err.startsWith(`hpctrain: ${path}:2:11: training.epochs`), err);
  } finally {
    Deno.removeSync(path);
  }
});

Deno.test("config --changed shows what differs from the default, with its origin, and nothing else", async () => {
  const argv = [
    "config",
    "--changed",
    "--preset",
    "debug",
    "--lr",
    "1e-2",
    "--seed",
    "0",
    "--batch-size",
    "64",
  ];
  const { out } = await hpctrain(argv, { EPOCHS: "9" });
  const rows = out.split("\n").filter((line) => line.startsWith("  ")).map((line) =>
    line.trim().split(/ {2,}/)
  );
  assertEquals(rows.find(([key]) => key === "epochs"), ["epochs", "9", "env EPOCHS"]);
  assertEquals(rows.find(([key]) => key === "optimizer.learning_rate"), [
    "optimizer.learning_rate",
    "0.01",
    "--lr",
  ]);
  assertEquals(rows.find(([key]) => key === "hidden_size"), ["hidden_size", "32", "preset debug"]);
  for (const key of ["seed", "batch_size", "log_gpu_memory"]) {
    assert(!rows.some(([name]) => name === key), key);
  }
  const { config, origin } = JSON.parse((await hpctrain([...argv, "--json"])).out);
  assertEquals(Object.keys(origin).length, rows.length);
  assertEquals(config.training.optimizer, { learning_rate: 0.01 });
  assertEquals((await hpctrain(["config", "--changed"])).out, "Every setting has its default.\n");
});
