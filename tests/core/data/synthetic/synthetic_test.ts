// The made-up tasks: keyed, of the shapes that models ask for, and learnable.
import { assert, assertAlmostEquals, assertEquals, assertNotEquals } from "@std/assert";
import { BEST_LOSS, makeSynthetic, noiseFor } from "../../../../core/data/synthetic/synthetic.ts";
import type { Spec } from "../../../../core/data/synthetic/fields.ts";
import { batchOf, plainPart, type Source } from "../../../../core/data/source/source.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { manualSeed, setThreads, threads } from "../../../../ffi/context.ts";
import { randn } from "../../../../ffi/ops.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { linearR2, range, rows, spec } from "../tables/help.ts";
import { measured } from "../../../cpu_time.ts";

useLibtorch();

const MODELS = ["mlp", "simple-convnet", "resnet18", "vit", "cosmo-cnn", "unet", "gpt"];

function made(
  name: string,
  more: Partial<Spec> = {},
  model: Partial<Spec["model"]> = {},
  samples = 200,
): Source {
  return makeSynthetic(spec({ samples, ...more }, { name, ...model }));
}

/** The first samples as plain numbers. */
function values(
  source: Source,
  ids: number[] = [0, 1, 2, 50],
): { input: Float64Array; target: Float64Array } {
  return scope(() => {
    const { input, target } = batchOf(source, plainPart(ids));
    return { input: toNumbers(input), target: toNumbers(target) };
  });
}

for (const name of MODELS) {
  Deno.test(`${name}: a sample is a function of the seed, the role and its number`, () => {
    const one = values(made(name));
    assertEquals(values(made(name)), one);
    assertNotEquals(values(made(name, { seed: 2 })).input, one.input);
    assertNotEquals(values(made(name, { role: "val" })).input, one.input);
    const alone = values(made(name), [50]);
    assertEquals(one.input.slice(-alone.input.length), alone.input);
    assertEquals(one.target.slice(-alone.target.length), alone.target);
  });

  Deno.test(`${name}: a batch has the fields that were announced`, () => {
    const source = made(name);
    scope(() => {
      const { input, target } = batchOf(source, plainPart([3, 4]));
      assertEquals([input.shape, input.dtype], [[2, ...source.input.shape], source.input.dtype]);
      assertEquals([target.shape, target.dtype], [[2, ...source.target.shape], source.target.dtype]);
      assertEquals(source.facts.input, { shape: source.input.shape, dtype: source.input.dtype });
    });
  });
}

Deno.test("taking a batch draws no random numbers", () => {
  scope(() => {
    const sources = MODELS.map((name) => made(name));
    manualSeed(7n);
    const expected = toNumbers(randn([4]));
    manualSeed(7n);
    for (const source of sources) batchOf(source, plainPart([1, 2]));
    assertEquals(toNumbers(randn([4])), expected);
  });
});

Deno.test("the model's sizes decide the shapes, and the loss the kind of target", () => {
  const facts = (source: Source) => [source.facts.task, source.input.shape, source.facts.outputs];
  assertEquals(facts(made("mlp", {}, { input_size: 5, output_size: 3 })), ["regression", [5], 3]);
  assertEquals(facts(made("mlp", { loss: "cross_entropy" }, { output_size: 4 })), ["classification", [7], 4]);
  assertEquals(facts(made("simple-convnet")), ["classification", [1, 28, 28], 10]);
  assertEquals(facts(made("resnet50", {}, { channels: 1, image_size: 64, output_size: 5 })), [
    "classification",
    [1, 64, 64],
    5,
  ]);
  assertEquals(facts(made("resnet18", { loss: "mse" })), ["regression", [1, 32, 32], 2]);
  assertEquals(facts(made("cosmo-cnn", { loss: "cross_entropy" })), ["classification", [3, 32, 32], 10]);
  assertEquals(facts(made("unet", {}, { output_size: 4, image_size: 48, channels: 3 })), [
    "segmentation",
    [3, 48, 48],
    4,
  ]);
  assertEquals(facts(made("gpt", {}, { vocab_size: 100, context: 16 })), ["language", [16], 100]);
});

Deno.test("vectors: the function is not a straight line, and is the same for training and validation", () => {
  for (const seed of [0, 1, 2]) {
    const ids = range(0, 1500);
    const [train, val] = (["train", "val"] as const).map((role) =>
      values(made("mlp", { seed, role }, {}, 1500), ids)
    );
    const x = [...rows(train.input, 7), ...rows(val.input, 7)], y = [...train.target, ...val.target];
    const straight = linearR2(x, y, 1500);
    const curved = linearR2(x.map(cubic), y, 1500);
    assert(curved > 0.75 && curved > straight + 0.1, `seed ${seed}: straight ${straight}, curved ${curved}`);
  }
});

/** All products of up to three features. */
function cubic(x: number[]): number[] {
  const one = [1, ...x];
  return one.flatMap((a, i) => one.slice(i).flatMap((b, j) => one.slice(i + j).map((c) => a * b * c))).slice(
    1,
  );
}

Deno.test("vectors: targets are standardised, classes are all there, and signs are balanced", () => {
  const y = values(made("mlp", {}, { output_size: 2 }, 5000), range(0, 5000)).target;
  const mean = y.reduce((a, b) => a + b, 0) / y.length;
  assertAlmostEquals(mean, 0, 0.1);
  assertAlmostEquals(y.reduce((sum, v) => sum + v * v, 0) / y.length, 1, 0.1);
  const classes = values(made("mlp", { loss: "cross_entropy" }, {}, 3000), range(0, 3000)).target;
  for (const c of [0, 1, 2]) assert(classes.filter((v) => v === c).length > 150, `class ${c}`);
  const signs = values(made("mlp", { loss: "bce" }, {}, 1000), range(0, 1000)).target;
  assert(signs.every((v) => v === 0 || v === 1));
  assert(Math.abs(signs.filter((v) => v === 1).length - 500) < 200);
});

Deno.test("images: the mean image of each class, over training samples, recognises validation samples", () => {
  for (const name of ["simple-convnet", "resnet18"]) {
    const train = made(name, {}, {}, 600), val = made(name, { role: "val" }, {}, 200);
    const size = train.input.shape.reduce((a, b) => a * b, 1);
    const seen = values(train, range(0, 600)), unseen = values(val, range(0, 200));
    const means = range(0, 10).map(() => new Float64Array(size));
    rows(seen.input, size).forEach((image, i) => {
      const count = seen.target.filter((c) => c === seen.target[i]).length;
      image.forEach((v, p) => means[seen.target[i]][p] += v / count);
    });
    const right = rows(unseen.input, size).filter((image, i) => {
      const distance = means.map((mean) => image.reduce((sum, v, p) => sum + (v - mean[p]) ** 2, 0));
      return distance.indexOf(Math.min(...distance)) === unseen.target[i];
    });
    assert(right.length > 180, `${name}: ${right.length} of 200`);
  }
});

Deno.test("noise is standard normal, and shared neither by samples nor by training and validation", () => {
  scope(() => {
    const [train, val] = (["train", "val"] as const).map((role) =>
      rows(toNumbers(noiseFor(spec({ samples: 20, role }), [16, 16])(range(0, 20))), 256)
    );
    const mean = (values: number[]) => values.reduce((a, b) => a + b, 0) / values.length;
    const all = [...train, ...val];
    assertAlmostEquals(mean(all.flat()), 0, 0.05);
    assertAlmostEquals(mean(all.flat().map((v) => v * v)), 1, 0.05);
    for (const [i, a] of all.entries()) {
      for (const b of all.slice(i + 1)) {
        const correlation = mean(a.map((v, k) => v * b[k]));
        assert(Math.abs(correlation) < 0.8, `correlation ${correlation}`);
      }
    }
  });
});

Deno.test("masks: brightness tells the class of a pixel, and every class has its share", () => {
  for (const classes of [2, 3]) {
    const source = made("unet", {}, { output_size: classes });
    const { input, target } = values(source, range(0, 200));
    const right = input.filter((v, i) => Math.round(v * (classes - 1)) === target[i]).length / input.length;
    assert(right > (classes === 2 ? 0.85 : 0.5), `${classes} classes: ${right}`);
    assert(target.every((c) => range(0, classes).includes(c)), "a class that is none");
    for (const c of range(0, classes)) {
      const share = target.filter((v) => v === c).length / target.length;
      assert(share > 0.05, `class ${c}: ${share}`);
    }
  }
});

Deno.test("tokens: the target is the next token, and pairs counted in training predict validation as well as can be", () => {
  const width = 64, vocabulary = 65, samples = 2000;
  const train = values(made("gpt", {}, {}, samples), range(0, samples));
  assertEquals([...train.target.slice(0, width - 1)], [...train.input.slice(1, width)]);
  const counts = range(0, vocabulary).map(() => new Float64Array(vocabulary).fill(0.01));
  train.input.forEach((token, i) => counts[token][train.target[i]]++);
  const totals = counts.map((row) => row.reduce((a, b) => a + b, 0));
  const val = values(made("gpt", { role: "val" }, {}, 300), range(0, 300));
  const loss = val.input.reduce(
    (sum, token, i) => sum - Math.log(counts[token][val.target[i]] / totals[token]) / val.input.length,
    0,
  );
  assert(Math.abs(loss - BEST_LOSS) < 0.02, `${loss} against ${BEST_LOSS}`);
});

Deno.test("100000 vectors are there in 0.3 s, on one thread", () => {
  const before = threads();
  setThreads(1);
  const fastest = Math.min(
    ...range(0, 5).map(() => measured(() => made("mlp", {}, {}, 100_000)).seconds),
  );
  setThreads(before);
  assert(fastest < 0.3, `${fastest} s`);
});
