// The report of a data set stays small, whatever is in the files.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Preview } from "../../../../core/data/preview/preview.ts";
import type { PreviewField } from "../../../../core/data/preview/axes.ts";
import { dataPage } from "../../../../core/outputs/report/data_page.ts";
import { textOf } from "./reports.ts";

const noise = (i: number) => (i * 2654435761 % 4294967296) / 4294967296;

function fieldOf(
  name: string,
  shape: readonly number[],
  value: (i: number) => number,
  more: Partial<PreviewField> = {},
) {
  const size = shape.slice(1).reduce((product, side) => product * side, 1);
  const read = (first: number, count: number) =>
    Float64Array.from({ length: count * size }, (_, i) => value(first * size + i));
  return { name, shape, dtype: "f32", read, ...more };
}

const previewOf = (fields: PreviewField[], more: Partial<Preview> = {}): Preview => ({
  ...{ path: "a.nc", kind: "NetCDF file", bytes: 1000, samples: 2, noun: "variable", facts: {} },
  ...{ fields, classes: null, pictures: null },
  ...more,
});

Deno.test("a page of noise, of a thousand variables, and of endless names is below 2 MB", async () => {
  const long = "<x>&".repeat(100_000);
  const holes = (i: number) => noise(i) < 0.5 ? NaN : noise(i + 7);
  const maps = Array.from(
    { length: 30 },
    (_, k) => fieldOf(`${k}${long}`, [2, 100, 200], holes, { units: long, dimensions: ["t", long, "x"] }),
  );
  const others = Array.from({ length: 1000 }, (_, k) => fieldOf(`n${k}`, [2], noise, { remark: long }));
  const dimensions = Array.from({ length: 500 }, (_, k) => ({ name: `${k}${long}`, size: 2 }));
  const facts = Object.fromEntries(Array.from({ length: 100 }, (_, k) => [`${k}${long}`, long]));
  const classes = Array.from({ length: 1000 }, (_, k) => ({ name: `${k}${long}`, samples: k }));
  const page = await dataPage(previewOf([...maps, ...others], { dimensions, facts, classes, path: long }), 0);
  assert(page.length < 2e6, `${page.length} bytes`);
  assert(!page.includes("<x>"));
});

Deno.test("columns stand side by side with their numbers, and classes as bars", async () => {
  const fields = [
    fieldOf("age", [10], (i) => i),
    fieldOf("colour", [10], (i) => i % 2, { texts: ["blue", "red"], dtype: "text" }),
    fieldOf("id", [10], (i) => i, { remark: "describes others" }),
  ];
  const text = textOf({
    text: (await dataPage(previewOf(fields, { noun: "column" }), 0)).split("</style>")[1],
  });
  for (const said of ["Columns age", "0 to 9 · mean 4.5 ± 2.872", "blue 5 50.0% red 5 50.0%", "Not drawn"]) {
    assertStringIncludes(text, said);
  }
  assertEquals(text.includes("Coverage"), false);
});
