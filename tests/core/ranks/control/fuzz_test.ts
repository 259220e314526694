// Whatever comes to the rendezvous port, the job goes on, and the log has a line of each kind.
import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  encode,
  frame,
  frameReader,
  greetServer,
  MAC_BYTES,
} from "../../../../core/ranks/control/channel.ts";
import { uniform } from "../../../../core/base/random.ts";
import { refusal, SECRET, type TestJob, withJob } from "./job.ts";

const nonce = () => frame({ payload: new Uint8Array(32), mac: new Uint8Array(MAC_BYTES) });

async function connected(port: number, use: (conn: Deno.TcpConn) => Promise<void>): Promise<void> {
  const conn = await Deno.connect({ hostname: "127.0.0.1", port });
  try {
    await use(conn);
  } catch {
    // The server may have hung up at once.
  } finally {
    conn.close();
  }
}

/** Until the server hangs up. */
async function hungUp(conn: Deno.TcpConn): Promise<void> {
  const bytes = new Uint8Array(1024);
  while (await conn.read(bytes) !== null);
}

async function stillWorks(job: TestJob): Promise<void> {
  const clients = await Promise.all([0, 1].map((rank) => job.rank(rank)));
  assertEquals(clients.map(({ hosts }) => hosts.length), [2, 2]);
}

const line = (job: TestJob, kind: RegExp) => {
  const found = job.lines.filter((line) => kind.test(line));
  assert(found.length === 1, `${found.length} lines for ${kind}: ${job.lines.join("\n")}`);
};

Deno.test("a rank with another secret is turned away, is told so, and leaves a line in the log", () =>
  withJob(2, {}, async (job) => {
    const wrong = new TextEncoder().encode("another secret of these tests....");
    assertMatch(
      await refusal(job.rank(1, {}, undefined, wrong)),
      /^The server at 127.0.0.1:\d+ has another secret than this rank: it is another job's, or HPCTRAIN_SECRET differs/,
    );
    line(job, /refused a connection from 127.0.0.1, which sent what another secret was used for/);
    await stillWorks(job);
  }));

Deno.test("strangers, garbage, half messages and oversized ones leave a line each, and slow ones are cut off", () =>
  withJob(2, {}, async (job) => {
    const text = (text: string) => new TextEncoder().encode(text);
    await connected(job.port, async (conn) => {
      await conn.write(text("GET / HTTP/1.1\r\nHost: node0\r\n\r\n"));
      await hungUp(conn);
    });
    line(job, /sent something that is no rank of hpctrain/);
    await connected(job.port, async (conn) => {
      await conn.write(Uint8Array.of(...text("HPC1"), 0xff, 0xff, 0xff, 0xff));
      await hungUp(conn);
    });
    line(job, /sent a message that is longer than any of ours/);
    await connected(job.port, async (conn) => {
      await conn.write(nonce().subarray(0, 20));
      await conn.closeWrite();
      await hungUp(conn);
    });
    line(job, /sent half of a message/);
    const began = performance.now();
    await connected(job.port, async (conn) => {
      // One byte every now and then never completes anything.
      const drip = setInterval(() => conn.write(Uint8Array.of(0)).catch(() => {}), 1000);
      await conn.write(text("HPC1"));
      await hungUp(conn).finally(() => clearInterval(drip));
    });
    assert(performance.now() - began < 30_000); // it would go on for ever
    line(job, /sent nothing in time/);
    await stillWorks(job);
  }));

Deno.test("a rank whose proof is read late, as a thousand came at once, is none of the slow ones", () =>
  withJob(2, {}, async (job) => {
    await connected(job.port, async (conn) => {
      let writes = 0;
      const late = new Proxy(conn, {
        get: (target, name) =>
          name === "write"
            ? async (bytes: Uint8Array) => {
              if (writes++ > 0) await new Promise((resolve) => setTimeout(resolve, 6000));
              return await target.write(bytes);
            }
            : Reflect.get(target, name, target)?.bind?.(target),
      });
      const channel = await greetServer(late, SECRET);
      await channel.flushed();
      await new Promise((resolve) => setTimeout(resolve, 500));
    });
    assertEquals(job.lines, []);
    await stillWorks(job);
  }));

Deno.test("a message that is longer than allowed, repeated or changed ends only its own connection", () =>
  withJob(2, {}, async (job) => {
    // What one authenticated connection sent is worth nothing on another.
    const sent: Uint8Array[] = [];
    await connected(job.port, async (conn) => {
      const spy = new Proxy(conn, {
        get: (target, name) =>
          name === "write" ? (bytes: Uint8Array) => (sent.push(bytes.slice()), target.write(bytes)) : Reflect
            .get(target, name, target)?.bind?.(target),
      });
      const channel = await greetServer(spy, SECRET);
      channel.send(encode({ is: "nothing that is known" }));
      await channel.flushed();
    });
    await connected(job.port, async (conn) => {
      for (const bytes of sent) await conn.write(bytes);
      await frameReader(conn).next(1000);
      await hungUp(conn);
    });
    line(job, /what another secret was used for/);
    await stillWorks(job);
  }));

Deno.test("10,000 connections with random frames leave the server as it was", () =>
  withJob(2, {}, async (job) => {
    const random = uniform(77n);
    let at = 0;
    const next = (below: number) => Math.floor(random(at++) * below);
    const noise = (length: number) => Uint8Array.from({ length }, () => next(256));
    const kinds = [
      () => noise(next(200)),
      () => Uint8Array.of(...new TextEncoder().encode("HPC1"), ...noise(next(100))),
      () => frame({ payload: noise(next(300)), mac: noise(MAC_BYTES) }),
      () => Uint8Array.of(...nonce(), ...frame({ payload: noise(next(200)), mac: noise(MAC_BYTES) })),
      () => nonce().subarray(0, next(70)),
    ];
    const each = Math.floor(10_000 / 16);
    await Promise.all(Array.from({ length: 16 }, async () => {
      for (let i = 0; i < each; i++) {
        await connected(job.port, async (conn) => {
          await conn.write(kinds[next(kinds.length)]());
          await conn.closeWrite();
          await hungUp(conn);
        });
      }
    }));
    assert(job.lines.length < 12, `${job.lines.length} lines`);
    await stillWorks(job);
  }));

Deno.test("a crowd that says nothing keeps no rank out", () =>
  withJob(2, {}, async (job) => {
    const began = performance.now();
    const crowd = await Promise.all(
      Array.from({ length: 200 }, () => Deno.connect({ hostname: "127.0.0.1", port: job.port })),
    );
    const place = hungUp(crowd[0]).then(() => performance.now() - began);
    await stillWorks(job);
    line(job, /too many like it: the oldest was closed/);
    assert(await place < 4500, "it had its place for as long as one who is alone");
    for (const conn of crowd) conn.close();
  }));
