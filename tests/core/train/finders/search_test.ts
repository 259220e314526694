// The finders of learning rate and batch size, on curves and times that are known.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { key, uniform } from "../../../../core/base/random.ts";
import { ratePicture } from "../../../../commands/run/find_lr.ts";
import { searchBatches, type TriedBatch } from "../../../../core/train/finders/batch.ts";
import { type BatchFit, chooseSize, sizesUpTo } from "../../../../core/train/finders/fit.ts";
import { judged, sweepRates } from "../../../../core/train/finders/rate.ts";

/** Falls from 2 to 0.5 around 1e-3, fastest there, and grows without end from 1 on. */
const loss = (rate: number) => 0.5 + 1.5 / (1 + (rate / 1e-3) ** 1.5) + rate ** 4;

Deno.test("the suggestion is where a noisy loss falls fastest, whatever the noise", () => {
  for (let seed = 0; seed < 20; seed++) {
    const noise = uniform(key(seed, "noise"));
    let taken = 0;
    const { suggestion, lowest, exploded, swept } = sweepRates(
      { from: 1e-7, to: 100, steps: 120 },
      (rate) => loss(rate) * (1 + 0.3 * (noise(taken++) - 0.5)),
    );
    assert(suggestion !== null, `seed ${seed}`);
    assertAlmostEquals(Math.log10(suggestion), -3, 0.5, `seed ${seed}`);
    assert(lowest > suggestion && lowest < 0.7, `seed ${seed}: lowest at ${lowest}`);
    assert(exploded !== null && exploded > 1 && exploded < 5, `seed ${seed}: exploded at ${exploded}`);
    assertEquals(swept.length, taken - 1);
  }
});

Deno.test("a loss that is no number ends the sweep, and one that never falls gets no suggestion", () => {
  const broken = sweepRates({ from: 1e-6, to: 1, steps: 60 }, (rate) => rate > 1e-2 ? NaN : loss(rate));
  assert(broken.exploded! > 1e-2 && broken.exploded! < 1.3e-2);
  assert(broken.suggestion! < 1e-2 && broken.swept.every((one) => Number.isFinite(one.loss)));
  const rising = sweepRates({ from: 1e-6, to: 1, steps: 60 }, (rate) => 1 + rate);
  assertEquals([rising.suggestion, rising.exploded], [null, null]);
  assertEquals(sweepRates({ from: 1e-6, to: 1, steps: 60 }, () => NaN).swept.length, 0);
});

Deno.test("lines are fitted by least squares over half a decade to either side", () => {
  const rates = Array.from({ length: 41 }, (_, i) => 10 ** (-4 + i / 10));
  const { swept } = judged(rates, rates.map((rate) => 3 - 2 * Math.log10(rate)));
  for (const { slope, smoothed, loss } of swept) {
    assertAlmostEquals(slope, -2, 1e-9);
    assertAlmostEquals(smoothed, loss, 1e-9);
  }
  // numpy.polyfit([-0.5, -0.4, ..., 0.5], [0, 1, 4, ..., 100], 1)
  const squares = judged(rates, rates.map((_, i) => (i - 15) ** 2));
  assertAlmostEquals(squares.swept[20].slope, 100, 1e-9);
  assertAlmostEquals(squares.swept[20].smoothed, 35, 1e-9);
});

Deno.test("the picture shows the sweep with its suggestion, in round numbers, also where nothing was found", () => {
  const found = sweepRates({ from: 1e-6, to: 1, steps: 80 }, loss);
  const picture = ratePicture(found, "a < b & c");
  assertMatch(picture, /^<svg .*<title id="t">a &lt; b &amp; c<\/title>/s);
  assert(!/NaN|Infinity|undefined/.test(picture));
  assertMatch(picture, />1e-3<\/text>/);
  assertMatch(picture, /It falls fastest at (9\.\de-4|1\.\de-3)/);
  assertEquals(picture.match(/class="dot"/g)!.length, 1);
  const flat = ratePicture(sweepRates({ from: 1e-6, to: 1, steps: 20 }, () => 1), "flat");
  assert(!/NaN|Infinity|undefined/.test(flat) && flat.includes("never falls"));
});

/** A step takes 10 ms and 1 ms a sample; from `cores` samples on, all are busy. */
const timing = (cores: number, room = Infinity) => (size: number) =>
  size > room ? null : { seconds: (10 + Math.max(size, cores)) / 1000, memory: size };

Deno.test("the batch-size finder stops where memory, samples or gain end, and takes the smallest that is nearly the fastest", () => {
  const search = (samples: number, memory: number | null, time: ReturnType<typeof timing>) => {
    const seen: TriedBatch[] = [];
    return { ...searchBatches({ samples, memory }, time, (one) => seen.push(one))!, seen };
  };
  const sizes = ({ seen }: { seen: TriedBatch[] }) => seen.map(({ size }) => size);
  const bySamples = search(100, null, timing(64));
  assertEquals(sizes(bySamples), [1, 2, 4, 8, 16, 32, 64]);
  assertEquals([bySamples.end, bySamples.suggestion, bySamples.largest], ["samples", 64, 64]);
  const byMemory = search(1e6, null, timing(64, 20));
  assertEquals([byMemory.end, byMemory.suggestion, byMemory.largest], ["memory", 16, 16]);
  assertEquals(byMemory.seen.at(-1), { size: 32, rate: null, seconds: null, memory: null });
  const byEstimate = search(1e6, 40, timing(64));
  assertEquals([byEstimate.end, byEstimate.largest], ["memory", 32]);
  const byGain = search(1e6, null, timing(1));
  assertEquals(byGain.end, "no faster");
  assertEquals(byGain.suggestion, 256); // 256 / 266 is nearly 1
  assert(byGain.largest > byGain.suggestion);
  assertEquals(searchBatches({ samples: 8, memory: null }, () => null, () => {}), null);
});

Deno.test("a rank takes the first size that fits, or a smaller one while that is clearly faster", () => {
  assertEquals(sizesUpTo(96), [96, 48, 24, 12, 6, 3, 2, 1]);
  assertEquals(sizesUpTo(1), [1]);
  const sizes = sizesUpTo(64);
  const rates = (table: Record<number, number>) => (size: number) =>
    size in table ? size / table[size] : null;
  const sizesOf = (fit: BatchFit | null) => fit && [fit.size, fit.timed.map(({ size }) => size)];
  assertEquals(sizesOf(chooseSize(sizes, null, rates({ 64: 100, 32: 105 }))), [64, [64, 32]]);
  assertEquals(sizesOf(chooseSize(sizes, null, rates({ 16: 100, 8: 150, 4: 200, 2: 90 }))), [
    4,
    [64, 32, 16, 8, 4, 2],
  ]);
  const all = { 16: 100, 8: 150 };
  assertEquals(sizesOf(chooseSize(sizes, "deterministic", rates(all))), [16, [64, 32, 16]]);
  assertEquals(chooseSize(sizes, null, () => null), null);
});
