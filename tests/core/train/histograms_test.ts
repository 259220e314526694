// Histograms of weights and gradients.
import { assertEquals } from "@std/assert";
import { numberHistogram } from "../../../core/train/media.ts";

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

Deno.test("each number is counted once, between the least and the largest", () => {
  const numbers = Float64Array.from({ length: 1000 }, (_, i) => i / 999 * 4 - 1);
  const { values, bins } = numberHistogram(numbers);
  assertEquals([values.length, bins.length, bins[0], bins.at(-1)], [64, 65, -1, 3]);
  assertEquals(sum(values), 1000);
  assertEquals([Math.min(...values) >= 15, Math.max(...values) <= 16], [true, true]);
});

Deno.test("NaN and infinities are left out, one number alone has a place, and none is no error", () => {
  assertEquals(sum(numberHistogram(Float64Array.of(1, NaN, 2, Infinity, -Infinity)).values), 2);
  const { values, bins } = numberHistogram(Float64Array.of(7, 7));
  assertEquals([sum(values), bins[0], bins.at(-1)], [2, 6.5, 7.5]);
  assertEquals(sum(numberHistogram(new Float64Array(0)).values), 0);
});
