// `--data-type fields`, as training opens it.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { useLibtorch } from "../../../libtorch.ts";
import { opened, refusedData } from "../opened.ts";

useLibtorch();

Deno.test("fields are fields, whatever the model", () => {
  assertEquals(opened({ type: "fields" }, { name: "resnet18" }).train.facts.outputs, 2);
});

Deno.test("fields refuse a path, and more or larger ones than fit", () => {
  const because = (data = {}, model = {}) => refusedData({ type: "fields", ...data }, model).message;
  assert(because({ data_path: "maps.nc" }).includes("--data-path is maps.nc"));
  assertMatch(
    because({ val_samples: 1e9 }),
    /would take .* of memory, and made-up data may take 512.0 MiB: set --val-samples \d+ or less/,
  );
  assert(because({}, { image_size: 1e6 }).endsWith("512.0 MiB: make the samples smaller."));
});
