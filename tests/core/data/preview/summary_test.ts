// Ranges, missing values and counts of fields.
import { assertEquals } from "@std/assert";
import type { PreviewField } from "../../../../core/data/preview/axes.ts";
import { fieldRange } from "../../../../core/data/preview/summary.ts";

/** A field of numbers, and how many of its rows were read. */
function field(values: readonly number[], row = 1, more: Partial<PreviewField> = {}) {
  const shape = row === 1 ? [values.length] : [values.length / row, row];
  const made = {
    name: "a",
    shape,
    dtype: "f32",
    most: 0,
    read(first: number, count: number) {
      made.most = Math.max(made.most, first + count);
      return values.slice(first * row, (first + count) * row);
    },
    ...more,
  };
  return made;
}

Deno.test("a range is of the finite values; the others are counted", () => {
  const found = fieldRange(field([1.5, NaN, -2, Infinity, -Infinity, NaN]), 100);
  const { histogram, ...numbers } = found!;
  assertEquals(numbers, { min: -2, max: 1.5, missing: 2, infinite: 2, rows: 6, mean: -0.25, std: 1.75 });
  assertEquals(histogram, { from: -2, to: 1.5, counts: [1, ...new Array(14).fill(0), 1] });
  const none = { min: null, max: null, mean: null, std: null, histogram: null };
  assertEquals(fieldRange(field([NaN]), 100), { ...none, missing: 1, infinite: 0, rows: 1 });
});

Deno.test("no more rows are read than the budget has values for, but at least one", () => {
  const long = field(Array.from({ length: 1000 }, (_, i) => i), 10);
  assertEquals([fieldRange(long, 55)?.max, long.most], [49, 5]);
  assertEquals([fieldRange(field([1, 2, 3, 4], 2), 1)?.max], [2]);
});

Deno.test("few whole values are counted in their order, texts by their text", () => {
  const labels = field([2, 0, 2, 2, 0, 7, 7]);
  assertEquals(fieldRange(labels, 100)?.counts, [{ value: 0, count: 2 }, { value: 2, count: 3 }, {
    value: 7,
    count: 2,
  }]);
  const words = field([1, 0, 1, 1], 1, { texts: ["blue", "red"] });
  assertEquals(fieldRange(words, 100)?.counts, [{ value: "blue", count: 1 }, { value: "red", count: 3 }]);
  assertEquals(fieldRange(field([0.5, 0.5, 1, 1]), 100)?.counts, undefined, "quantities");
  assertEquals(fieldRange(field([1, 2, 3]), 100)?.counts, undefined, "each once");
  const many = Array.from({ length: 1000 }, (_, i) => i % 21);
  assertEquals(fieldRange(field(many), 10_000)?.counts, undefined, "more than twenty");
});

Deno.test("what has no numbers, or no rows, has no range", () => {
  assertEquals(fieldRange(field([1], 1, { read: null }), 10), null);
  assertEquals(fieldRange(field([], 1), 10), null);
  const one = fieldRange(field([4], 1, { shape: [] }), 10)!;
  assertEquals([one.min, one.max, one.mean, one.std, one.rows], [4, 4, 4, 0, 1]);
  assertEquals(one.histogram?.counts.reduce((a, b) => a + b), 1);
});
