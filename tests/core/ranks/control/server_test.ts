import { cpuUsage } from "node:process";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { refusal, withJob } from "./job.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

Deno.test("1,000 ranks meet in under 5 seconds and all know the same hosts", () =>
  withJob(1000, {}, async (job) => {
    const began = performance.now(), before = cpuUsage();
    const clients = await Promise.all(Array.from({ length: 1000 }, (_, rank) => job.rank(rank)));
    const took = performance.now() - began, { user, system } = cpuUsage(before);
    const own = (user + system) / 1000;
    console.log(
      `1,000 ranks met in ${took.toFixed()} ms, of which this process computed ${own.toFixed()} ms`,
    );
    for (const { hosts } of clients) assertEquals(hosts.length, 1000);
    assertEquals(clients[7].hosts.slice(-5), ["node248", "node249", "node249", "node249", "node249"]);
    // On a machine that is busy with other things, only its own time says anything.
    assert(Math.min(took, own) < 5000);
  }));

Deno.test("a rank that never arrives is named, with the node on which it was expected", () =>
  withJob(8, { arrive: 2500 }, async (job) => {
    const came = [0, 1, 2, 3, 4, 6, 7].map((rank) => refusal(job.rank(rank)));
    for (const said of await Promise.all(came)) {
      assertMatch(
        said,
        /^Of 8 ranks 7 came within \d+ s; rank 5 \(expected on node1\) never arrived: look at its/,
      );
    }
  }));

Deno.test("a rank of another version ends the job in a sentence that names both", () =>
  withJob(2, {}, async (job) => {
    const zero = refusal(job.rank(0));
    const versions = { hpctrain: "0.0.9", libtorch: "2.15.0" };
    const sentence = sentenceNamed("core/ranks/control/server: rank node runs");
    assertEquals(await refusal(job.rank(1, { versions })), sentence);
    assertEquals(await zero, sentence);
  }));

Deno.test("a rank with other settings ends the job in a sentence that names them", () =>
  withJob(2, {}, async (job) => {
    const zero = refusal(job.rank(0));
    const other = refusal(
      job.rank(1, {}, { "training.batch_size": 32, "training.seed": 1, "data.type": "csv" }),
    );
    assertSentence("core/ranks/control/server: rank node started", await other);
    assertEquals(await zero, await other);
  }));

Deno.test("a rank that comes when all are here is turned away, and the job goes on", () =>
  withJob(2, {}, async (job) => {
    const [zero, one] = await Promise.all([job.rank(0), job.rank(1)]);
    assertSentence("core/ranks/control/server: rank came when", await refusal(job.rank(1)));
    assertMatch(job.lines[0], /refused a connection from 127.0.0.1, which sent a rank although all are here/);
    const passed = Promise.withResolvers<void>();
    zero.listen((message) => message.is === "passed" && passed.resolve());
    for (const client of [zero, one]) client.send({ is: "barrier", n: 1, name: "weights" });
    await passed.promise;
  }));

Deno.test("what each rank says at a barrier all hear, in their order, and nothing where nobody says a thing", () =>
  withJob(3, {}, async (job) => {
    const clients = await Promise.all([0, 1, 2].map((rank) => job.rank(rank)));
    const heard = clients.map((client) => {
      const passed: unknown[] = [];
      const both = Promise.withResolvers<unknown[]>();
      client.listen((message) => {
        if (message.is === "passed" && passed.push(message.values) === 2) both.resolve(passed);
      });
      return both.promise;
    });
    for (const rank of [2, 0, 1]) {
      clients[rank].send({ is: "barrier", n: 1, name: "addresses", value: { port: 4000 + rank } });
      clients[rank].send({ is: "barrier", n: 2, name: "weights" });
    }
    const values = [[{ port: 4000 }, 1], [{ port: 4001 }, 1], [{ port: 4002 }, 1]];
    assertEquals(await Promise.all(heard), Array(3).fill([values, null]));
  }));

Deno.test("a rank that ends without a goodbye is named to all others, with where it was", () =>
  withJob(3, {}, async (job) => {
    const clients = await Promise.all([0, 1, 2].map((rank) => job.rank(rank)));
    const told = [0, 1].map((rank) =>
      new Promise<string>((resolve) =>
        clients[rank].listen((message) => message.is === "error" && resolve(message.error.othersSentence))
      )
    );
    const beat = { step: 12, phase: "forward", still: 0, queued: 0, begun: 0, ended: 0 } as const;
    clients[2].send({ is: "beat", beat });
    await clients[2].flushed();
    clients[2].close();
    for (const sentence of await Promise.all(told)) {
      assertSentence("core/ranks/control/server: rank node gone", sentence);
    }
  }));

Deno.test("the first failure is the one that counts", () =>
  withJob(3, {}, async (job) => {
    const clients = await Promise.all([0, 1, 2].map((rank) => job.rank(rank)));
    const told = new Promise<unknown>((resolve) =>
      clients[0].listen((message) => message.is === "error" && resolve(message.error))
    );
    const cause = { kind: "error" } as const;
    clients[1].send({ is: "failed", step: 7, cause, sentence: "images/3.jpg: is not an image.", code: 3 });
    clients[2].send({ is: "failed", step: 7, cause, sentence: "The connection was reset.", code: 5 });
    assertEquals(await told, {
      rank: 1,
      host: "node0",
      step: 7,
      cause,
      sentence: "images/3.jpg: is not an image.",
      code: 3,
      othersSentence: sentenceNamed("core/ranks/control/server: rank node failed"),
      othersCode: 5,
      namesRank: true,
    });
  }));

Deno.test("a rank that is not heard of is named", () =>
  withJob(2, { silence: 1500 }, async (job) => {
    const [zero] = await Promise.all([job.rank(0), job.rank(1)]);
    const beating = setInterval(() => {
      zero.send({
        is: "beat",
        beat: { step: 3, phase: "backward", still: 0, queued: 1, begun: 1, ended: 0 },
      });
    }, 200);
    const told = await new Promise<string>((resolve) =>
      zero.listen((message) => message.is === "error" && resolve(message.error.othersSentence))
    );
    clearInterval(beating);
    assertMatch(told, /^Rank 1 on node0 was not heard of for [23] s: its node or the network is down\./);
  }));
