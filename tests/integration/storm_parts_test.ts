// The table of a kill storm that was cut into parts.
import { assertEquals, assertMatch } from "@std/assert";
import type { Tally } from "./storm.ts";
import { nextSeed, type Part, rowsOf, sectionOf, withPart, wrongIn } from "./storm_parts.ts";

const tally = (kills: number, more: Partial<Tally> = {}): Tally => ({
  kills: { starting: kills, training: 1, writing: 0, written: 2, renamed: 0 },
  ...{ runs: 1, saves: 10, read: 5, unreadable: [], lost: [], different: [] },
  ...more,
});
const part = (seed: number, tallies: Tally[]): Part => ({
  ...{ seed, version: "1.2.3", date: "2026-01-02", minutes: 30 },
  ...{ machine: { cpu: "Some CPU", cores: 2 }, tallies },
});

Deno.test("parts add up, a part further on takes its own place, and the next seed is new", () => {
  assertEquals(nextSeed([]), 1);
  const parts = withPart(withPart([part(1, [tally(3), tally(4)])], part(4, [tally(1)])), part(4, [tally(9)]));
  assertEquals(nextSeed(parts), 5);
  assertEquals(rowsOf(parts).map(([, count]) => count), [16, 3, 0, 6, 0, 25, 15, 0, 30, 0, 3, 0]);
  const section = sectionOf(parts);
  assertMatch(
    section,
    /in 2 parts \(--seed 1, 4\) of hpctrain 1\.2\.3 on 2026-01-02, 60 minutes on Some CPU with 2 cores\./,
  );
  assertMatch(section, /\| kills in all \| 25 \|/);
});

Deno.test("what should not be is told of every part", () => {
  const parts = [
    part(1, [tally(1, { lost: ["a"] })]),
    part(2, [tally(1, { different: ["b"], unreadable: ["c"] })]),
  ];
  assertEquals(wrongIn(parts), ["a", "c", "b"]);
  assertEquals(rowsOf(parts).map(([, count]) => count).slice(7), [1, 20, 1, 2, 1]);
});
