// Other data than a run's own is read whole: the counts of the run are of its data.
import { assertEquals } from "@std/assert";
import { join } from "paths";
import { whole } from "../../commands/run/parts.ts";
import { asPacked } from "../../commands/run/pack.ts";
import { ALL_SAMPLES } from "../../core/settings/sections/data.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { inTemp } from "../integration/program.ts";

const CAPPED = { data: { type: "auto", data_path: "old", train_samples: 100_000, val_samples: 10_000 } };

Deno.test("what a run was cut to cuts no folder of images or table that is predicted", () =>
  inTemp((folder) => {
    for (const name of ["cats", "dogs"]) {
      Deno.mkdirSync(join(folder, name));
      Deno.writeTextFileSync(join(folder, name, "a.jpg"), "");
    }
    Deno.writeTextFileSync(join(folder, "rows.csv"), "x,y\n1,2\n");
    const counts = (...argv: string[]) => {
      const resolved = resolveSettings({ argv, env: {}, checkpoint: CAPPED });
      const { data } = whole(resolved.config, resolved);
      return [data.train_samples, data.val_samples];
    };
    assertEquals(counts("--data-path", folder), [ALL_SAMPLES, ALL_SAMPLES]);
    assertEquals(counts("--data-path", folder, "--train-samples", "5"), [5, ALL_SAMPLES]);
    assertEquals(counts("--data-path", `${folder}/rows.csv`), [ALL_SAMPLES, 0]); // none is held out
    assertEquals(counts("--data-path", "", "--data-type", "synthetic"), [100_000, 10_000]);
  }));

Deno.test("a preset's numbers cut nothing that is packed", () => {
  const packed = (...argv: string[]) => {
    const { data } = asPacked(resolveSettings({ argv, env: {} }), "rows.csv", false);
    return [data.train_samples, data.val_samples];
  };
  assertEquals(packed("--debug"), [ALL_SAMPLES, ALL_SAMPLES]);
  assertEquals(packed("--debug", "--train-samples", "2000"), [2000, ALL_SAMPLES]);
});
