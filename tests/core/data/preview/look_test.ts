// What a report shows of a field.
import { assertEquals } from "@std/assert";
import { fieldOverviews, overviewOf, shrunkPlane, upsideDown } from "../../../../core/data/preview/look.ts";
import type { Preview } from "../../../../core/data/preview/preview.ts";
import type { PreviewField } from "../../../../core/data/preview/axes.ts";

function fieldOf(shape: readonly number[], value: (i: number) => number, more: Partial<PreviewField> = {}) {
  const size = shape.slice(1).reduce((product, side) => product * side, 1);
  const reads: number[] = [];
  const read = (first: number, count: number) => {
    reads.push(first);
    return Float64Array.from({ length: count * size }, (_, i) => value(first * size + i));
  };
  return { name: "a", shape, dtype: "f32", read, reads, ...more };
}

Deno.test("a map is the mean of what is there, with the share that is missing, and its numbers are those of all values", () => {
  // A point is never there, and another one is missing in one of four samples.
  const field = fieldOf([4, 5, 6], (i) => i % 30 === 7 || i === 68 ? NaN : i);
  const look = overviewOf(field, 1)!;
  const [{ channel, mean, missing }] = look.maps;
  assertEquals([channel, mean.width, mean.height], [null, 6, 5]);
  assertEquals([mean.values[0], mean.values[7], mean.values[8]], [45, NaN, (8 + 38 + 98) / 3]);
  assertEquals([missing.values[0], missing.values[7], missing.values[8]], [0, 1, 0.25]);
  assertEquals([look.missing, look.values, look.rows], [5, 120, [0, 1, 2, 3]]);
  assertEquals([...look.present], [29 / 30, 29 / 30, 28 / 30, 29 / 30]);
  const all = Array.from({ length: 120 }, (_, i) => i).filter((i) => i % 30 !== 7 && i !== 68);
  const average = all.reduce((a, b) => a + b) / all.length;
  assertEquals([look.numbers?.min, look.numbers?.max, look.numbers?.mean], [0, 119, average]);
  assertEquals(look.numbers?.histogram.counts.reduce((a, b) => a + b), 115);
});

Deno.test("of several channels the first, the middle and the last one are maps, and colours that are last are channels", () => {
  const look = overviewOf(fieldOf([2, 7, 4, 4], (i) => Math.floor(i / 16) % 7), 1)!;
  assertEquals(look.maps.map(({ channel, mean }) => [channel, mean.values[0]]), [[0, 0], [3, 3], [6, 6]]);
  const last = overviewOf(fieldOf([2, 8, 9, 3], (i) => i % 3), 1)!;
  assertEquals(
    last.maps.map(({ mean }) => [mean.width, mean.height, mean.values[5]]),
    [0, 1, 2].map((c) => [9, 8, c]),
  );
  assertEquals(overviewOf(fieldOf([2, 3], (i) => i), 1)!.maps, []);
});

Deno.test("of large data samples from beginning to end are read", () => {
  const field = fieldOf([100_000, 64, 64], () => 1);
  const { rows } = overviewOf(field, 2 ** 20)!; // as if there were many fields
  assertEquals(rows, [0]);
  const some = overviewOf(fieldOf([100_000, 64, 64], (i) => Math.floor(i / 4096)), 4096)!;
  assertEquals(some.rows, [0, 12500, 25000, 37500, 50000, 62500, 75000, 87500]);
  assertEquals(some.numbers?.max, 87500);
});

Deno.test("a map without samples is a map; coordinates and what can't be read are not looked at", () => {
  const named = (name: string, shape: readonly number[], dimensions: readonly string[]) =>
    fieldOf(shape, (i) => i, { name, dimensions });
  const fields = [
    named("ice", [3, 4, 5], ["time", "lat", "lon"]),
    named("depth", [4, 5], ["lat", "lon"]),
    named("lat", [4], ["lat"]),
    { ...named("text", [3], ["time"]), read: null, remark: "holds text" },
  ];
  const preview = { fields, dimensions: [{ name: "lat", size: 4 }] } as unknown as Preview;
  const { looks, others } = fieldOverviews(preview, { maps: 10, columns: 10 });
  assertEquals(looks.map(({ field, rows, maps }) => [field.name, rows.length, maps.length]), [["ice", 3, 1], [
    "depth",
    0,
    1,
  ]]);
  assertEquals(looks[1].maps[0].mean.values[19], 19);
  assertEquals(others.map(({ name }) => name), ["text"]);
  assertEquals(fieldOverviews(preview, { maps: 1, columns: 10 }).others.map(({ name }) => name), [
    "depth",
    "text",
  ]);
});

Deno.test("a smaller plane has the means of its points, and north is up when it is turned", () => {
  const values = Float64Array.of(1, 3, NaN, NaN, 5, 7, NaN, 9);
  assertEquals(shrunkPlane({ width: 4, height: 2, values }, 8).width, 4);
  const { width, height, values: small } = shrunkPlane({ width: 4, height: 2, values }, 2);
  assertEquals([width, height, ...small], [2, 1, 4, 9]);
  assertEquals([...upsideDown({ width: 4, height: 2, values }).values.slice(0, 4)], [5, 7, NaN, 9]);
});
