// Metrics of each kind of target against scikit-learn, torchmetrics and numpy in live Python: masked or not, on 1, 2 and 4
// ranks, however the samples are cut into batches.
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { memorySource } from "../../../core/data/source/memory.ts";
import type { Source } from "../../../core/data/source/source.ts";
import { UserError } from "../../../core/base/errors.ts";
import { createLoss, type Loss } from "../../../core/models/losses.ts";
import type { Facts } from "../../../core/models/model.ts";
import { measureOf } from "../../../core/train/metrics.ts";
import type { Measure, Metrics } from "../../../core/train/measure.ts";
import { RunningMetrics } from "../../../core/train/running_metrics.ts";
import { add, scalar, tensor, toNumbers } from "../../../ffi/make.ts";
import { cat, narrow, randint, randn, toDtype, zerosLike } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { keep, liveTensors, scope, type Tensor } from "../../../ffi/tensor.ts";
import { peer } from "./peer.ts";
import { open, settings } from "./rig.ts";

open();
manualSeed(11n);

const COUNT = 103;
const SPLITS = [[COUNT], [50, 50, 3], [1, 99, 2, 1], [7, 13, 31, 52], Array<number>(COUNT).fill(1)];
const WORLDS = [1, 2, 4];

interface Case {
  readonly task: Facts["task"];
  readonly outputs: number;
  readonly loss?: "l1" | "gaussian_nll" | "quantile" | "bce";
  readonly ignored?: number;
  readonly output: Tensor;
  readonly target: Tensor;
  readonly mask?: Tensor;
}

const labels = (classes: number, shape: readonly number[]) => randint(0, classes, shape, "i64");
const someOf = (shape: readonly number[]) => toDtype(randint(0, 3, shape, "i64"), "bool");

/** Tokens, of which some don't count. */
function holey(): Tensor {
  const ids = toNumbers(randint(0, 20, [COUNT, 6], "i64"));
  return tensor(BigInt64Array.from(ids, (id) => BigInt(id > 16 ? -100 : id)), [COUNT, 6]);
}

/** Far from zero, and hardly spread: their squares have no digits left for it. */
const far = (shape: readonly number[]) => add(randn(shape), scalar(1e6));
const near = (target: Tensor) => add(target, randn(target.shape));

const distant = far([COUNT, 2]);
const CASES: Record<string, Case> = {
  "one number": {
    task: "regression",
    outputs: 1,
    loss: "l1",
    output: randn([COUNT, 1]),
    target: randn([COUNT]),
  },
  "one number, masked": {
    task: "regression",
    outputs: 1,
    output: randn([COUNT, 1]),
    target: randn([COUNT, 1]),
    mask: someOf([COUNT]),
  },
  "three numbers": { task: "regression", outputs: 3, output: randn([COUNT, 3]), target: randn([COUNT, 3]) },
  "three numbers, masked one by one": {
    task: "regression",
    outputs: 3,
    output: randn([COUNT, 3]),
    target: randn([COUNT, 3]),
    mask: someOf([COUNT, 3]),
  },
  "two numbers far from zero": { task: "regression", outputs: 2, output: near(distant), target: distant },
  "two numbers by Gaussian likelihood": {
    task: "regression",
    outputs: 2,
    loss: "gaussian_nll",
    output: randn([COUNT, 4]),
    target: randn([COUNT, 2]),
  },
  "a map of one number": {
    task: "regression",
    outputs: 1,
    output: randn([COUNT, 1, 6, 5]),
    target: randn([COUNT, 1, 6, 5]),
  },
  "maps of three numbers": {
    task: "regression",
    outputs: 3,
    output: randn([COUNT, 3, 6, 5]),
    target: randn([COUNT, 3, 6, 5]),
  },
  "maps of three numbers, masked pixel by pixel": {
    task: "regression",
    outputs: 3,
    output: randn([COUNT, 3, 4, 4]),
    target: randn([COUNT, 3, 4, 4]),
    mask: someOf([COUNT, 3, 4, 4]),
  },
  "a volume of two numbers": {
    task: "regression",
    outputs: 2,
    output: randn([COUNT, 2, 3, 4, 2]),
    target: randn([COUNT, 2, 3, 4, 2]),
  },
  "a class": {
    task: "classification",
    outputs: 12,
    output: randn([COUNT, 12]),
    target: labels(12, [COUNT]),
  },
  "a class, masked": {
    task: "classification",
    outputs: 12,
    output: randn([COUNT, 12]),
    target: labels(12, [COUNT]),
    mask: someOf([COUNT]),
  },
  "a class, without the class 3": {
    task: "classification",
    outputs: 12,
    ignored: 3,
    output: randn([COUNT, 12]),
    target: labels(12, [COUNT]),
  },
  "one of two classes": {
    task: "classification",
    outputs: 2,
    loss: "bce",
    output: randn([COUNT, 1]),
    target: labels(2, [COUNT]),
  },
  "one of two classes, masked": {
    task: "classification",
    outputs: 2,
    loss: "bce",
    output: randn([COUNT, 1]),
    target: labels(2, [COUNT]),
    mask: someOf([COUNT]),
  },
  "a map of classes, one of which is nowhere": {
    task: "segmentation",
    outputs: 4,
    output: narrow(randn([COUNT, 5, 4, 4]), 1, 0, 4),
    target: labels(3, [COUNT, 4, 4]),
  },
  "a map of classes, without the class 0": {
    task: "segmentation",
    outputs: 3,
    ignored: 0,
    output: randn([COUNT, 3, 4, 4]),
    target: labels(3, [COUNT, 4, 4]),
  },
  "a map of classes, masked": {
    task: "segmentation",
    outputs: 3,
    output: randn([COUNT, 3, 4, 4]),
    target: labels(3, [COUNT, 4, 4]),
    mask: someOf([COUNT, 4, 4]),
  },
  "a map of classes, with scores at a quarter of its size": {
    task: "segmentation",
    outputs: 3,
    output: randn([COUNT, 3, 2, 3]),
    target: labels(3, [COUNT, 8, 12]),
  },
  "tokens": { task: "language", outputs: 20, output: randn([COUNT, 6, 20]), target: holey() },
  "quantiles of two masked numbers": {
    task: "regression",
    outputs: 2,
    loss: "quantile",
    output: randn([COUNT, 6]),
    target: randn([COUNT, 2]),
    mask: someOf([COUNT, 2]),
  },
};

function lossOf({ task, outputs, loss, ignored = -100 }: Case): Loss {
  const facts: Facts = { task, outputs, input: { shape: [1], dtype: "f32" } };
  return createLoss({ ...settings().training, loss: loss ?? "auto", ignore_index: ignored }, facts);
}

/** What measures a case, once: it keeps constants on the device. */
const measures = new Map<Case, { loss: Loss; measure: Measure; source: Source }>();
function of(c: Case) {
  const known = measures.get(c);
  if (known) return known;
  const { task, outputs, target } = c;
  const input = zerosLike(target);
  const source = memorySource({ name: "made", task, outputs, description: "made", input, target });
  const loss = lossOf(c);
  const made = { loss, source, measure: measureOf(source, { loss, full: true }) };
  measures.set(c, made);
  return made;
}

/** The metrics of as many ranks, which take turns at the batches; sums are put together as a run puts them. */
function measured(c: Case, split: readonly number[], world = 1, interrupt = false): Metrics {
  const { loss, measure } = of(c);
  const ranks = Array.from({ length: world }, () => new RunningMetrics(measure));
  let from = 0;
  split.forEach((count, i) => {
    scope(() => {
      const [output, target, mask] = [c.output, c.target, c.mask].map((t) => t && narrow(t, 0, from, count));
      ranks[i % world].observe({
        output: output!,
        target: target!,
        loss: loss.apply(output!, target!),
        items: loss.validCount(target!),
        mask,
      });
    });
    from += count;
    if (interrupt) {
      const sums = ranks[i % world].sums();
      ranks[i % world] = new RunningMetrics(measure);
      ranks[i % world].restore(JSON.parse(JSON.stringify(sums)));
    }
  });
  const whole = new RunningMetrics(measure);
  const each = ranks.map((rank) => rank.sums());
  whole.restore(each.reduce((a, b) => a.map((value, i) => value + b[i])));
  const { metrics, loss: mean } = whole.result();
  return { ...metrics, loss: mean };
}

const theirs = await peer<Record<string, Record<string, number | string>>>(
  "metrics.py",
  Object.fromEntries(
    Object.entries(CASES).map(([name, { output, target, mask, task, loss = "auto", ignored = -100 }]) => {
      const list = (t: Tensor) => ({ shape: t.shape, values: Array.from(toNumbers(t)) });
      return [name, {
        ...{ task, loss, ignored },
        output: list(output),
        target: list(target),
        mask: mask ? list(mask) : null,
      }];
    }),
  ),
);

for (const [name, c] of Object.entries(CASES)) {
  Deno.test(`metrics of ${name} are scikit-learn's and torchmetrics', in whichever batches, on 1, 2 and 4 ranks`, () => {
    for (const split of SPLITS) {
      for (const world of WORLDS) {
        const ours = measured(c, split, world);
        assertEquals(Object.keys(ours).sort(), Object.keys(theirs[name]).sort());
        for (const [metric, said] of Object.entries(theirs[name])) {
          if (metric === "loss" && c.mask) continue; // losses have no masks yet
          const value = Number(said), about = `${metric} of ${split} on ${world}`;
          // Theirs of maps of classes are in f32, and so is each batch's loss.
          const exact = c.task === "regression" && metric !== "loss";
          const most = (exact ? 1e-10 : 2e-7) * Math.max(1, Math.abs(value));
          if (Number.isNaN(value)) assertEquals(ours[metric], NaN, about);
          else assertAlmostEquals(ours[metric], value, most, about);
        }
      }
    }
  });
}

Deno.test("a run that was saved between any two batches has the same metrics to the last bit", () => {
  for (const c of Object.values(CASES)) {
    for (const split of SPLITS.slice(0, 4)) assertEquals(measured(c, split, 1, true), measured(c, split));
  }
});

Deno.test("what a mask covers is nobody's, not even where it is no number", () => {
  const target = tensor([1, NaN, 3, 4], [4, 1]), output = tensor([1, 2, NaN, 3], [4, 1]);
  const mask = tensor(Uint8Array.of(1, 0, 0, 1));
  const seen = tensor([1, 4], [2, 1]);
  const made = memorySource({
    name: "m",
    task: "regression",
    outputs: 1,
    description: "",
    input: seen,
    target: seen,
  });
  const running = new RunningMetrics(measureOf(made, { loss: { name: "mse" }, full: true }));
  running.observe({ output, target, mask, loss: scalar(0), items: 2 });
  const { r2, mae, bias } = running.result().metrics;
  assertEquals([r2, mae, bias], [1 - 1 / 4.5, 0.5, -0.5]);
});

Deno.test("the worst of several numbers is named, and numbers that were scaled are told in their own units too", () => {
  const target = tensor([0, 0, 1, 1, 2, 2], [3, 2]), output = tensor([0, 9, 1, 9, 2, 9], [3, 2]);
  const made = memorySource({
    ...{ name: "m", task: "regression", outputs: 2, description: "", input: target, target },
    names: ["omega", "hardly"],
    units: { mean: [5, 6], std: [10, 0.5] },
  });
  const running = new RunningMetrics(measureOf(made, { loss: { name: "mse" }, full: true }));
  running.observe({ output, target, loss: scalar(0), items: 6 });
  const { metrics, worst } = running.result();
  assertEquals(worst, { name: "hardly", r2: metrics["r2/hardly"] });
  assertEquals([metrics["r2/omega"], metrics["mae/hardly"], metrics["mae_in_units/hardly"]], [1, 8, 4]);
  assertEquals(metrics.r2, (1 + metrics["r2/hardly"]) / 2);
});

Deno.test("errors and skills of a forecast are over all leads and points of each target, and each lead has its own beside", () => {
  // Two targets at two leads: a then b of the first lead, and then of the next; one point of a's second lead is missing.
  const target = tensor(new Float32Array(16), [4, 4]);
  const errors = [[1, 2, 5, 4], [1, -2, 5, 4], [-1, 2, -7, -4], [1, 2, 0, 4]];
  const output = tensor(Float32Array.from(errors.flat()), [4, 4]);
  const there = tensor(Uint8Array.from({ length: 16 }, (_, i) => i === 14 ? 0 : 1), [4, 4]);
  const source: Source = {
    ...memorySource({
      ...{ name: "m", task: "regression", outputs: 4, description: "", input: target, target },
      names: ["a+1", "b+1", "a+2", "b+2"],
    }),
    leads: 2,
    baselines: () => ({ persistence: [2, 2, 8, 4], climatology: null, lack: null }),
  };
  const loss = { name: "gaussian_nll" as const, logVariance: 1 };
  const variances = tensor(Float32Array.from({ length: 16 }, (_, i) => i % 4 < 2 ? 0 : Math.log(9)), [4, 4]);
  const running = new RunningMetrics(measureOf(source, { loss, full: true }));
  const both = cat([output, variances], 1);
  running.observe({ output: both, target, mask: toDtype(there, "bool"), loss: scalar(0), items: 15 });
  const { metrics } = running.result();
  const a = Math.sqrt((4 * 1 + 25 + 25 + 49) / 7), b = Math.sqrt((4 * 4 + 4 * 16) / 8);
  assertAlmostEquals(metrics.rmse, (a + b) / 2, 1e-12);
  assertAlmostEquals(metrics.mae, ((4 + 5 + 5 + 7) / 7 + 3) / 2, 1e-12);
  assertAlmostEquals(metrics.bias, ((2 + 3) / 7 + (4 + 8) / 8) / 2, 1e-12);
  const persistence = (Math.sqrt((4 * 4 + 3 * 64) / 7) + Math.sqrt((4 * 4 + 4 * 16) / 8)) / 2;
  assertAlmostEquals(metrics.skill_persistence, 1 - (a + b) / 2 / persistence, 1e-12);
  assertAlmostEquals(metrics.spread, (Math.sqrt((4 + 27) / 7) + Math.sqrt((4 + 36) / 8)) / 2, 1e-6);
  assertEquals([metrics["rmse/a+1"], metrics["rmse/b+2"], metrics["skill_persistence/a+1"]], [1, 4, 0.5]);
  assertAlmostEquals(metrics["spread/a+2"], 3, 1e-6);
});

Deno.test("a target that never varies is met or missed, far from zero and away from the first sample too", () => {
  const first = tensor([7], [1, 1]);
  const made = memorySource({
    name: "m",
    task: "regression",
    outputs: 1,
    description: "",
    input: first,
    target: first,
  });
  const measure = measureOf(made, { loss: { name: "mse" }, full: true });
  const r2 = (output: number) => {
    const running = new RunningMetrics(measure), target = tensor(Array(5).fill(12345.678), [5, 1]);
    const same = tensor(Array(5).fill(output), [5, 1]);
    running.observe({ output: same, target, loss: scalar(0), items: 5 });
    return running.result().metrics.r2;
  };
  assertEquals([r2(12345.678), r2(12345)], [1, 0]);
});

Deno.test("top-5 is measured in evaluation and where there are more than five classes", () => {
  const c = CASES["a class"], { source, loss } = of(c);
  const names = (outputs: number, full: boolean) => {
    const made = { ...source, facts: { ...source.facts, outputs } };
    const running = new RunningMetrics(measureOf(made, { loss, full }));
    scope(() => running.observe({ output: c.output, target: c.target, loss: randn([]), items: COUNT }));
    return Object.keys(running.result().metrics);
  };
  const plain = (all: string[]) => all.filter((name) => !name.includes("/"));
  const judged = ["precision", "recall", "f1", "ece"];
  assertEquals(plain(names(12, true)), ["accuracy", "top5", ...judged]);
  assertEquals(names(12, false), ["accuracy"]);
  assertEquals(plain(names(5, true)), ["accuracy", ...judged]);
});

Deno.test("shares of classes are met by the class with the largest one", () => {
  const classes = [2, 0, 1, 1, 0, 2, 2, 1], output = randn([8, 3]);
  const shares = tensor(
    Float32Array.from({ length: 24 }, (_, i) => i % 3 === classes[Math.floor(i / 3)] ? 0.4 : 0.3),
    [8, 3],
  );
  const accuracy = (target: Tensor, output: Tensor, name: "bce" | "cross_entropy", outputs: number) => {
    const input = zerosLike(target);
    const made = memorySource({ name: "m", task: "classification", outputs, description: "", input, target });
    const running = new RunningMetrics(measureOf(made, { loss: { name }, full: false }));
    scope(() => running.observe({ output, target, loss: randn([]), items: output.shape[0] }));
    return running.result().metrics.accuracy;
  };
  const ofNumbers = tensor(BigInt64Array.from(classes, BigInt));
  assertEquals(
    accuracy(shares, output, "cross_entropy", 3),
    accuracy(ofNumbers, output, "cross_entropy", 3),
  );
  const two = tensor([0.8, 0.2, 0.3, 0.7, 0.45, 0.55, 1, 0], [4, 2]);
  const logits = tensor([-1, 2, -0.5, 3], [4, 1]);
  assertEquals(accuracy(two, logits, "bce", 2), 0.5);
});

Deno.test("labels that are no class of the model, as a graph's own loss ignores them, count for nothing", () => {
  const output = randn([4, 3, 2, 2]), known = labels(3, [4, 2, 2]);
  const target = tensor(BigInt64Array.from(toNumbers(known), (id, i) => i % 2 ? 255n : BigInt(id)), [
    4,
    2,
    2,
  ]);
  const made = memorySource({
    ...{ name: "m", task: "segmentation", outputs: 3, description: "", input: zerosLike(target), target },
  });
  const running = new RunningMetrics(
    measureOf(made, { loss: { name: "graph", like: "cross_entropy" }, full: true }),
  );
  running.observe({ output, target, loss: scalar(0), items: 4 });
  const { accuracy } = running.result().metrics;
  const best = (i: number) => {
    const scores = toNumbers(output), item = Math.floor(i / 4), pixel = i % 4;
    const of = [0, 1, 2].map((k) => scores[(item * 3 + k) * 4 + pixel]);
    return of.indexOf(Math.max(...of));
  };
  const hits = [...toNumbers(target)].filter((label, i) => label === best(i)).length;
  assertEquals(accuracy, hits / 8);
});

Deno.test("scores that can't be brought to their labels' size are refused by both shapes, loss and metric alike", () => {
  const c = CASES["a map of classes, with scores at a quarter of its size"], { loss, measure } = of(c);
  const large = randn([COUNT, 3, 16, 12]);
  for (const judge of [() => loss.apply(large, c.target), () => measure.rows(large, c.target, 1)]) {
    const { message } = assertThrows(() => scope(judge), UserError);
    assert(message.includes("i64[103, 8, 12]") && message.includes("f32[103, 3, 16, 12]"), message);
  }
});

Deno.test("a batch in which nothing counts changes no mean", () => {
  const { loss, measure } = of(CASES.tokens), c = CASES.tokens;
  const none = tensor(new BigInt64Array(12).fill(-100n), [2, 6]);
  const running = new RunningMetrics(measure);
  for (const target of [narrow(c.target, 0, 0, 2), none]) {
    scope(() => {
      const output = narrow(c.output, 0, 0, 2);
      running.observe({ output, target, loss: loss.apply(output, target), items: loss.validCount(target) });
    });
  }
  assert(Number.isFinite(running.result().loss));
});

Deno.test("what a step observed can be taken back until the next one begins, also after it was measured", () => {
  const c = CASES["three numbers"], { loss, measure } = of(c);
  const batches = Array.from({ length: 100 }, (_, i) => i);
  const watched = (taken: readonly number[]) => {
    const running = new RunningMetrics(measure);
    const observe = (i: number) =>
      scope(() => {
        const [output, target] = [c.output, c.target].map((t) => narrow(t, 0, i, 1));
        running.observe({ output, target, loss: loss.apply(output, target), items: 3 });
      });
    for (const i of batches) {
      running.mark();
      if (taken.includes(i)) {
        for (let micro = 0; micro < 40; micro++) observe((i + micro) % COUNT); // more than are put aside
        running.undo();
      }
      observe(i);
    }
    return running.result();
  };
  assertEquals(watched([0, 31, 32, 60]), watched([]));
});

Deno.test("metrics leave no tensor behind when they are asked for", () => {
  const c = { ...CASES["a class"], output: keep(CASES["a class"].output) };
  measured(c, [COUNT]);
  const before = liveTensors();
  for (let i = 0; i < 5; i++) measured(c, SPLITS[3]);
  assertEquals(liveTensors(), before);
});
