// Maps whose points have a latitude and a longitude each: which way is up, and what --sel takes of them.
import { assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import type { Variable } from "../../../../core/data/arrays/table.ts";
import { mapAxesOf, meansAlong, type PreviewField } from "../../../../core/data/preview/axes.ts";
import { paint } from "../../../../core/data/preview/picture.ts";
import { picturesOf } from "../../../../core/data/preview/preview.ts";
import { selected } from "../../../../core/data/arrays/select.ts";
import { assertSentence } from "../../../sentences.ts";

const HEIGHT = 5, WIDTH = 6;
/** Rows are tilted: each point has values of its own. */
const latitude = Float64Array.from(
  { length: HEIGHT * WIDTH },
  (_, i) => 40 + 2 * Math.floor(i / WIDTH) + 0.1 * (i % WIDTH),
);
const longitude = Float64Array.from(
  { length: HEIGHT * WIDTH },
  (_, i) => 350 + 5 * (i % WIDTH) + 0.2 * Math.floor(i / WIDTH),
);

const field = (
  name: string,
  dimensions: string[],
  shape: number[],
  values: ArrayLike<number>,
  units = "",
): PreviewField => {
  const each = shape.slice(1).reduce((a, b) => a * b, 1);
  return {
    ...{ name, dimensions, shape, dtype: "f32", units },
    read: (first, count) => Float64Array.from({ length: count * each }, (_, i) => values[first * each + i]),
  };
};
const map = field("t", ["time", "y", "x"], [1, HEIGHT, WIDTH], latitude);

Deno.test("rows and columns have the means of their points' coordinates, unless these turn back", () => {
  const fields = [
    map,
    field("lat", ["y", "x"], [HEIGHT, WIDTH], latitude, "degrees_north"),
    field("lon", ["y", "x"], [HEIGHT, WIDTH], longitude, "degrees_east"),
  ];
  const axes = mapAxesOf(fields, map)!;
  assertEquals([axes.y.name, axes.y.units, axes.y.values!.map((value) => Number(value.toFixed(6)))], [
    ...["lat", "degrees_north"],
    Float64Array.of(40.25, 42.25, 44.25, 46.25, 48.25),
  ]);
  assertEquals([axes.x.name, axes.x.values![1] - axes.x.values![0]], ["lon", 5]);
  assertEquals(meansAlong([1, 1, 5, 5, 2, 2], [3, 2], "rows"), null);
  assertEquals(mapAxesOf([map], map), {
    x: { name: "x", units: undefined, values: null },
    y: { name: "y", units: undefined, values: null },
  });
});

Deno.test("a map whose rows begin in the south is drawn with the north on top, by either kind of coordinate", () => {
  const top = (all: PreviewField[]) => {
    const { rgb } = paint(picturesOf([map], all)!.raster(0), { width: WIDTH, height: HEIGHT });
    return [...rgb.subarray(0, 3)].join() ===
        [...paint(picturesOf([map])!.raster(0), { width: WIDTH, height: HEIGHT }).rgb.subarray(0, 3)].join()
      ? "south"
      : "north";
  };
  const rows = (values: number[]) => field("y", ["y"], [HEIGHT], values, "degrees_north");
  assertEquals(top([map]), "south");
  assertEquals(top([map, rows([40, 42, 44, 46, 48])]), "north");
  assertEquals(top([map, rows([48, 46, 44, 42, 40])]), "south");
  assertEquals(top([map, field("lat", ["y", "x"], [HEIGHT, WIDTH], latitude, "degrees_north")]), "north");
});

Deno.test("--sel takes the smallest rectangle of points that lie there, across the meridian too", () => {
  const variable = (name: string, values: Float64Array, units: string): Variable => ({
    ...{ name, shape: [HEIGHT, WIDTH], dtype: "f64", dimensions: ["y", "x"], auxiliary: true },
    attributes: new Map([["units", units]]),
    read: () => new Uint8Array(values.buffer.slice(0) as ArrayBuffer),
    rows: () => "is read whole",
  });
  const variables = [variable("lat", latitude, "degrees_north"), variable("lon", longitude, "degrees_east")];
  const from = { path: "a.nc", noun: "variable", variables, named: true };
  const sizes = (...sel: string[]) => selected(from, sel)[0].shape;
  assertEquals(sizes("lat=42..45"), [2, WIDTH]);
  assertEquals(sizes("lat=42..44.3"), [2, WIDTH]);
  assertEquals(sizes("lon=-6..6"), [HEIGHT, 3]);
  assertEquals(sizes("lon=-6..6", "lat=45..90"), [2, 3]);
  const said = (...sel: string[]) => assertThrows(() => sizes(...sel), UserError).message;
  assertSentence("core/data/preview/curvilinear: nothing lies sel", said("lat=80..90"));
  assertSentence("core/data/preview/curvilinear: sel lat north", said("lat=north"));
});
