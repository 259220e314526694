// --normalise-targets: the loss sees mean 0 and deviation 1, everything else the targets' own units.
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { memorySource } from "../../../../core/data/source/memory.ts";
import { batchOf, ownTargets, plainPart, type SourceParts } from "../../../../core/data/source/source.ts";
import { targetScaleOf, unscaling, withScaledTargets } from "../../../../core/data/transforms/targets.ts";
import { measureOf } from "../../../../core/train/metrics.ts";
import { RunningMetrics } from "../../../../core/train/running_metrics.ts";
import { add, scalar, sub, tensor, toNumbers } from "../../../../ffi/make.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { cat, mul, narrow, randn, reshape, sumDim } from "../../../../ffi/ops.ts";
import type { Tensor } from "../../../../ffi/tensor.ts";
import { open, settings } from "../../train/rig.ts";

open();
manualSeed(5n);

const COUNT = 300;
const ids = Int32Array.from({ length: COUNT }, (_, i) => i);
const made = (target: Tensor, more: Partial<SourceParts> & { readonly rows?: Int32Array } = {}) =>
  memorySource({
    ...{ name: "made", task: "regression", outputs: target.shape[1] ?? 1, description: "" },
    ...{ input: randn([COUNT, 2]), target, ...more },
  });
const asked = (...flags: string[]) => settings("--normalise-targets", ...flags).data;
const scaled = (source: ReturnType<typeof made>, notes: string[] = []) =>
  withScaledTargets(source, targetScaleOf(asked(), source, "mse", notes));

/** Two targets far from zero, and one that never varies. */
const numbers = cat([
  add(mul(randn([COUNT, 2]), tensor([20, 0.001], [1, 2])), tensor([1e4, -3], [1, 2])),
  tensor(new Float32Array(COUNT).fill(7), [COUNT, 1]),
], 1);
const moments = (values: Float64Array, k: number, count: number) => {
  const own = values.filter((value, i) => i % count === k && !Number.isNaN(value));
  const mean = own.reduce((sum, value) => sum + value, 0) / own.length;
  return [mean, Math.sqrt(own.reduce((sum, value) => sum + (value - mean) ** 2, 0) / own.length)];
};

Deno.test("targets have mean 0 and deviation 1 over the training samples, and restoring gives them back", () => {
  const notes: string[] = [], plain = made(numbers), source = scaled(plain, notes);
  const { target } = batchOf(source, plainPart(ids)), values = toNumbers(target);
  for (const k of [0, 1]) {
    const [mean, std] = moments(values, k, 3);
    assertAlmostEquals(mean, 0, 1e-3);
    assertAlmostEquals(std, 1, 1e-3);
  }
  assert(values.every((value, i) => i % 3 !== 2 || value === 0));
  const back = toNumbers(source.restore!(target, ids)), own = toNumbers(numbers);
  back.forEach((value, i) => assertAlmostEquals(value, own[i], 1e-3));
  assertEquals(notes.length, 1);
  assert(
    /^Targets are normalised: (9999|1\d{4}|10000).* \+- .*, -3(\.\d+)? \+- 0\.00.*, 7 \+- 1$/.test(notes[0]),
    notes[0],
  );
});

Deno.test("one number for each sample, maps with missing points and anomalies' own restoring work alike", () => {
  const flat = scaled(made(reshape(add(mul(randn([COUNT]), scalar(5)), scalar(40)), [COUNT])));
  const { target } = batchOf(flat, plainPart(ids));
  assertEquals(target.shape, [COUNT]);
  assertAlmostEquals(moments(toNumbers(target), 0, 1)[1], 1, 1e-3);
  const holes = Float32Array.from({ length: COUNT * 12 }, (_, i) => i % 5 === 0 ? NaN : i % 7);
  const maps = scaled(made(tensor(holes, [COUNT, 1, 3, 4]), { missing: { input: false, target: true } }));
  const values = toNumbers(batchOf(maps, plainPart(ids)).target), [mean, std] = moments(values, 0, 1);
  assertAlmostEquals(mean, 0, 1e-6);
  assertAlmostEquals(std, 1, 1e-6);
  assert(values.every((value, i) => Number.isNaN(value) === (i % 5 === 0)));
  const shifted = { ...made(numbers), restore: (t: Tensor) => add(t, scalar(100)) }, source = scaled(shifted);
  const back = toNumbers(source.restore!(batchOf(source, plainPart(ids)).target, ids));
  toNumbers(numbers).forEach((value, i) => assertAlmostEquals(back[i], value + 100, 2e-3));
});

Deno.test("the parts of a distribution are restored: values are scaled, the logarithm of a variance grows by that of the scale", () => {
  const source = scaled(made(numbers)), { mean, std } = source.targetScale!;
  const output = randn([4, 6]), raw = toNumbers(output);
  const back = toNumbers(source.restore!(output, [0, 1, 2, 3], [true, false]));
  raw.forEach((value, i) => {
    const k = i % 3, wanted = i % 6 < 3 ? value * std[k] + mean[k] : value + 2 * Math.log(std[k]);
    assertAlmostEquals(back[i], wanted, 1e-3 * Math.max(1, Math.abs(wanted)) * 1e-2);
  });
});

Deno.test("few numbers come back with the bits of many", () => {
  manualSeed(5n);
  const scales = [{ mean: [1e-3], std: [0.7] }, { mean: [-5e4, 1e-7], std: [1 / 3, 1e6] }];
  for (const scale of scales) {
    for (const rest of [[], [5]]) {
      const shape = [1200, ...(scale.mean.length > 1 || rest.length > 0 ? [scale.mean.length] : []), ...rest];
      const values = randn(shape), back = unscaling(scale);
      const parts = Array.from({ length: 12 }, (_, i) => back(narrow(values, 0, 100 * i, 100)));
      assertEquals(toNumbers(cat(parts)), toNumbers(back(values)), `${shape}`);
    }
  }
});

Deno.test("metrics of training are in the targets' own units, as those of an evaluation are", () => {
  const source = scaled(made(numbers)), output = randn([COUNT, 3]);
  const { target } = batchOf(source, plainPart(ids));
  const told = (full: boolean, output: Tensor, target: Tensor) => {
    const running = new RunningMetrics(measureOf(source, { loss: { name: "mse" }, full }));
    running.observe({ output, target, loss: scalar(0), items: COUNT });
    return running.result().metrics;
  };
  const training = told(false, output, target);
  const judged = told(true, source.restore!(output, ids), source.restore!(target, ids));
  for (const name of ["mae", "rmse", "bias"]) assertAlmostEquals(training[name], judged[name], 2e-3, name);
  const far = toNumbers(sub(source.restore!(output, ids), numbers));
  assertAlmostEquals(judged.mae, far.reduce((sum, value) => sum + Math.abs(value), 0) / far.length, 1e-3);
});

Deno.test("a metric of the user's own sees the targets' own units in training, too", () => {
  const source = scaled(made(numbers)), output = randn([COUNT, 3]);
  const { target } = batchOf(source, plainPart(ids));
  const own = {
    names: ["mean"],
    sums: (_: Tensor, known: Tensor) => mul(sumDim(known, [0, 1]), scalar(1 / 3)),
  };
  const told = (full: boolean, output: Tensor, target: Tensor) => {
    const running = new RunningMetrics(measureOf(source, { loss: { name: "mse" }, full, own }));
    running.observe({ output, target, loss: scalar(0), items: COUNT });
    return running.result().metrics.mean;
  };
  const wanted = toNumbers(numbers).reduce((sum, value) => sum + value, 0) / (3 * COUNT);
  assertAlmostEquals(told(false, output, target), wanted, 1e-2);
  assertAlmostEquals(told(true, source.restore!(output, ids), numbers), wanted, 1e-2);
});

Deno.test("targets that are judged are there as they were before scaling, to the bit", () => {
  const plain = made(numbers), scale = targetScaleOf(asked(), plain, "mse", [])!;
  const batch = batchOf(withScaledTargets(plain, scale, { judged: true }), plainPart(ids));
  assertEquals(toNumbers(ownTargets(withScaledTargets(plain, scale), batch, ids)), toNumbers(numbers));
  const shifted = { ...plain, restore: (t: Tensor) => add(t, scalar(100)) };
  const source = withScaledTargets(shifted, scale, { judged: true });
  const own = toNumbers(ownTargets(source, batchOf(source, plainPart(ids)), ids));
  assertEquals(own, toNumbers(add(numbers, scalar(100))));
  assertEquals(batchOf(withScaledTargets(plain, scale), plainPart(ids)).unscaled, undefined);
});

Deno.test("what has no numbers as targets is refused in a sentence", () => {
  const refused = (words: string, loss = "mse", flags: string[] = [], source = made(numbers)) =>
    assertThrows(() => targetScaleOf(asked(...flags), source, loss, []), UserError, words);
  refused(
    "has classes",
    "auto",
    [],
    made(tensor(new BigInt64Array(COUNT)), { task: "classification", outputs: 3 }),
  );
  refused("--loss bce", "bce");
  refused("--rollout", "mse", ["--rollout", "3", "--lead", "1"]);
  refused("give one for each", "mse", ["--set", "data.target_mean=1", "--set", "data.target_std=2"]);
  refused("deviations are above 0", "mse", ["--set", "data.target_mean=1", "--set", "data.target_std=0"]);
  refused(
    "infinity",
    "mse",
    [],
    made(tensor(new Float32Array(COUNT).fill(Infinity), [COUNT, 1]), { rows: ids }),
  );
});
