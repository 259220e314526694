// The events about time: when they are told, that they add up, and the rates beside them.
import { assertAlmostEquals, assertEquals } from "@std/assert";
import {
  COMPUTE,
  COPY,
  EVALUATION,
  openAccount,
  openTimes,
  SAVE,
  sixDigits,
  TIME_PARTS,
} from "../../../core/run/account.ts";
import type { TimesEvent } from "../../../core/run/events.ts";
import { byHand } from "./clock.ts";

const sum = (event: TimesEvent) => TIME_PARTS.reduce((all, name) => all + event[`${name}_s`], 0);

Deno.test("times are told once a second at most, for all steps since the last time, and they add up", () => {
  const clock = byHand();
  let waited = 0;
  const account = openAccount({ data: () => waited, communication: () => 0 }, clock.now);
  const perSample = () => 3e6;
  const done = { step: 0, samples: 0 };
  const times = openTimes({ account, done, tokens: 128, perSample, peak: 1e9 });
  const step = () => {
    clock.pass(100);
    waited += 0.06;
    account.lap(COPY);
    clock.pass(200);
    account.lap(COMPUTE);
  };
  clock.pass(700);
  const start = times.since(0, 0);
  assertEquals([start.steps, start.seconds, start.rest_s, start.samples_per_s], [0, 0.7, 0.7, undefined]);
  step();
  const first = times.due(1, 10)!;
  assertEquals(
    [first.steps, first.samples_per_s],
    [1, undefined],
    "the first step says nothing of the speed",
  );
  for (const number of [2, 3, 4]) {
    step();
    assertEquals(times.due(number, 10 * number), null, "too early");
  }
  clock.pass(300);
  account.lap(SAVE);
  step();
  const told = times.due(5, 50)!;
  assertEquals(told, {
    kind: "times",
    step: 5,
    steps: 4,
    seconds: 1.5,
    data_s: 0.24,
    copy_s: 0.16,
    compute_s: 0.8,
    communication_s: 0,
    optimizer_s: 0,
    save_s: 0.3,
    evaluation_s: 0,
    rest_s: 0,
    samples_per_s: 33.3333,
    tokens_per_s: 4266.67,
    flops: 1e8,
    mfu: 0.1,
  });
  assertEquals(times.due(5, 50), null);
  step();
  assertEquals(times.due(6, 60), null);
  clock.pass(500);
  account.lap(EVALUATION);
  clock.pass(10);
  const last = times.since(7, 70);
  assertEquals([last.steps, last.evaluation_s, last.rest_s], [2, 0.5, 0.01]);
  const { seconds, spent } = times.whole();
  const all = [start, first, told, last];
  assertAlmostEquals(seconds, all.reduce((sum, one) => sum + one.seconds, 0), 1e-9);
  for (const one of all) assertAlmostEquals(sum(one), one.seconds, 1e-9);
  assertAlmostEquals(TIME_PARTS.reduce((sum, name) => sum + spent[`${name}_s`], 0), seconds, 1e-9);
});

Deno.test("training that went back to an earlier step tells no speed, and its time is not lost", () => {
  const clock = byHand();
  const account = openAccount(undefined, clock.now);
  const times = openTimes({ account, done: { step: 0, samples: 0 }, tokens: 0 });
  for (const step of [1, 2, 3]) {
    clock.pass(2000);
    account.lap(COMPUTE);
    times.due(step, step);
  }
  clock.pass(2000);
  account.lap(COMPUTE);
  const back = times.due(2, 2)!;
  assertEquals([back.steps, back.seconds, back.samples_per_s], [0, 2, undefined]);
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
