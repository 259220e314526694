// Moments in parts are the moments of the whole.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { deviations, mergeMoments, type Moments } from "../../../../core/data/transforms/statistics.ts";
import { uniform } from "../../../../core/base/random.ts";

/** Of one channel, by the definition. */
function moments(values: readonly number[]): Moments {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return {
    count: values.length,
    mean: [mean],
    squares: [values.reduce((sum, value) => sum + (value - mean) ** 2, 0)],
    min: [Math.min(...values)],
    max: [Math.max(...values)],
  };
}

Deno.test("parts of any sizes come to the moments of the whole", () => {
  const at = uniform(5n);
  const values = Array.from({ length: 1000 }, (_, i) => 1e6 + at(i));
  const whole = moments(values);
  for (const cuts of [[500], [1], [999], [3, 4, 700], [250, 500, 750]]) {
    const ends = [...cuts, values.length];
    const parts = ends.map((end, i) => moments(values.slice(ends[i - 1] ?? 0, end)));
    const merged = mergeMoments(parts);
    assertEquals([merged.count, merged.min, merged.max], [whole.count, whole.min, whole.max]);
    assertAlmostEquals(merged.mean[0], whole.mean[0], 1e-8);
    assert(Math.abs(merged.squares[0] / whole.squares[0] - 1) < 1e-9, `cut at ${cuts}`);
  }
});

Deno.test("the deviation is of the values themselves, as numpy's", () => {
  assertEquals(deviations(moments([1, 3])), [1]);
});
