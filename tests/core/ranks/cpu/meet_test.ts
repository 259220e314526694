// Ranks that connect by TCP while strangers try to be one of them.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { accept, closeSocket, listen, sendBytes } from "../../../../ffi/ranks/tcp.ts";
import type { TcpPeer } from "../../../../core/ranks/cpu/tcp.ts";
import type { Outcome } from "./meet_thread.ts";
import { sentenceNamed } from "../../../sentences.ts";

const KEY = new Uint8Array(32).fill(7);
closeSocket(listen(true)!.descriptor); // the library stays open, once it is

interface Job {
  readonly ports: readonly number[];
  readonly listeners: readonly number[];
  /** Lets this rank meet the others. */
  begin(
    rank: number,
    more?: { key?: Uint8Array; patience?: number; peers?: readonly TcpPeer[] },
  ): Promise<Outcome>;
}

function job(world: number): Job {
  const listeners = Array.from({ length: world }, () => listen(true)!);
  const peers = listeners.map(({ port }, of) => ({
    name: `rank ${of} on here`,
    addresses: ["127.0.0.1"],
    port,
  }));
  return {
    ports: listeners.map(({ port }) => port),
    listeners: listeners.map(({ descriptor }) => descriptor),
    begin(rank, more = {}) {
      const thread = new Worker(new URL("./meet_thread.ts", import.meta.url), { type: "module" });
      const outcome = new Promise<Outcome>((resolve, reject) => {
        thread.onmessage = ({ data }) => resolve(data);
        thread.onerror = (event) => {
          event.preventDefault();
          reject(new Error(event.message));
        };
      });
      const listener = listeners[rank].descriptor;
      thread.postMessage({ rank, peers, listener, key: KEY, patience: 30_000, ...more });
      return outcome.finally(() => thread.terminate());
    },
  };
}

const sums = (outcomes: readonly Outcome[]) => outcomes.map(({ sum, failed }) => failed || sum);

/** Connects, and says this. */
async function stranger(port: number, says: Uint8Array): Promise<Deno.TcpConn> {
  const conn = await Deno.connect({ hostname: "127.0.0.1", port });
  await conn.write(says);
  return conn;
}

/** What a rank would say, of whatever number, without the key. */
function claim(rank: number): Uint8Array {
  const bytes = new Uint8Array(8 + 4 + 32 + 32).fill(9);
  bytes.set(new TextEncoder().encode("HPCT1\n\0\0"));
  new DataView(bytes.buffer).setUint32(8, rank);
  return bytes;
}

const shut = (conns: readonly Deno.TcpConn[]) => conns.forEach((conn) => conn.close());

Deno.test("4 ranks connect with each other, in whatever order they come", async () => {
  const { begin } = job(4);
  const outcomes: Promise<Outcome>[] = [];
  for (const rank of [3, 1, 0, 2]) {
    outcomes[rank] = begin(rank);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assertEquals(sums(await Promise.all(outcomes)), [1111, 1111, 1111, 1111]);
});

Deno.test("strangers that say nonsense, nothing, half of it, or that they are rank 1, are no rank; one line tells of them", async () => {
  const { ports: [port], begin } = job(2);
  const zero = begin(0);
  const words = [
    new Uint8Array(0),
    Uint8Array.of(1),
    new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n".repeat(9)),
    claim(1),
    Uint8Array.of(...claim(1), 71), // and acts as if it had been believed
  ];
  const first = await Promise.all(
    [...words, claim(0), claim(7), claim(1).subarray(0, 50)].map((says) => stranger(port, says)),
  );
  // These are heard out before so many come that the oldest have to go.
  const ends = first.slice(2, 7).map((conn) => conn.readable.pipeTo(new WritableStream()).catch(() => {}));
  await Promise.all(ends);
  const crowd = await Promise.all(Array.from({ length: 100 }, () => stranger(port, new Uint8Array(0))));
  await new Promise((resolve) => setTimeout(resolve, 300));
  const one = begin(1);
  const outcomes = await Promise.all([zero, one]);
  shut([...first.slice(0, 2), ...first.slice(7), ...crowd]);
  assertEquals(sums(outcomes), [11, 11]);
  assertEquals(outcomes[0].said, [
    sentenceNamed("core/ranks/cpu/meet: port ranks connect"),
  ]);
});

Deno.test("when all have met, the port is closed", async () => {
  const { ports: [port], begin } = job(2);
  assertEquals(sums(await Promise.all([begin(0), begin(1)])), [11, 11]);
  const late = await Deno.connect({ hostname: "127.0.0.1", port }).then(
    (conn) => conn.close(),
    (error) => error.name,
  );
  assertEquals(late, "ConnectionRefused");
});

Deno.test("a rank with another key is refused, and both say in time whom they could not reach", async () => {
  const { begin } = job(2);
  const outcomes = await Promise.all([
    begin(0, { patience: 1500 }),
    begin(1, { patience: 1500, key: new Uint8Array(32) }),
  ]);
  assertMatch(
    outcomes[0].failed,
    /^Rank 0 on here could not connect with rank 1 on here within 2 s: it did not come to port \d+ of 127\.0\.0\.1\./,
  );
  assertMatch(
    outcomes[1].failed,
    /^Rank 1 on here could not connect with rank 0 on here within 2 s at 127\.0\.0\.1, port \d+\..* firewall/,
  );
});

Deno.test("a server that is not rank 0 learns nothing and is left for the next address", async () => {
  const { ports, begin } = job(2);
  // At another address of this host, at the same port, somebody else.
  using other = Deno.listen({ hostname: "127.0.0.2", port: ports[0] });
  const serve = (async () => {
    for await (const conn of other) {
      await conn.write(new Uint8Array(32));
      const claimed = new Uint8Array(200);
      await conn.read(claimed);
      await conn.write(new Uint8Array(32));
      conn.close();
      return claimed;
    }
  })();
  const peers = ports.map((port, of) => ({
    name: `rank ${of} on here`,
    addresses: of === 0 ? ["203.0.113.1", "127.0.0.2", "127.0.0.1"] : ["127.0.0.1"],
    port,
  }));
  const outcomes = await Promise.all([begin(0), begin(1, { peers })]);
  assertEquals(sums(outcomes), [11, 11]);
  const claimed = await serve;
  assert(claimed!.length > 0);
  assert(!claimed!.join().includes(KEY.join()), "the key is never sent");
});

for (
  const [how, says, sentence] of [
    ["says nothing and closes", [], "was cut"],
    ["closes in the midst of a header", [0, 0, 0], "was cut in the middle of a message"],
    ["speaks of another message", Array(16).fill(3), "brings message 50529027 of "],
  ] as const
) {
  Deno.test(`a rank that connects, ${how}: the others name it`, async () => {
    const listener = listen(true)!;
    const thread = new Worker(new URL("./broken_thread.ts", import.meta.url), { type: "module" });
    const failed = new Promise<string>((resolve) => thread.onmessage = ({ data }) => resolve(data));
    thread.postMessage(listener.port);
    let come;
    while ((come = accept(listener.descriptor)) === null) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    sendBytes(come.descriptor, Uint8Array.from(says));
    await new Promise((resolve) => setTimeout(resolve, 50));
    closeSocket(come.descriptor);
    closeSocket(listener.descriptor);
    assertMatch(await failed, new RegExp(`^LostRank: the connection with rank 1 on there ${sentence}`));
    thread.terminate();
  });
}
