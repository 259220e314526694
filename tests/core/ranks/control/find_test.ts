import { assertEquals, assertMatch, assertNotEquals, assertRejects, assertThrows } from "@std/assert";
import { keysOf, macOf, newNonce, newSecret, secretIn } from "../../../../core/ranks/control/channel.ts";
import { findServer } from "../../../../core/ranks/control/client.ts";
import { openRejectionLog } from "../../../../core/ranks/control/server.ts";
import { SECRET, withJob } from "./job.ts";
import { assertSentence } from "../../../sentences.ts";

const address = (port: number) => ({ hostname: "127.0.0.1", port });

/** A port at which nobody listens. */
function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

Deno.test("every address is tried, and one that says nothing keeps nobody from the next", () =>
  withJob(2, {}, async (job) => {
    using mute = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const addresses = [address(mute.addr.port), address(freePort()), address(job.port)];
    let givenUp = false;
    const asked = mute.accept().then((conn) => {
      const hear = async () => {
        while (await conn.read(new Uint8Array(1024)) !== null);
        givenUp = true;
      };
      hear().catch(() => {}); // it is closed below
      return conn;
    });
    const outlook = { secret: SECRET, addresses, lacking: "" };
    const found = await findServer(() => outlook, performance.now() + 30_000);
    assertEquals([found.address, givenUp], [address(job.port), false]);
    found.channel.close();
    (await asked).close();
  }));

Deno.test("a server that is not found is told with what each address answered", async () => {
  const port = freePort();
  const addresses = [address(port), { hostname: "no-such-host.invalid", port: 9 }];
  const outlook = { secret: SECRET, addresses, lacking: "logs/.rendezvous-x.json is not there" };
  const error = await assertRejects(() => findServer(() => outlook, performance.now() + 300), Error);
  assertMatch(
    error.message,
    new RegExp(
      `^Rank 0 was not found: tried 127.0.0.1:${port} \\(nobody listens there\\), no-such-host.invalid:9 \\(.*\\); ` +
        "logs/.rendezvous-x.json is not there. Does it run",
    ),
  );
});

Deno.test("a rank that is there before rank 0 waits for its file", () =>
  withJob(2, {}, async (job) => {
    let looks = 0;
    const look = () =>
      ++looks < 4
        ? { secret: null, addresses: [], lacking: "not there yet" }
        : { secret: SECRET, addresses: [address(job.port)], lacking: "" };
    (await findServer(look, performance.now() + 9000)).channel.close();
    assertEquals(looks, 4);
  }));

Deno.test("keys differ by direction and by connection, MACs by counter", () => {
  const [a, b] = [newNonce(), newNonce()];
  const keys = keysOf(SECRET, a, b);
  assertNotEquals(keys.toServer, keys.toClient);
  assertNotEquals(keys.toServer, keysOf(SECRET, b, a).toServer);
  assertNotEquals(macOf(keys.toServer, 0, a), macOf(keys.toServer, 1, a));
});

Deno.test("a secret that could be guessed is refused with the line that makes a good one", () => {
  assertEquals(secretIn({}), null);
  const error = assertThrows(() => secretIn({ HPCTRAIN_SECRET: "1234" })) as Error;
  assertSentence("core/ranks/control/find: characters least expected", error.message);
  assertMatch(newSecret(), /^[0-9a-f]{64}$/);
  assertNotEquals(newSecret(), newSecret());
});

Deno.test("of the same kind of stranger there is a line at once, and later one that counts", () => {
  const lines: string[] = [];
  let now = 0;
  const tell = openRejectionLog((line) => lines.push(line), () => now);
  for (let i = 0; i < 100; i++) tell("stranger", "10.0.0.1");
  tell("secret", "10.0.0.2");
  assertEquals(lines.length, 2);
  now = 31_000;
  tell("stranger", "10.0.0.3");
  assertMatch(
    lines[2],
    /^The rendezvous port refused a connection from 10.0.0.3, .* \(and 99 times more since/,
  );
});
