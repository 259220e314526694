import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { medianWithin, moreOf, type Turn, turnsOf } from "../../bench/track.ts";

/** Turns of a machine whose steps take this long, 10 us more where they are told. */
const turns = (count: number, stepOf: (turn: number) => number): Turn[] =>
  Array.from({ length: count }, (_, i) => {
    const told = turnsOf(i), seconds = (stepOf(i) + (told ? 10 : 0)) / 1e6;
    return { told, steps: 200, wall: 200 * seconds, own: 200 * seconds, cpu: 400 * seconds, taken: 0 };
  });

Deno.test("what telling costs is found although the machine becomes slower all the time, and pauses", () => {
  const { step, costs, share } = moreOf(turns(80, (i) => 1000 + 5 * i + (i === 33 ? 50_000 : 0)), "wall");
  assertAlmostEquals(costs, 10, 1e-6);
  assertAlmostEquals(share, 10 / step);
});

Deno.test("fours that lost time to others on the machine's host are left out, where enough are left", () => {
  const disturbed = (count: number) =>
    turns(80, () => 1000).map((turn, i) => i < count ? { ...turn, wall: 3 * turn.wall, taken: 0.3 } : turn);
  assertAlmostEquals(moreOf(disturbed(50), "wall").costs, 10, 1e-6); // by the median of all it would be 30
  assertAlmostEquals(moreOf(disturbed(80), "wall").costs, 30, 1e-6);
});

Deno.test("each clock has its own figure", () => {
  assertAlmostEquals(moreOf(turns(8, () => 1000), "own").share, 0.01);
  assertAlmostEquals(moreOf(turns(8, () => 1000), "cpu").step, 2000);
});

Deno.test("the median's interval holds it, and is narrower with more values", () => {
  const spread = (count: number) => {
    const [low, high] = medianWithin(Array.from({ length: count }, (_, i) => (i * 7) % count / count));
    assert(low < 0.5 && high > 0.4, `${low} ${high}`);
    return high - low;
  };
  assert(spread(101) < spread(11));
  assertEquals(medianWithin([3]), [3, 3]);
});
