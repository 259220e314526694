// Which rank failed first, by what ranks and MPI's launchers left.
import { assertEquals, assertMatch } from "@std/assert";
import { judgeEnds, type RankEnd } from "../../../../core/ranks/launch/verdict.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

const HERE = { host: "node1", launcher: "", stop: null, step: 12, memory: null };
const end = (
  rank: number,
  at: number | null,
  note: [code: number, reason: string, at: number] | null,
  about: number | null = null,
): RankEnd => ({
  rank,
  at,
  note: note && { code: note[0], reason: note[1], about, host: `node${rank}`, at: note[2] },
  pid: 100 + rank,
  ended: false,
});

Deno.test("ranks that all end well, or were stopped on request, leave nothing to say", () => {
  const done = [end(0, 5, [0, "", 5]), end(1, 6, [0, "", 6])];
  assertEquals(judgeEnds({ ...HERE, ends: done }), { code: 0, sentence: null });
  const stopped = [end(0, 5, [75, "", 5]), end(1, 6, [0, "", 6])];
  assertEquals(judgeEnds({ ...HERE, ends: stopped, stop: "SIGTERM" }), { code: 75, sentence: null });
});

Deno.test("the first failure counts, in the words of the rank, wherever it ran", () => {
  const ends = [
    end(0, 30, [5, "a rank was lost", 29]),
    end(1, 20, [6, "the loss is NaN.", 19]),
    end(2, 25, null),
  ];
  const sentence = sentenceNamed("core/ranks/launch/verdict: rank node failed first after");
  assertEquals(judgeEnds({ ...HERE, ends }), { code: 6, sentence });
});

for (
  const [name, launcher] of [
    ["Open MPI", "prterun noticed that process rank 1 with PID 0 on node vm exited on\nsignal 9 (Killed).\n"],
    [
      "MPICH",
      "=   PID 101 RUNNING AT vm\n=   EXIT CODE: 9\nTERMINATED WITH THE EXIT STRING: Killed (signal 9)\n",
    ],
  ]
) {
  Deno.test(`a rank that was killed is named by ${name}'s launcher, though another was seen to end before`, () => {
    const ends = [end(0, 10, [5, "the connection to rank 1 was lost", 10]), end(1, 11, null)];
    const { code, sentence } = judgeEnds({ ...HERE, ends, launcher });
    assertEquals([code, sentence?.slice(0, 70)], [
      5,
      sentenceNamed("core/ranks/launch/verdict: rank node failed"),
    ]);
  });
}

Deno.test("a rank that says another failed first is believed only where that one is on another node", () => {
  const told = "Rank 1 on node1 failed first, at step 12: the disk is full.";
  const ends = [end(0, 10, [5, told, 10], 1), end(1, 12, [8, "the disk is full.", 12])];
  const sentence = sentenceNamed("core/ranks/launch/verdict: rank node failed first after step");
  assertEquals(judgeEnds({ ...HERE, ends }), { code: 8, sentence });
  assertEquals(judgeEnds({ ...HERE, ends: ends.slice(0, 1) }), { code: 5, sentence: told });
  const lost = [end(0, 10, [5, told, 10], 1), end(1, 9, null)]; // killed before it could leave a note
  assertEquals(judgeEnds({ ...HERE, ends: lost }), { code: 5, sentence: told });
});

Deno.test("what we ended ourselves did not fail first", () => {
  const ends = [{ ...end(0, 8, null), ended: true }, { ...end(1, 9, null), signal: "SIGSEGV" }];
  const { sentence } = judgeEnds({ ...HERE, step: null, ends });
  assertSentence("core/ranks/launch/verdict: rank node failed first", sentence);
});

Deno.test("ranks that never began: the launcher has the word", () => {
  const ends = [end(0, null, null), end(1, null, null)];
  const { code, sentence } = judgeEnds({ ...HERE, ends, launcher: "There are not enough slots\n" });
  assertEquals([code, sentence], [
    7,
    sentenceNamed("core/ranks/launch/verdict: ranks could started"),
  ]);
});

Deno.test("what doctor found and printed needs no sentence more", () => {
  assertEquals(judgeEnds({ ...HERE, ends: [end(0, 5, [1, "", 5]), end(1, 6, [0, "", 6])] }), {
    code: 1,
    sentence: null,
  });
});

Deno.test("a rank that the kernel killed for memory is out of memory, by the kernel's own count or what the run said last", () => {
  const ends = [{ ...end(0, 8, null), signal: "SIGKILL" }];
  const judged = (job: number, machine: number, said: string | null) =>
    judgeEnds({ ...HERE, ends, memory: { kills: { job, machine }, shortage: said } });
  const said = "it was probably killed for memory: 23.1 GiB of 24.0 GiB were used at step 12";
  assertSentence("core/ranks/launch/verdict: kernel killed control", judged(1, 1, said).sentence!);
  assertSentence("core/ranks/launch/verdict: kernel killed process", judged(0, 2, null).sentence!);
  assertMatch(judged(0, 0, said).sentence!, /probably killed for memory: 23\.1 GiB/);
  assertMatch(judged(0, 0, null).sentence!, /by somebody's kill -9 or by the system/);
  const codes = [judged(1, 1, null), judged(0, 2, null), judged(0, 0, said), judged(0, 0, null)];
  assertEquals(codes.map(({ code }) => code), [4, 4, 4, 5]);
  const trap = judgeEnds({ ...HERE, ends: [{ ...end(0, 8, null), signal: "SIGTRAP" }] });
  assertMatch(trap.sentence!, /ulimit -v/);
});
