// The supervisors of several nodes pass on to each other what their ranks have to know: the first node's listens, and each proves
// that it has the job's secret. May import control, errors.
import { type Channel, close as closeConnection, encode, greetClient } from "../control/channel.ts";
import { MAKE_SECRET, type Secret, secretIn } from "../control/auth.ts";
import { findServer } from "../control/find.ts";
import { UserError } from "../../errors.ts";

/** What ranks put there: a name and a value each. */
export type Entries = readonly (readonly [string, string])[];

export interface Exchange {
  /** Gives the entries of all nodes, when each has given its own; as often as one likes. */
  all(mine: Entries): Promise<Entries>;
  close(): void;
}

export interface ExchangeOptions {
  readonly node: number;
  readonly nodes: number;
  /** Where the first node's supervisor listens. */
  readonly master: { readonly host: string; readonly port: number };
  readonly secret: Secret;
  /** Milliseconds to wait for the first node. */
  readonly patience?: number;
}

const PATIENCE_MS = 600_000;

/** Without it anybody on the network could give ranks wrong addresses. */
export function secretOf(env: { readonly HPCTRAIN_SECRET?: string }): Secret {
  const secret = secretIn(env);
  if (secret) return secret;
  throw new UserError(
    "usage",
    "Ranks on CPUs of several nodes need HPCTRAIN_SECRET, the same on each node, by which they know each other. Make one " +
      `(${MAKE_SECRET}) and export it on every node.`,
  );
}

export const openExchange = (options: ExchangeOptions): Exchange =>
  options.node === 0 ? openFirst(options) : openOther(options);

/** Gathers what the nodes send; who comes again has lost its connection and its ranks. */
function openFirst({ nodes, master: { port }, secret }: ExchangeOptions): Exchange {
  let listener: Deno.TcpListener;
  try {
    listener = Deno.listen({ hostname: "0.0.0.0", port });
  } catch (error) {
    if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    throw new UserError(
      "communication",
      `Port ${port} of --rendezvous is taken on this node: name another one, on every node.`,
      { cause: error },
    );
  }
  const channels = new Map<number, Channel>();
  const open = new Set<Deno.TcpConn>();
  const given = new Map<number, Entries>();
  let mine: ((all: Entries) => void) | null = null;
  const give = (node: number, entries: Entries) => {
    given.set(node, entries);
    if (given.size < nodes) return;
    const all = [...given.values()].flat();
    given.clear();
    for (const channel of channels.values()) channel.send(encode(all));
    mine?.(all);
  };
  const serve = async (conn: Deno.TcpConn) => {
    open.add(conn);
    try {
      const channel = await greetClient(conn, secret);
      for (let message = await channel.receive(); message !== null; message = await channel.receive()) {
        const { node, entries } = message as { node: number; entries: Entries };
        channels.set(node, channel);
        give(node, entries);
      }
    } finally {
      open.delete(conn);
      closeConnection(conn);
    }
  };
  (async () => {
    for await (const conn of listener) serve(conn).catch(() => {}); // a stranger, or a node that has ended
  })().catch(() => {}); // closed
  return {
    all: (entries) =>
      new Promise((resolve) => {
        mine = resolve;
        give(0, entries);
      }),
    close() {
      listener.close();
      open.forEach(closeConnection);
    },
  };
}

function openOther(
  { node, master: { host, port }, secret, patience = PATIENCE_MS }: ExchangeOptions,
): Exchange {
  const address = { hostname: host, port };
  let channel: Channel | null = null;
  return {
    async all(entries) {
      channel ??= (await findServer(
        () => ({ secret, addresses: [address], lacking: "" }),
        performance.now() + patience,
      )).channel;
      channel.send(encode({ node, entries }));
      const all = await channel.receive();
      if (all === null) {
        throw new UserError("communication", `The supervisor of the first node (${host}) has ended.`);
      }
      return all as Entries;
    },
    close: () => channel?.close(),
  };
}
