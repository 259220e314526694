import { assertEquals } from "@std/assert";
import { openHost, stolenSoFar } from "../../bench/contestant.ts";
import { assertSentence } from "../sentences.ts";

/** Each turn asks for a hundred ticks, of which others get so many. */
function hostThatTakes(shares: readonly number[]) {
  let asked = 0, others = 0, turns = 0;
  const take = () => {
    asked += 100;
    others += shares[turns];
    return Promise.resolve(turns++);
  };
  return { take, host: openHost(() => ({ asked, others })) };
}

Deno.test("a turn in which nothing was taken away is taken once", async () => {
  const { take, host } = hostThatTakes([0, 50]);
  assertEquals([await host.turn(take), host.taken], [0, [0]]);
});

Deno.test("a turn that lost much is taken again, until one lost little", async () => {
  const { take, host } = hostThatTakes([40, 30, 1, 0]);
  assertEquals([await host.turn(take), host.taken], [2, [0.01]]);
});

Deno.test("where all lost much, the one counts that lost least, and the sentence says how much", async () => {
  const { take, host } = hostThatTakes([40, 12, 30, 20, 0]);
  assertEquals([await host.turn(take), host.taken], [1, [0.12]]);
  assertSentence("bench/host: took processor time", host.said());
});

Deno.test("what the kernel says of stolen time is read, of old kernels too", () => {
  assertEquals(stolenSoFar("cpu  10 20 30 1000 5 1 2 7 0 0\ncpu0 1"), { asked: 70, others: 7 });
  assertEquals(stolenSoFar("cpu  10 20 30 1000 5 1 2\n"), { asked: 63, others: 0 });
});
