import { assertAlmostEquals, assertEquals } from "@std/assert";
import { openThroughput } from "../../../core/train/throughput.ts";

/** A meter with a clock in our hands: step(samples, ms it took). */
function meter() {
  let time = 1000;
  const throughput = openThroughput(() => time);
  return {
    throughput,
    wait: (ms: number) => time += ms,
    step(samples: number, ms: number) {
      time += ms;
      throughput.step(samples);
    },
  };
}

Deno.test("the rate is unknown until two steps were seen", () => {
  const { throughput, step } = meter();
  assertEquals(throughput.rate(), null);
  assertEquals(throughput.secondsLeft(100), null);
  step(64, 5000);
  assertEquals(throughput.rate(), null);
  step(64, 100);
  assertAlmostEquals(throughput.rate()!, 640);
  assertAlmostEquals(throughput.secondsLeft(6400)!, 10);
  assertEquals(throughput.secondsLeft(-5), 0);
});

Deno.test("a slow first step does not spoil the rate, a stall within counts as it should", () => {
  const { throughput, step } = meter();
  step(10, 60_000);
  for (let i = 0; i < 9; i++) step(10, 100);
  step(10, 1100);
  assertAlmostEquals(throughput.rate()!, 50);
});

Deno.test("the window follows a change of speed", () => {
  const { throughput, step } = meter();
  for (let i = 0; i < 300; i++) step(10, 100);
  for (let i = 0; i < 128; i++) step(10, 10);
  assertAlmostEquals(throughput.rate()!, 1000);
});

Deno.test("steps older than half a minute are forgotten, but the last one never", () => {
  const { throughput, step } = meter();
  step(1, 1);
  step(1, 1);
  step(100, 40_000);
  assertAlmostEquals(throughput.rate()!, 2.5);
});

Deno.test("evaluation and saving are not training time", () => {
  const { throughput, step, wait } = meter();
  throughput.startEpoch();
  for (let i = 0; i < 10; i++) step(20, 100);
  throughput.pause();
  wait(100_000);
  throughput.resume();
  for (let i = 0; i < 10; i++) step(20, 100);
  assertAlmostEquals(throughput.rate()!, 200);
  assertAlmostEquals(throughput.epochRate()!, 200);
});

Deno.test("each epoch has its own mean, its first step included", () => {
  const { throughput, step } = meter();
  throughput.startEpoch();
  step(10, 1000);
  assertAlmostEquals(throughput.epochRate()!, 10);
  throughput.startEpoch();
  assertEquals(throughput.epochRate(), null);
  step(10, 100);
  assertAlmostEquals(throughput.epochRate()!, 100);
});

Deno.test("a clock that stands still gives no rate rather than an infinite one", () => {
  const { throughput, step } = meter();
  throughput.startEpoch();
  step(10, 0);
  step(10, 0);
  assertEquals([throughput.rate(), throughput.epochRate(), throughput.secondsLeft(10)], [null, null, null]);
});
