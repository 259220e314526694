// NCCL's RAS service, in whose place a small server says what NCCL's own does.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { queryRas, worstOf } from "../../../../core/ranks/nccl/part.ts";
import { withJob } from "../control/job.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

const REPORT = `NCCL version 2.27.3 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12090

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 5

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
`;

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const bytes = (said: string) => new TextEncoder().encode(said);

/** Answers each line by `answers`; null: not at all. After the last one it hangs up, if that is not null. */
function standIn(answers: readonly (string | null)[]) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const heard: string[] = [];
  const serving = (async () => {
    for await (const conn of listener) {
      try {
        for (const answer of answers) {
          const buffer = new Uint8Array(1024);
          const count = await conn.read(buffer);
          if (count === null) break;
          heard.push(text(buffer.subarray(0, count)));
          if (answer === null) await conn.read(buffer); // until the other side has had enough
          else await conn.write(bytes(answer));
        }
      } catch {
        // it was closed at the other end
      }
      conn.close();
    }
  })().catch(() => {});
  const { port } = listener.addr as Deno.NetAddr;
  return {
    env: { NCCL_RAS_ADDR: `127.0.0.1:${port}` },
    heard,
    async close() {
      listener.close();
      await serving;
    },
  };
}

Deno.test("NCCL's service is asked in its own words, and its report comes back whole with its worst in a line", async () => {
  const server = standIn(["SERVER PROTOCOL 2\n", "OK\n", REPORT]);
  const said = await queryRas(server.env);
  await server.close();
  assertEquals(server.heard, ["CLIENT PROTOCOL 2\n", "TIMEOUT 3\n", "VERBOSE STATUS\n"]);
  assertEquals(said, {
    text: REPORT.trim(),
    line: sentenceNamed("core/ranks/nccl/ras: nccl own report"),
  });
});

Deno.test("a report with warnings alone gives those, and one without either says that it has no errors", () => {
  const warnings = REPORT.replace(/Errors\n======[^]*?(?=Warnings)/, "");
  assertMatch(
    worstOf(warnings),
    /^NCCL's own report, warnings: #0-0 \(27a079b828ff1a75\) MISMATCH; Communicator/,
  );
  assertEquals(worstOf(REPORT.slice(0, REPORT.indexOf("Errors\n======"))), "NCCL's own report has no errors");
});

Deno.test("what listens there and is not NCCL's service, or nobody, gives nothing", async () => {
  const other = standIn(["HTTP/1.1 400 Bad Request\r\n\r\n"]);
  assertEquals(await queryRas(other.env), null);
  assertEquals(other.heard, ["CLIENT PROTOCOL 2\n"]);
  await other.close();
  assertEquals(await queryRas(other.env), null);
  assertEquals(await queryRas({ ...other.env, NCCL_RAS_ENABLE: "0" }), null);
});

Deno.test("a service that says nothing is left after the limit, and half a report is kept", async () => {
  for (const answers of [[null], ["SERVER PROTOCOL 2\n", null], ["SERVER PROTOCOL 2\n", "OK\n", null]]) {
    const silent = standIn(answers);
    const began = performance.now();
    assertEquals(await queryRas(silent.env, 200), null);
    assert(performance.now() - began < 7000); // without a limit of its own, 8 s
    await silent.close();
  }
  const half = standIn(["SERVER PROTOCOL 2\n", "OK\n", REPORT.slice(0, 200), null]);
  const said = await queryRas(half.env, 500);
  await half.close();
  assertEquals(said?.text, REPORT.slice(0, 200).trim());
});

for (
  const [answers, line, kept] of [
    [["SERVER PROTOCOL 2\n", "OK\n", REPORT], " NCCL's own report, errors: INCOMPLETE; ", true],
    [[null], "", false],
  ] as const
) {
  Deno.test(`a job that stands still ${kept ? "ends with what NCCL says of it" : "ends although NCCL's service is silent"}`, async () => {
    const server = standIn(answers);
    await withJob(2, { stall: 500, firstStall: 500 }, async (job) => {
      const clients = await Promise.all([job.rank(0), job.rank(1)]);
      const told = new Promise<string>((resolve) => {
        clients[1].listen((message) => message.is === "error" && resolve(message.error.othersSentence));
      });
      const beat = { step: 12, phase: "forward", still: 60_000, queued: 7, begun: 7, ended: 7 } as const;
      const beats = setInterval(() => clients.forEach((client) => client.send({ is: "beat", beat })), 100);
      const sentence = await told;
      clearInterval(beats);
      assertSentence("core/ranks/nccl/ras: rank node makes", sentence);
      assertEquals(sentence.includes(line), true, sentence);
      assertEquals(sentence.includes("NCCL"), kept);
      const report = job.reports[0].report as { nccl?: string[] };
      assertEquals(report.nccl, kept ? REPORT.trim().split("\n") : undefined);
    }, () => queryRas(server.env, 2000));
    await server.close();
  });
}
