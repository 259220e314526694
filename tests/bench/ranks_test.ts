import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { inFolder, rateBeside, rateInStep, stepBeside, stepsIn, waitedIn } from "../../bench/ranks.ts";

/** A run whose steps end `every` seconds apart, from `from` to `to`. */
const run = (from: number, to: number, every: number) =>
  Array.from({ length: Math.round((to - from) / every) + 1 }, (_, i) => from + i * every);

Deno.test("of runs beside each other only the time counts in which all were warm and none had ended", () => {
  const slow = [...run(0, 10, 1), ...run(10.25, 20, 0.25)]; // fast again when it is alone
  const fast = run(0, 10, 0.5);
  assertAlmostEquals(rateBeside([fast, slow], 1), 1 + 2);
  assertAlmostEquals(rateBeside([slow], 0), (slow.length - 1) / 20);
});

Deno.test("a step is the median one, which a pause of the machine does not change", () => {
  const paused = run(0, 10, 1).map((t) => t > 5 ? t + 30 : t);
  assertAlmostEquals(stepBeside([paused], 2), 1);
  assertAlmostEquals(rateBeside([paused], 2), 8 / 38);
});

Deno.test("in step each step takes as long as the slowest one's", () => {
  const calm = run(0, 10, 1), slow = run(0, 10, 2);
  assertAlmostEquals(rateInStep([calm, calm], 0), 2);
  assertAlmostEquals(rateInStep([calm, slow], 0), 2 / 2);
  const stumbles = (at: number) => calm.map((t, i) => t + (i >= at ? 1 : 0)); // one step of two seconds
  assertAlmostEquals(rateInStep([stumbles(3), stumbles(7)], 0), 2 * 10 / 12);
});

Deno.test("runs that were not beside each other are refused", () => {
  assertThrows(
    () => rateBeside([run(0, 5, 1), run(6, 9, 1)], 0),
    Error,
    "0 steps ended while all runs were warm",
  );
});

Deno.test("steps and waits are read from a run's events, the warm ones", () =>
  inFolder((folder) => {
    const events = [
      { t: 10, kind: "step", step: 1 },
      { t: 10, kind: "times", step: 1, steps: 1, communication_s: 9 },
      { t: 11, kind: "step", step: 2 },
      { t: 12, kind: "step", step: 3 },
      { t: 12, kind: "times", step: 3, steps: 2, communication_s: 0.5 },
    ];
    Deno.mkdirSync(`${folder}/logs/r`, { recursive: true });
    Deno.writeTextFileSync(
      `${folder}/logs/r/events.jsonl`,
      events.map((event) => JSON.stringify(event) + "\n").join(""),
    );
    assertEquals(stepsIn(folder), [10, 11, 12]);
    assertEquals(waitedIn(folder, 1), 0.25);
    return Promise.resolve();
  }));
