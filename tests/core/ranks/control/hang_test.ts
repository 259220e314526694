import { assertEquals } from "@std/assert";
import { hangVerdict, type Standing } from "../../../../core/ranks/control/hang.ts";
import { ranksIn } from "../../../../core/ranks/control/job.ts";
import type { RecordedCollective } from "../../../../core/ranks/flight_recorder.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

const flown = (sequence: number, more: Partial<RecordedCollective> = {}): RecordedCollective => ({
  ...{ sequence, op: "all-reduce", bytes: 1024, phase: "block 7", queued: 1, begun: 2, ended: 0 },
  ...more,
});

const rank = (rank: number, more: Partial<Standing> = {}): Standing => ({
  ...{ rank, host: `node0${rank}`, step: 40, phase: "gradients", still: 610_000 },
  ...{ queued: 4812, begun: 4812, ended: 4811, flight: [flown(4812)] },
  ...more,
});

Deno.test("a rank that never entered a collective is named, with the collective, its phase and its time", () => {
  const late = rank(17, {
    queued: 4811,
    phase: "data.next",
    still: 611_000,
    flight: [flown(4811, { ended: 3 })],
  });
  assertEquals(hangVerdict([rank(0), late, rank(2)]), {
    rank: 17,
    sentence: sentenceNamed("core/ranks/control/hang: rank node never"),
    namesRank: true,
  });
});

Deno.test("of several that are behind, the one that has been there longest is named first", () => {
  const behind = [3, 5, 4].map((n) =>
    rank(n, { queued: 4811, phase: "data.next", still: 1000 * n, flight: [] })
  );
  assertSentence(
    "core/ranks/control/hang: rank node never entered",
    hangVerdict([rank(0), ...behind]).sentence,
  );
});

Deno.test("a collective that all entered and some did not leave is the network's, or the engine's", () => {
  const out = rank(1, { ended: 4812 });
  assertSentence("core/ranks/control/hang: every rank entered", hangVerdict([rank(0), out]).sentence);
  assertSentence(
    "core/ranks/control/hang: every rank entered all-reduce",
    hangVerdict([rank(0), rank(1, { begun: 4811 })]).sentence,
  );
});

Deno.test("ranks that do different things under one number are told so", () => {
  const other = rank(2, { flight: [flown(4812, { op: "broadcast", bytes: 8, phase: "weights" })] });
  assertSentence("core/ranks/control/hang: rank node entered", hangVerdict([rank(0), other]).sentence);
});

Deno.test("without a collective under way, the rank with the fewest steps is named", () => {
  const idle = { queued: 9, begun: 9, ended: 9, flight: [] };
  assertSentence(
    "core/ranks/control/hang: rank node makes",
    hangVerdict([rank(0, { ...idle, step: 3 }), rank(1, { ...idle, step: 2, phase: "forward", still: 5000 })])
      .sentence,
  );
});

Deno.test("a rank that others wait for is named before those who wait", () => {
  const idle = { queued: 0, begun: 0, ended: 0, flight: [], step: 0 };
  const zero = rank(0, { ...idle, phase: "starting", still: 5000 });
  const one = rank(1, { ...idle, phase: "waiting for ranks", still: 9000 });
  assertEquals(hangVerdict([one, zero]).rank, 0);
});

Deno.test("many ranks are written as ranges", () => {
  assertEquals(ranksIn([3]), "rank 3");
  assertEquals(ranksIn([9, 0, 1, 2, 7]), "ranks 0-2, 7 and 9");
  assertEquals(ranksIn(Array.from({ length: 99 }, (_, i) => 2 * i)).endsWith("20, 22 and more"), true);
});
