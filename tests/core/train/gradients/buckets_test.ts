// The arena cut into buckets: all of it, once, each whole after the block that is the last to add to it.
import { assert, assertEquals } from "@std/assert";
import { bucketsOf } from "../../../../core/train/gradients/buckets.ts";

const starts = [0, 16, 48, 64, 128, 144];

Deno.test("buckets for a number of ranks can be divided by it, and cover the arena once", () => {
  for (const ranks of [2, 3, 5, 8]) {
    for (const least of [1, 20, 50, 1000]) {
      const total = Math.ceil(200 / ranks) * ranks;
      const buckets = bucketsOf(starts, total, [0, 0, 1, 1, 2, 2], least, ranks);
      const sorted = buckets.toSorted((a, b) => a.from - b.from);
      assertEquals([sorted[0].from, sorted.at(-1)!.to], [0, total]);
      for (let i = 1; i < sorted.length; i++) assertEquals(sorted[i].from, sorted[i - 1].to);
      for (const { from, to, after } of buckets) {
        assert(to > from && (to - from) % ranks === 0, `${from} to ${to}`);
        // Whole when the first block of everything in it is done.
        const inIt = starts.flatMap((start, i) =>
          start < to && (starts[i + 1] ?? total) > from ? [Math.floor(i / 2)] : []
        );
        assertEquals(after, Math.min(...inIt), `${from} to ${to}`);
      }
    }
  }
});

Deno.test("buckets cover the arena once, from its end on, and none but the last is smaller than asked", () => {
  for (const least of [1, 20, 50, 1000]) {
    const buckets = bucketsOf(starts, 200, [0, 0, 1, 1, 2, 2], least);
    const sorted = buckets.toSorted((a, b) => a.from - b.from);
    assertEquals(sorted[0].from, 0);
    assertEquals(sorted.at(-1)!.to, 200);
    for (let i = 1; i < sorted.length; i++) assertEquals(sorted[i].from, sorted[i - 1].to);
    for (const { from, to } of sorted.slice(1)) assert(to - from >= least);
  }
});

Deno.test("a bucket is whole when the first block that uses one of its parameters is done", () => {
  assertEquals(bucketsOf(starts, 200, [0, 0, 1, 1, 2, 2], 1).map(({ after }) => after), [2, 2, 1, 1, 0, 0]);
  assertEquals(bucketsOf(starts, 200, [0, 0, 1, 1, 2, 2], 100).map(({ from, after }) => [from, after]), [[
    64,
    1,
  ], [
    0,
    0,
  ]]);
});

Deno.test("a tied parameter at the end holds its own bucket back, and not those before it", () => {
  const order = bucketsOf(starts, 200, [0, 0, 1, 1, 2, 0], 1);
  assertEquals(order.map(({ from, after }) => [from, after]), [
    [128, 2],
    [64, 1],
    [48, 1],
    [144, 0],
    [16, 0],
    [0, 0],
  ]);
});
