// The flight ring: what one thread writes another reads, also when it is far behind.
import { assert, assertEquals } from "@std/assert";
import {
  beginCollective,
  busy,
  end,
  enter,
  KEPT,
  lastRecorded,
  openFlightRecorder,
  progress,
  recorded,
} from "../../../core/ranks/flight_recorder.ts";
import { COLLECTIVES } from "../../../ffi/ranks/ring.ts";

const REDUCE = COLLECTIVES.indexOf("all-reduce"), BARRIER = COLLECTIVES.indexOf("barrier");

Deno.test("another thread sees what was queued, begun and ended, and what for", () => {
  const mine = openFlightRecorder(), theirs = openFlightRecorder(mine.shared);
  assertEquals(lastRecorded(theirs), []);
  const start = Date.now();
  const [first, second, third] = [
    enter(mine, REDUCE, 4096, "gradient of block 7"),
    enter(mine, BARRIER, 0, "all here"),
    enter(mine, REDUCE, 8, "gradient of block 7"),
  ];
  beginCollective(mine, first);
  while (Date.now() < start + 5);
  end(mine, first);
  beginCollective(mine, second);
  assertEquals(progress(theirs), { queued: third, begun: second, ended: first });
  const [one, two, three] = lastRecorded(theirs);
  assertEquals([one.sequence, one.op, one.bytes, one.phase], [1, "all-reduce", 4096, "gradient of block 7"]);
  assert(one.queued >= start - 1 && one.queued <= one.begun && one.begun < one.ended);
  assertEquals([two.op, two.phase, two.ended], ["barrier", "all here", 0]);
  assert(two.begun > 0);
  assertEquals([three.begun, three.ended, three.phase], [0, 0, "gradient of block 7"]);
  assert(Math.abs(busy(theirs) - (one.ended - one.begun) / 1000) < 1e-9);
});

Deno.test("the last 256 are remembered, in order", () => {
  const flight = openFlightRecorder();
  for (let i = 1; i <= 1000; i++) enter(flight, REDUCE, i, `phase ${i % 3}`);
  const last = lastRecorded(flight);
  assertEquals(last.map(({ sequence }) => sequence), Array.from({ length: KEPT }, (_, i) => 745 + i));
  assertEquals(last.at(-1)?.bytes, 1000);
  assertEquals(last.at(-1)?.phase, "phase 1");
  assertEquals(recorded(flight, 744), null);
});

Deno.test("a long phase is cut, and one too many takes the place of none", () => {
  const flight = openFlightRecorder();
  enter(flight, REDUCE, 0, "x".repeat(100));
  for (let i = 0; i < 2000; i++) enter(flight, REDUCE, 0, `phase ${i}`);
  enter(flight, REDUCE, 0, "x".repeat(100));
  assertEquals(lastRecorded(flight).at(-1)?.phase, "x".repeat(64));
  assertEquals(lastRecorded(flight).at(-2)?.phase, "other");
});
