// Sums of errors by place and of confused classes, beside plain arithmetic.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import type { Source } from "../../../core/data/source/source.ts";
import { packMap, unpackMap } from "../../../core/run/diagnostics.ts";
import { openTally, someOf } from "../../../core/train/diagnostics.ts";
import { tensor } from "../../../ffi/make.ts";
import { narrow } from "../../../ffi/ops.ts";
import { liveTensors, scope, type Tensor } from "../../../ffi/tensor.ts";
import { open } from "./rig.ts";

open();

const sourceOf = (task: string, outputs: number, { shape }: Tensor, missing = false) =>
  ({ facts: { task, outputs, missing }, target: { shape: shape.slice(1) } }) as unknown as Source;

/** What two batches add up to; tensors are gone afterwards. */
function sumsOf(
  source: Source,
  loss: object,
  output: Tensor,
  target: Tensor,
  alone = true,
): Float64Array | null {
  const tally = openTally(source, loss as Parameters<typeof openTally>[1], alone);
  if (tally === null) return null;
  const half = target.shape[0] >> 1;
  const observe = () => {
    for (const [from, count] of [[0, half], [half, target.shape[0] - half]]) {
      scope(() => tally.observe(narrow(output, 0, from, count), narrow(target, 0, from, count)));
    }
  };
  observe();
  const sums = tally.sums(null), held = liveTensors();
  observe();
  assertEquals(liveTensors(), held);
  tally.close();
  assertEquals(liveTensors(), held - 1);
  return sums;
}

Deno.test("errors are added up point by point, or row by row; missing points count nowhere", () => {
  scope(() => {
    const value = (i: number) => ((i * 7) % 11) - 5, shape = [5, 2, 3, 4], each = 24;
    const known = Float32Array.from({ length: 5 * each }, (_, i) => i % 13 === 0 ? NaN : value(i));
    const made = Float32Array.from({ length: 5 * each }, (_, i) => value(i + 3));
    const target = tensor(known, shape), output = tensor(made, shape);
    const source = sourceOf("regression", 2, target, true);
    const wanted = new Float64Array(3 * each);
    known.forEach((value, i) => {
      if (Number.isNaN(value)) return;
      const error = made[i] - value, at = i % each;
      [1, error, error * error].forEach((one, part) => wanted[part * each + at] += one);
    });
    const loss = { name: "mse" };
    assertEquals(sumsOf(source, loss, output, target), wanted);
    assertEquals(sumsOf(source, loss, output, target, false), wanted);
    const wide = tensor(new Float32Array(2 * 2 * 3 * 4096).fill(1), [2, 2, 3, 4096]);
    const many = sumsOf(sourceOf("regression", 2, wide), loss, wide, wide, false);
    assertEquals(many, Float64Array.from({ length: 18 }, (_, i) => i < 6 ? 2 * 4096 : 0));
    assertEquals(sumsOf(source, { name: "none" }, output, target), null);
  });
});

Deno.test("classes are counted by what they are and what they were taken for, but for ignored ones", () => {
  scope(() => {
    const labels = [0, 1, 2, 2, 1, 0, -1, 2, 1, 1, 0, 2], found = [0, 1, 1, 2, 1, 2, 0, 2, 0, 1, 0, 2];
    const scores = Float32Array.from(found.flatMap((k) => [0, 1, 2].map((c) => c === k ? 1 : 0)));
    const target = tensor(BigInt64Array.from(labels, BigInt)), output = tensor(scores, [12, 3]);
    const source = sourceOf("classification", 3, target);
    const wanted = new Float64Array(10);
    labels.forEach((label, i) => wanted[label < 0 ? 9 : 3 * label + found[i]]++);
    assertEquals(sumsOf(source, { name: "cross_entropy", ignored: -1 }, output, target), wanted);
    const yes = tensor(Float32Array.of(1, 0, 0, 1), [4, 1]),
      logits = tensor(Float32Array.of(3, 2, -1, -2), [4, 1]);
    const one = sourceOf("classification", 2, yes);
    assertEquals(sumsOf(one, { name: "bce" }, logits, yes), Float64Array.of(1, 1, 1, 1, 0));
    assertEquals(openTally(sourceOf("classification", 1000, target), { name: "cross_entropy" }, true), null);
  });
});

Deno.test("a map takes two bytes a point and comes back to a part in 65,534 of its range", () => {
  const values = Float64Array.from({ length: 12 }, (_, i) => i === 5 ? NaN : Math.sin(i) * 1e3);
  const back = unpackMap(packMap({ width: 4, height: 3, values }));
  assertEquals([back.width, back.height, back.values[5]], [4, 3, NaN]);
  values.forEach((value, i) => i !== 5 && assertAlmostEquals(back.values[i], value, 2000 / 65_534));
  assertEquals(
    unpackMap(packMap({ width: 1, height: 1, values: Float64Array.of(NaN) })).values,
    Float64Array.of(NaN),
  );
  assertEquals([someOf(2, 3), someOf(6, 3)], [[0, 1], [0, 3, 5]]);
  assert(packMap({ width: 4, height: 3, values }).data.length <= 32);
});
