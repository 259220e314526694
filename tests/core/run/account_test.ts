// The account of time: it is closed, whatever is slow, and costs next to nothing.
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import {
  addSpent,
  byPart,
  COMMUNICATION,
  COMPUTE,
  COPY,
  DATA,
  EVALUATION,
  openAccount,
  ownWork,
  percentages,
  REST,
  SAVE,
  spentBetween,
  spentNothing,
  TIME_PARTS,
} from "../../../core/run/account.ts";
import { decodeEvent } from "../../../core/run/events.ts";
import { byHand } from "./clock.ts";

const sum = (spent: Float64Array) => spent.reduce((all, seconds) => all + seconds, 0);

Deno.test("all time belongs to some part, and onLap gets each stretch", () => {
  const clock = byHand();
  const account = openAccount(undefined, clock.now);
  const heard: number[][] = [];
  account.onLap = (...lap) => heard.push(lap);
  for (const [part, ms] of [[COPY, 5], [COMPUTE, 20], [COPY, 1], [REST, 0]]) {
    clock.pass(ms);
    account.lap(part);
  }
  assertAlmostEquals(account.spent[COPY], 0.006);
  assertAlmostEquals(account.spent[COMPUTE], 0.02);
  assertAlmostEquals(sum(account.spent), 0.026);
  assertEquals(heard, [[COPY, 1000, 1005], [COMPUTE, 1005, 1025], [COPY, 1025, 1026], [REST, 1026, 1026]]);
  assertEquals(account.at, 1026);
});

Deno.test("what is waited for within a part is taken out of it, but an evaluation's and a save's waits are theirs", () => {
  const clock = byHand();
  let data = 0, communication = 0;
  const account = openAccount({ data: () => data, communication: () => communication }, clock.now);
  clock.pass(100);
  data += 0.09;
  account.lap(COPY);
  clock.pass(100);
  communication += 0.05; // a wait in the midst of backward, where no lap ends
  account.lap(COMPUTE);
  clock.pass(100);
  [data, communication] = [data + 0.03, communication + 0.03];
  account.lap(EVALUATION);
  clock.pass(10);
  account.lap(SAVE);
  const expected = {
    [DATA]: 0.09,
    [COPY]: 0.01,
    [COMPUTE]: 0.05,
    [COMMUNICATION]: 0.05,
    [EVALUATION]: 0.1,
    [SAVE]: 0.01,
  };
  for (const [part, seconds] of Object.entries(expected)) {
    assertAlmostEquals(account.spent[Number(part)], seconds, 1e-9);
  }
});

Deno.test("a device's stream that waited longer than a lap took leaves no part below nothing, and the account closed", () => {
  const clock = byHand();
  let communication = 0;
  const account = openAccount({ data: () => 0, communication: () => communication }, clock.now);
  const from = account.markTime();
  for (let i = 0; i < 10; i++) {
    clock.pass(1);
    communication += 0.05; // read late, for several steps at once
    account.lap(COMPUTE);
    clock.pass(20);
    account.lap(COMPUTE);
  }
  const { seconds, spent } = spentBetween(from, account.markTime());
  assertEquals(seconds, 0.21);
  assert(Object.values(spent).every((part) => part >= 0), JSON.stringify(spent));
  assertAlmostEquals(Object.values(spent).reduce((a, b) => a + b), 0.21, 1e-9);
  assertAlmostEquals(spent.communication_s, 0.21, 1e-9);
});

Deno.test("percentages add up to 100.0, whatever the parts are", () => {
  const of = (numbers: readonly number[]) => byPart((_, i) => numbers[i]);
  const cases = [
    [1, 1, 1, 0, 0, 0, 0, 0],
    [1 / 3, 1 / 7, 1 / 11, 1 / 13, 1 / 17, 1 / 19, 1 / 23, 1 / 29],
    [0, 0, 0, 0, 0, 0, 0, 0],
    [1e-9, 0, 1e4, 0, 0, 0, 0, 1e-9],
    [0, 0, 0, 0, 0, 0, 0, 5],
  ];
  for (const numbers of cases) {
    const shown = percentages(of(numbers));
    assertEquals(
      Math.round(10 * shown.reduce((all, [, share]) => all + share, 0)),
      1000,
      JSON.stringify(shown),
    );
    const rest = shown.findIndex(([name]) => name === "rest");
    assert(rest < 0 || rest === shown.length - 1, "the rest comes last");
    assert(shown.every(([, share]) => share > 0));
  }
  assertEquals(percentages(spentNothing()), [["rest", 100]]);
  assertEquals(percentages(of([0, 0, 3, 5, 0, 0, 0, 2])), [["communication", 50], ["compute", 30], [
    "rest",
    20,
  ]]);
});

Deno.test("a rank's own work is all but what it waited for others, and parts that a log lacks add nothing", () => {
  const spent = byPart((_, i) => i + 1);
  assertEquals(ownWork(spent), 36 - (COMMUNICATION + 1));
  addSpent(spent, { data_s: 1, copy_s: "x", compute_s: -3, rest_s: NaN });
  assertEquals([spent.data_s, spent.copy_s, spent.compute_s, spent.rest_s], [2, 2, 3, 8]);
});

Deno.test("logs that called the parts otherwise are read in the words of now", () => {
  const event = decodeEvent(
    '{"t":1,"kind":"times","step":9,"steps":3,"loader_s":1,"transfer_s":2,"compute_s":3,"eval_s":4,"other_s":5}',
  );
  assertEquals(event as unknown, {
    ...{ t: 1, kind: "times", step: 9, steps: 3, compute_s: 3 },
    ...{ data_s: 1, copy_s: 2, evaluation_s: 4, rest_s: 5 },
  });
  const step = decodeEvent('{"t":1,"kind":"step","step":9,"loader_wait_s":0.5}') as unknown as {
    data_s: number;
  };
  assertEquals(step.data_s, 0.5);
});

Deno.test("the account of a step costs less than a microsecond, beside reading the clock", () => {
  const laps = [REST, COPY, COMPUTE, COMMUNICATION, COMPUTE, 4, SAVE, 4, COPY];
  const account = openAccount({ data: () => 0, communication: () => 0 });
  const best = (body: () => void) => {
    let least = Infinity;
    for (let round = 0; round < 300; round++) {
      const from = performance.now();
      for (let step = 0; step < 500; step++) body();
      least = Math.min(least, (performance.now() - from) / 500);
    }
    return 1000 * least; // microseconds a step
  };
  const clock = best(() => laps.forEach(() => performance.now()));
  const whole = best(() => laps.forEach((part) => account.lap(part)));
  assert(whole - clock < 1, `${whole} us with ${clock} us for the clock`);
  assertEquals(TIME_PARTS.length, account.spent.length);
});
