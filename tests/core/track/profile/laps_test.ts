import { assertAlmostEquals, assertEquals } from "@std/assert";
import { COMPUTE, INPUT, openLaps, OTHER, PARTS, SAVE } from "../../../../core/track/profile/laps.ts";
import { openTimes, sixDigits } from "../../../../core/track/profile/times.ts";

/** A clock that is set by hand, in milliseconds. */
function byHand() {
  let time = 1000;
  return { now: () => time, pass: (milliseconds: number) => void (time += milliseconds) };
}

Deno.test("all time belongs to some part, and a hearer is told of each stretch", () => {
  const clock = byHand();
  const laps = openLaps(clock.now);
  const heard: number[][] = [];
  laps.hearer = (...lap) => heard.push(lap);
  for (const [part, ms] of [[INPUT, 5], [COMPUTE, 20], [INPUT, 1], [OTHER, 0]]) {
    clock.pass(ms);
    laps.lap(part);
  }
  assertAlmostEquals(laps.spent[INPUT], 0.006);
  assertAlmostEquals(laps.spent[COMPUTE], 0.02);
  assertAlmostEquals(laps.spent.reduce((sum, s) => sum + s, 0), 0.026);
  assertEquals(heard, [[INPUT, 1000, 1005], [COMPUTE, 1005, 1025], [INPUT, 1025, 1026], [OTHER, 1026, 1026]]);
  assertEquals(laps.at, 1026);
});

Deno.test("times are told once a second at most, for all steps since the last time, and they add up", () => {
  const clock = byHand();
  const laps = openLaps(clock.now);
  let waited = 0;
  const perSample = () => 3e6;
  const times = openTimes({ laps, waited: () => waited, tokens: 128, perSample, peak: 1e9, now: clock.now });
  const step = () => {
    clock.pass(100);
    waited += 0.06;
    laps.lap(INPUT);
    clock.pass(200);
    laps.lap(COMPUTE);
  };
  assertEquals(times.due(1, 10), null, "the first step is like no other");
  for (const number of [2, 3, 4]) {
    step();
    assertEquals(times.due(number, 10 * number), null, "too early");
  }
  clock.pass(300);
  laps.lap(SAVE);
  step();
  const told = times.due(5, 50)!;
  assertEquals(told, {
    kind: "times",
    step: 5,
    steps: 4,
    loader_s: 0.24,
    transfer_s: 0.16,
    compute_s: 0.8,
    communication_s: 0,
    optimizer_s: 0,
    save_s: 0.3,
    eval_s: 0,
    other_s: 0,
    samples_per_s: 33.3333,
    tokens_per_s: 4266.67,
    flops: 1e8,
    mfu: 0.1,
  });
  assertEquals(times.due(5, 50), null);
  step();
  assertEquals(times.due(6, 60), null);
});

Deno.test("each part has a name of its own", () => {
  assertEquals(new Set(PARTS).size, PARTS.length);
});

Deno.test("a rate is told with six digits, as its text would have them", () => {
  for (const value of [1234567.89, 99999.96, 1000, 640.1234567, 0.000123456789, 2.5, -17.12345678, 8.5e12]) {
    assertAlmostEquals(sixDigits(value), Number(value.toPrecision(6)), 1e-12 * Math.abs(value));
  }
  assertEquals([sixDigits(0), sixDigits(null), sixDigits(Infinity)], [0, undefined, Infinity]);
  assertEquals(
    JSON.stringify([129.24712, 8271.8249, 42696912345].map(sixDigits)),
    "[129.247,8271.82,42696900000]",
  );
});
