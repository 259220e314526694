// A number of samples that nobody typed is for data that is made: files are used whole.
import { assertEquals } from "@std/assert";
import { ALL_SAMPLES } from "../../../core/settings/sections/data.ts";
import { getDebugConfig, resolveSettings, type SettingsRequest } from "../../../core/settings/resolve.ts";
import { defaultConfig } from "../../../core/settings/settings.ts";
import { formatOrigin } from "../../../core/settings/values.ts";
import { withFile } from "./helpers.ts";

function counts(request: Partial<SettingsRequest>): [number, number, string] {
  const { config: { data }, origin } = resolveSettings({ argv: [], env: {}, ...request });
  return [data.train_samples, data.val_samples, formatOrigin(origin("data.train_samples"))];
}

const FILES = ["--data-path", "rows.csv"];

Deno.test("the defaults and a preset's numbers are for data that is made", () => {
  assertEquals(counts({}), [100_000, 10_000, "default"]);
  assertEquals(counts({ argv: ["--debug"] }), [2000, 200, "preset debug"]);
  assertEquals(counts({ argv: ["--preset", "quickstart"] }), [4000, 500, "preset quickstart"]);
  assertEquals(counts({ argv: ["--data", "own.ts", ...FILES] }), [100_000, 10_000, "default"]);
});

Deno.test("files are used whole, whatever the preset says of data that is made", () => {
  for (const argv of [FILES, ["--debug", ...FILES], ["--preset", "quickstart", ...FILES]]) {
    assertEquals(counts({ argv }), [ALL_SAMPLES, ALL_SAMPLES, "default"], argv.join(" "));
  }
  assertEquals(counts({ env: { DATA_PATH: "rows.csv" } })[0], ALL_SAMPLES);
});

Deno.test("a number that somebody typed holds for files, be it the default's", () => {
  assertEquals(counts({ argv: [...FILES, "--train-samples", "100000"] }), [
    100_000,
    ALL_SAMPLES,
    "--train-samples",
  ]);
  assertEquals(counts({ argv: FILES, env: { TRAIN_SAMPLES: "7" } }), [7, ALL_SAMPLES, "env TRAIN_SAMPLES"]);
  withFile("data: { train_samples: 100000, val_samples: 3 }\n", (path) => {
    assertEquals(counts({ argv: [...FILES, "--config", path] }).slice(0, 2), [100_000, 3]);
  });
  assertEquals(counts({ argv: [...FILES, "--debug", "--val-samples", "200"] }).slice(0, 2), [
    ALL_SAMPLES,
    200,
  ]);
});

Deno.test("a run that goes on keeps the count that it began with, also one of a version that cut files", () => {
  const older = { data: { data_path: "rows.csv", train_samples: 100_000, val_samples: 10_000 } };
  assertEquals(counts({ checkpoint: older }), [100_000, 10_000, "checkpoint"]);
  assertEquals(counts({ checkpoint: older, argv: ["--debug"] })[0], 100_000);
  const { config } = resolveSettings({ argv: FILES, env: {} });
  const saved = JSON.parse(JSON.stringify(config));
  assertEquals(counts({ checkpoint: saved }), [ALL_SAMPLES, ALL_SAMPLES, "checkpoint"]);
  const made = { data: { type: "fields", train_samples: 640, val_samples: 64 } };
  assertEquals(counts({ checkpoint: made }), [640, 64, "checkpoint"]);
});

Deno.test("a checkpoint's count is of its own kind of data", () => {
  const made = { data: { train_samples: 640, val_samples: 64 } };
  assertEquals(counts({ checkpoint: made, argv: FILES })[0], ALL_SAMPLES);
  const { config: ofFiles } = resolveSettings({ argv: FILES, env: {} });
  const argv = ["--data-path", "", "--data-type", "synthetic"];
  assertEquals(counts({ checkpoint: ofFiles, argv }), [100_000, 10_000, "default"]);
  assertEquals(counts({ checkpoint: ofFiles, argv: [...argv, "--debug"] }), [2000, 200, "preset debug"]);
});

Deno.test("a program's file is used whole, and a number that it sets counts", () => {
  const config = getDebugConfig();
  Object.assign(config.data, { type: "csv", data_path: "rows.csv" });
  assertEquals(counts({ program: { config, preset: "debug" } })[0], ALL_SAMPLES);
  config.data.train_samples = 1500;
  assertEquals(counts({ program: { config, preset: "debug" } })[0], 1500);
  const own = defaultConfig();
  own.data.data_path = "rows.csv";
  assertEquals(counts({ program: { config: own, preset: null } })[0], ALL_SAMPLES);
});

Deno.test("all samples have a word, in a flag and in a file of settings", () => {
  withFile("data: { val_samples: all }\n", (path) => {
    assertEquals(counts({ argv: ["--config", path] }).slice(0, 2), [100_000, ALL_SAMPLES]);
  });
  assertEquals(counts({ argv: [...FILES, "--train-samples", "all"] }), [
    ALL_SAMPLES,
    ALL_SAMPLES,
    "--train-samples",
  ]);
});
