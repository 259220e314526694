// `hpctrain presets`.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { PRESET_NAMES } from "../../core/settings/presets.ts";
import { hpctrain } from "./helpers.ts";
import { sentenceNamed } from "../sentences.ts";

Deno.test("presets lists each with the layout it is for", async () => {
  const { code, out } = await hpctrain(["presets"]);
  assertEquals(code, 0);
  for (const line of out.split("\n")) assert(line.length <= 100, line);
  for (const name of PRESET_NAMES) assert(out.includes(`${name} `), name);
  assertStringIncludes(out.replaceAll(/\s+/g, " "), "[2 or more GPUs on 2 or more nodes]");
});

Deno.test("presets NAME prints a file that --config takes", async () => {
  const path = await Deno.makeTempFile({ suffix: ".yaml" });
  try {
    await Deno.writeTextFile(path, (await hpctrain(["presets", "multi-gpu"])).out);
    const { config } = JSON.parse((await hpctrain(["config", "--json", "--config", path])).out);
    assertEquals([config.training.batch_size, config.training.device], [64, "cuda"]);
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("an unknown preset is refused with the nearest one", async () => {
  const { code, err } = await hpctrain(["presets", "quikstart"]);
  assertEquals([code, err], [
    2,
    sentenceNamed("commands/presets: hpctrain hpctrain presets"),
  ]);
});
