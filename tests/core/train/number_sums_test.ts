// The sums of small batches on the host, beside those that libtorch takes of large ones.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { memorySource } from "../../../core/data/source/memory.ts";
import { measureOf } from "../../../core/train/metrics.ts";
import { sumsOnHost } from "../../../core/train/number_sums.ts";
import { RunningMetrics } from "../../../core/train/running_metrics.ts";
import { add, scalar, toNumbers, zeros } from "../../../ffi/make.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { contiguous, narrow, randn, toDtype, transpose } from "../../../ffi/ops.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { open } from "./rig.ts";

open();
manualSeed(5n);

const BATCHES = 3, ITEMS = 7;

const measured = (shape: readonly number[]) => {
  const target = add(randn([BATCHES * ITEMS, ...shape]), scalar(1e4));
  const output = add(target, randn(target.shape));
  const source = memorySource({
    ...{ name: "made", task: "regression", outputs: shape[0] ?? 1, description: "" },
    input: zeros([BATCHES * ITEMS, 1]),
    target,
  });
  return { output, target, measure: measureOf(source, { loss: { name: "mse" }, full: false }) };
};

for (const shape of [[], [1], [3], [2, 4, 5]]) {
  Deno.test(`sumsOnHost has libtorch's sums of targets of [${shape.join(", ")}], batch by batch`, () => {
    const { output, target, measure } = measured(shape);
    const theirs = toNumbers(measure.rows(output, target, BATCHES)), width = theirs.length / BATCHES;
    for (let batch = 0; batch < BATCHES; batch++) {
      const [own, aim] = [output, target].map((t) => narrow(t, 0, batch * ITEMS, ITEMS));
      const sums = measure.sumsOnHost!(own, aim)!;
      assertEquals(sums.length, width + 1, "the loss has a place behind them");
      sums.subarray(0, width).forEach((sum, i) => {
        const other = theirs[batch * width + i];
        assertAlmostEquals(sum, other, 1e-9 * Math.max(1, Math.abs(other)));
      });
    }
  });
}

Deno.test("sumsOnHost leaves batches of more than 4,096 numbers to libtorch, and numbers of other types", () => {
  const large = randn([2, 4097]), half = toDtype(randn([2, 3]), "bf16");
  assertEquals(sumsOnHost(large, large, Array<number>(4097).fill(0)), null);
  assertEquals(sumsOnHost(half, half, [0, 0, 0]), null);
});

const turned = (t: Tensor) => transpose(contiguous(transpose(t, 1, 2)), 1, 2);

for (const [how, size] of [["at once", 128], ["by libtorch, alone", 24000]] as const) {
  Deno.test(`a batch that is summed ${how} has the same sums wherever its numbers lie`, () => {
    const { measure } = measured([2, 1]);
    const target = randn([4, 2, size]), output = add(target, randn(target.shape));
    const sumsOf = (output: Tensor, target: Tensor) => {
      const running = new RunningMetrics(measure, 1, 1);
      running.observe({ output, target, loss: scalar(0.1), items: 4 });
      return running.sums();
    };
    assert(!turned(output).contiguous, "else this tests nothing");
    assertEquals(sumsOf(turned(output), turned(target)), sumsOf(output, target));
  });
}

Deno.test("a small batch is added behind the large ones before it, and has the same bits without them", () => {
  const { measure } = measured([1]); // its sums of numbers near 1e4 would be exact in any order
  const target = randn([200, 1]), output = add(target, randn(target.shape));
  const large = randn([5000, 1]), noisy = add(large, randn(large.shape));
  const both = new RunningMetrics(measure, 2), alone = new RunningMetrics(measure);
  const seen = (running: RunningMetrics, output: Tensor, target: Tensor, part = 0) =>
    running.observe({ output, target, loss: scalar(0.1), items: target.numel, part });
  seen(both, noisy, large);
  seen(both, output, target, 1);
  seen(alone, output, target);
  const sums = both.sums();
  assertEquals(sums.slice(sums.length / 2), alone.sums());
});
