// The PMI that ranks of several nodes are served by their supervisors: real sockets, a library's requests by hand.
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { type Exchange, openExchange, Pmi, secretOf } from "../../../../core/ranks/launch/pmi.ts";
import { UserError } from "../../../../core/base/errors.ts";

const secret = new TextEncoder().encode("a secret of this test");

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return (listener.addr as Deno.NetAddr).port;
}

/** What a rank's library does at its start. */
async function connect(pmi: Pmi, id: number) {
  const [hostname, port] = pmi.env(id).PMI_PORT.split(":");
  const connection = await Deno.connect({ hostname, port: Number(port) });
  const reader = connection.readable.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  const line = async (): Promise<string | null> => {
    while (!rest.includes("\n")) {
      const { value, done } = await reader.read();
      if (done) return null;
      rest += value;
    }
    const [first, ...others] = rest.split("\n");
    rest = others.join("\n");
    return first;
  };
  const ask = async (request: string) => {
    await connection.write(new TextEncoder().encode(request + "\n"));
    return await line();
  };
  const close = () => {
    try {
      connection.close();
    } catch { /* the other side was first */ }
  };
  return { ask, line, close };
}

const greeted = async (pmi: Pmi, id: number) => {
  const rank = await connect(pmi, id);
  assertEquals(await rank.ask(`cmd=initack pmiid=${id}`), "cmd=initack rc=0");
  for (const is of ["size=4", `rank=${id}`, "debug=0"]) assertEquals(await rank.line(), `cmd=set ${is}`);
  return rank;
};

/** Two nodes of two ranks each. */
function twoNodes(other = secret, failed: (error: unknown) => void = () => {}): [Pmi, Pmi] {
  const master = { host: "127.0.0.1", port: freePort() };
  const of = (node: number, secret: Uint8Array) =>
    new Pmi({
      ranks: [2 * node, 2 * node + 1],
      world: 4,
      nodes: 2,
      failed,
      exchange: openExchange({ node, nodes: 2, master, secret, patience: 3000 }),
    });
  return [of(0, secret), of(1, other)];
}

Deno.test("what a rank puts is known on every node after the barrier, again and again", async () => {
  const nodes = twoNodes();
  const ranks = await Promise.all([0, 1, 2, 3].map((id) => greeted(nodes[id >> 1], id)));
  assertMatch((await ranks[0].ask("cmd=get_my_kvsname"))!, /kvsname=hpctrain/);
  assertEquals(
    await ranks[3].ask("cmd=get kvsname=hpctrain key=PMI_process_mapping"),
    "cmd=get_result rc=0 msg=success value=(vector,(0,2,2))",
  );
  for (const round of ["a", "b"]) {
    for (const [id, rank] of ranks.entries()) {
      assertEquals(
        await rank.ask(`cmd=put kvsname=hpctrain key=${round}-${id} value=here#${id}$x=y`),
        "cmd=put_result rc=0 msg=success",
      );
    }
    const out = await Promise.all(ranks.map((rank) => rank.ask("cmd=barrier_in")));
    assertEquals(out, Array(4).fill("cmd=barrier_out rc=0"));
    for (const [id, rank] of ranks.entries()) {
      assertEquals(
        await rank.ask(`cmd=get kvsname=hpctrain key=${round}-${3 - id}`),
        `cmd=get_result rc=0 msg=success value=here#${3 - id}$x=y`,
      );
    }
  }
  assertMatch((await ranks[1].ask("cmd=get kvsname=hpctrain key=none"))!, /rc=-1/);
  assertMatch((await ranks[1].ask("cmd=spawn"))!, /rc=-1/);
  for (const rank of ranks) {
    assertEquals(await rank.ask("cmd=finalize"), "cmd=finalize_ack rc=0");
    rank.close();
  }
  nodes.forEach((node) => node.close());
});

Deno.test("a stranger, a rank of another node and a second one of the same number are turned away", async () => {
  const alone: Exchange = { all: (mine) => Promise.resolve(mine), close() {} };
  const pmi = new Pmi({ ranks: [2, 3], world: 4, nodes: 1, exchange: alone, failed() {} });
  const own = await greeted(pmi, 2);
  for (
    const request of ["GET / HTTP/1.1", "cmd=initack pmiid=0", "cmd=initack pmiid=2", "x".repeat(100_000)]
  ) {
    const other = await connect(pmi, 2);
    assertEquals(await other.ask(request).catch(() => null), null);
    other.close();
  }
  assertMatch((await own.ask("cmd=get_maxes"))!, /rc=0/);
  own.close();
  pmi.close();
});

Deno.test({
  name: "another user of the machine is turned away (needs root)",
  ignore: Deno.uid() !== 0,
  fn: async () => {
    const alone: Exchange = { all: (mine) => Promise.resolve(mine), close() {} };
    const pmi = new Pmi({ ranks: [0], world: 1, nodes: 1, exchange: alone, failed() {} });
    const [, port] = pmi.env(0).PMI_PORT.split(":");
    const talk = `exec 3<>/dev/tcp/127.0.0.1/${port}; echo cmd=initack pmiid=0 >&3; head -n 1 <&3`;
    const as = async (...user: string[]) => {
      const [program, ...args] = [...user, "bash", "-c", talk];
      const { stdout } = await new Deno.Command(program, { args, stderr: "null" }).output();
      return new TextDecoder().decode(stdout);
    };
    assertEquals(await as("setpriv", "--reuid=65534", "--clear-groups"), "");
    assertEquals(await as("env"), "cmd=initack rc=0\n");
    pmi.close();
  },
});

Deno.test("a node with another secret gets nothing, and the others wait on", async () => {
  const reasons: string[] = [];
  const nodes = twoNodes(
    new TextEncoder().encode("the secret of another job"),
    (error) => reasons.push((error as Error).message),
  );
  const ranks = await Promise.all([2, 3].map((id) => greeted(nodes[1], id)));
  // Its library finds its launcher gone.
  assertEquals(await Promise.all(ranks.map((rank) => rank.ask("cmd=barrier_in"))), [null, null]);
  assertMatch(reasons.join(), /secret/);
  ranks.forEach((rank) => rank.close());
  nodes.forEach((node) => node.close());
});

Deno.test("without a secret, and with a port that is taken, the sentence says what to do", () => {
  assertMatch(assertThrows(() => secretOf({}), UserError).message, /HPCTRAIN_SECRET.*export/);
  using taken = Deno.listen({ hostname: "0.0.0.0", port: 0 });
  const { port } = taken.addr as Deno.NetAddr;
  const open = () => openExchange({ node: 0, nodes: 2, master: { host: "127.0.0.1", port }, secret });
  assertMatch(assertThrows(open, UserError).message, new RegExp(`Port ${port} of --rendezvous is taken`));
});

Deno.test("of many who never say which rank they are, the oldest are turned away, and a rank still comes in", async () => {
  const alone: Exchange = { all: (mine) => Promise.resolve(mine), close() {} };
  const pmi = new Pmi({ ranks: [0], world: 1, nodes: 1, exchange: alone, failed() {} });
  const strangers = await Promise.all(Array.from({ length: 100 }, () => connect(pmi, 0)));
  assertEquals(await strangers[0].line().catch(() => null), null);
  const own = await connect(pmi, 0);
  assertEquals(await own.ask("cmd=initack pmiid=0"), "cmd=initack rc=0");
  strangers.forEach(({ close }) => close());
  own.close();
  pmi.close();
});
