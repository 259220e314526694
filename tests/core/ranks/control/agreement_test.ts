import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Client } from "../../../../core/ranks/control/client.ts";
import type { FirstError } from "../../../../core/ranks/control/failure.ts";
import type { Agreed, ToRank } from "../../../../core/ranks/control/messages.ts";
import { withJob } from "./job.ts";
import { assertSentence } from "../../../sentences.ts";

/** The next message of that kind. */
function heard<Is extends ToRank["is"]>(client: Client, is: Is) {
  const all: Extract<ToRank, { is: Is }>[] = [];
  let wake = () => {};
  client.listen((message) => {
    if (message.is !== is) return;
    all.push(message as Extract<ToRank, { is: Is }>);
    wake();
  });
  return async () => {
    while (all.length === 0) await new Promise<void>((resolve) => wake = resolve);
    return all.shift()!;
  };
}

Deno.test("ranks agree on a place that none of them has passed, for whatever they have reached", () =>
  withJob(3, {}, async (job) => {
    const clients = await Promise.all([0, 1, 2].map((rank) => job.rank(rank)));
    const counts = [4, 6, 5];
    const agreed = clients.map((client, rank) =>
      new Promise<Agreed>((resolve) =>
        client.listen((message) => {
          if (message.is === "hold") client.send({ is: "held", id: message.id, count: counts[rank] });
          if (message.is === "agreed") resolve(message.agreed);
        })
      )
    );
    clients[1].send({ is: "wish", what: "stop", reason: "SIGTERM" });
    for (const now of await Promise.all(agreed)) {
      assertEquals(now, { at: 7, what: "stop", reason: "SIGTERM" });
    }
  }));

Deno.test("a wish that comes while the last place is not yet passed waits for that", () =>
  withJob(2, {}, async (job) => {
    const clients = await Promise.all([0, 1].map((rank) => job.rank(rank)));
    const counts = [3, 3];
    const places: number[] = [];
    const done = Promise.withResolvers<void>();
    clients.forEach((client, rank) =>
      client.listen((message) => {
        if (message.is === "hold") client.send({ is: "held", id: message.id, count: counts[rank] });
        if (message.is !== "agreed" || rank === 1) return;
        places.push(message.agreed.at);
        if (message.agreed.at === 0) counts.fill(9);
        if (places.filter((at) => at > 0).length === 2) done.resolve();
      })
    );
    clients[0].send({ is: "wish", what: "save", reason: "the file SAVE" });
    clients[0].send({ is: "wish", what: "stop", reason: "SIGTERM" });
    await done.promise;
    assertEquals(places.filter((at) => at > 0), [4, 10]);
  }));

Deno.test("ranks that wait at a barrier hear that one has ended, and which", () =>
  withJob(3, {}, async (job) => {
    const clients = await Promise.all([0, 1, 2].map((rank) => job.rank(rank)));
    const error = heard(clients[0], "error");
    clients[2].send({ is: "goodbye" });
    for (const rank of [0, 1]) clients[rank].send({ is: "barrier", n: 1, name: "the last save" });
    assertSentence("core/ranks/control/agreement: rank node ended", (await error()).error.othersSentence);
  }));

Deno.test("a barrier that one rank does not come to ends the job and names it", () =>
  withJob(2, { stall: 800, firstStall: 800 }, async (job) => {
    const clients = await Promise.all([0, 1].map((rank) => job.rank(rank)));
    const error = heard(clients[0], "error");
    clients[0].send({ is: "barrier", n: 1, name: "weights" });
    const beat = { step: 0, phase: "data.next", still: 0, queued: 0, begun: 0, ended: 0 } as const;
    clients[1].send({ is: "beat", beat });
    const { othersSentence: told, rank } = (await error()).error;
    assertEquals(rank, 1);
    assertMatch(
      told,
      /^Rank 1 on node0 did not come to "weights" within \d+ s\. It was in data.next, at step 0\.$/,
    );
  }));

Deno.test("a stall is told once all stand still, not while one is saving, and its report holds every rank", () =>
  withJob(2, { stall: 900, firstStall: 900 }, async (job) => {
    const clients = await Promise.all([0, 1].map((rank) => job.rank(rank)));
    const error = new Promise<FirstError>((resolve) =>
      clients[0].listen((message) => {
        if (message.is === "error") resolve(message.error);
        if (message.is === "flight?") clients[0].send({ is: "flight", flight: [] });
      })
    );
    const flown = {
      sequence: 8,
      op: "all-reduce",
      bytes: 4096,
      phase: "block 7",
      queued: 5,
      begun: 6,
      ended: 0,
    } as const;
    clients[1].listen((message) =>
      message.is === "flight?" && clients[1].send({ is: "flight", flight: [flown] })
    );
    let zeroIs: "save" | "data.next" = "save";
    const began = performance.now();
    const still = () => Math.round(performance.now() - began);
    const beats = setInterval(() => {
      const common = { step: 12, still: still(), begun: 7, ended: 7 };
      clients[0].send({ is: "beat", beat: { ...common, phase: zeroIs, queued: 7 } });
      clients[1].send({ is: "beat", beat: { ...common, phase: "gradients", queued: 8 } });
    }, 100);
    let saved = false;
    setTimeout(() => (zeroIs = "data.next", saved = true), 2500);
    const { othersSentence: told, rank, step } = await error;
    clearInterval(beats);
    assert(saved, "it was told while a rank was saving");
    assertEquals([rank, step], [0, 12]);
    assertMatch(
      told,
      /^Rank 0 on node0 never entered all-reduce 8 \(block 7\): in data.next for \d+ s\. All ranks: logs\/run\/hang-12.json\.$/,
    );
    const [{ report }] = job.reports as { report: { ranks: { rank: number; flight: unknown[] }[] } }[];
    assertEquals(report.ranks.map(({ rank, flight }) => [rank, flight]), [[0, []], [1, [flown]]]);
  }));
