import { assert, assertEquals } from "@std/assert";
import { Curve } from "../../../core/run/curve.ts";

const stretches = (curve: Curve) =>
  Array.from(
    { length: curve.length },
    (_, i) => [curve.first[i], curve.step[i], curve.min[i], curve.max[i], curve.mean(i)],
  );

Deno.test("few points are kept as they are", () => {
  const curve = new Curve(4);
  for (const step of [10, 20, 30]) curve.add(step, step / 10);
  assertEquals(stretches(curve), [[10, 10, 1, 1, 1], [20, 20, 2, 2, 2], [30, 30, 3, 3, 3]]);
  assertEquals([curve.last, curve.lastStep, curve.least, curve.greatest], [3, 30, 1, 3]);
});

Deno.test("where there is no room, two stretches become one, with their least, greatest and mean", () => {
  const curve = new Curve(4);
  for (let step = 1; step <= 6; step++) curve.add(step, step === 2 ? 100 : step);
  assertEquals(stretches(curve), [[1, 2, 1, 100, 50.5], [3, 4, 3, 4, 3.5], [5, 6, 5, 6, 5.5]]);
});

Deno.test("a million points stay in their room, lose no extreme and no value of the mean", () => {
  const curve = new Curve();
  let sum = 0;
  for (let step = 1; step <= 1_000_000; step++) {
    const value = step === 765_432 ? -7 : step === 123_456 ? 9 : Math.sin(step);
    sum += value;
    curve.add(step, value);
  }
  assert(curve.length > 2000 && curve.length <= 4096, `${curve.length} stretches`);
  assertEquals([
    Math.min(...curve.min.subarray(0, curve.length)),
    Math.max(...curve.max.subarray(0, curve.length)),
  ], [-7, 9]);
  let kept = 0, count = 0;
  for (let i = 0; i < curve.length; i++) {
    kept += curve.sum[i];
    count += curve.count[i];
    if (i > 0) assertEquals(curve.first[i], curve.step[i - 1] + 1);
  }
  assertEquals(count, 1_000_000);
  assert(Math.abs(kept - sum) < 1e-6);
});

Deno.test("what is no number is counted and leaves a gap, and no extreme is made of it", () => {
  const curve = new Curve();
  for (const [step, value] of [[1, 2], [2, NaN], [3, Infinity], [4, 3]]) curve.add(step, value);
  assertEquals([curve.wrong, curve.wrongs, curve.greatest], [[2, 3], 2, 3]);
  assertEquals([0, 1, 2, 3].map((i) => curve.mean(i)), [2, NaN, NaN, 3]);
  for (let step = 5; step < 500; step++) curve.add(step, NaN);
  assertEquals([curve.wrong.length, curve.wrongs], [100, 497]);
});

Deno.test("going back forgets what will be done again", () => {
  const curve = new Curve();
  for (let step = 1; step <= 10; step++) curve.add(step, step === 8 ? NaN : step);
  curve.cut(7);
  assertEquals([curve.length, curve.lastStep, curve.wrongs], [6, 6, 0]);
  curve.add(7, 70);
  assertEquals([curve.length, curve.last, curve.step[6]], [7, 70, 7]);
  // A log that could not be rewound says steps twice: the second time counts.
  curve.add(3, 30);
  assertEquals(stretches(curve).map(([, step, , , mean]) => [step, mean]), [[1, 1], [2, 2], [3, 30]]);
  curve.cut(0);
  assertEquals([curve.length, curve.lastStep], [0, -Infinity]);
});
