// The gradient noise scale against each sample's own gradient, by torch.func.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { memorySource } from "../../../../core/data/source/memory.ts";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import type { Built } from "../../../../core/train/build.ts";
import { measureNoise, noiseOf } from "../../../../core/train/finders/noise.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { randn } from "../../../../ffi/ops.ts";
import { liveTensors } from "../../../../ffi/tensor.ts";
import { peer } from "../peer.ts";
import { open, rig, rows, settings } from "../rig.ts";

open();

function made(count: number, direct: boolean): Built {
  manualSeed(1n);
  const model = mlp({ inputs: 7, hidden: 37, layers: 2, outputs: 1 });
  manualSeed(2n);
  const input = randn([count, 7]), target = randn([count, 1]);
  const train = memorySource({
    name: "made",
    task: "regression",
    outputs: 1,
    description: "",
    input,
    target,
  });
  const { arena, step: { pass } } = rig(model, rows, { direct });
  return { pass, arena, amp: "off", channelsLast: false, data: { train } } as unknown as Built;
}

Deno.test("its parts are the covariance and the mean of single samples' gradients, in both kinds of arena", async () => {
  const theirs = await peer<{ variance: number; squaredMean: number }>("gradient_noise.py", 16);
  for (const direct of [false, true]) {
    const built = made(16, direct), before = toNumbers(built.arena.flat);
    const { variance, squaredMean, samples } = measureNoise(settings(), built, "cpu", 1)!;
    assertAlmostEquals(variance, theirs.variance, 1e-5 * theirs.variance);
    assertAlmostEquals(squaredMean, theirs.squaredMean, 1e-5 * theirs.variance);
    assertAlmostEquals(samples, theirs.variance / theirs.squaredMean, 1e-3 * Math.abs(samples));
    assertEquals(toNumbers(built.arena.flat), before);
    const live = liveTensors();
    measureNoise(settings(), built, "cpu", 2);
    assert(liveTensors() - live < 4, "sums are freed");
  }
});

Deno.test("the estimate does not depend on the batch size where it is exact, and too little data gives none", () => {
  // Gradients with a mean of 3 and a variance of 5 over all weights, of 4 and of 64 samples.
  const exact = (size: number, count: number) => noiseOf(9 + 5 / size, 9 + 5 / (size * count), size, count);
  for (const [size, count] of [[4, 16], [1, 4], [100, 8]]) {
    const { variance, squaredMean, samples } = exact(size, count);
    assertAlmostEquals(variance, 5, 1e-9);
    assertAlmostEquals(squaredMean, 9, 1e-9);
    assertAlmostEquals(samples, 5 / 9, 1e-9);
  }
  assertEquals(noiseOf(4, 0.5, 1, 4).samples, Infinity);
  assertEquals(measureNoise(settings(), made(16, false), "cpu", 8), null);
});
