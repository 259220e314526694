// The PMI-1 server that MPICH's family of libraries expects of its launcher. Supervisors exchange its
// entries, so ranks on several nodes meet without MPI's own launcher.
import {
  type Channel,
  closeConnection,
  encode,
  greetClient,
  MAKE_SECRET,
  type Secret,
  secretIn,
} from "../control/channel.ts";
import { findServer } from "../control/client.ts";
import { UserError } from "../../base/errors.ts";

interface PmiOptions {
  readonly ranks: readonly number[];
  readonly world: number;
  readonly nodes: number;
  readonly exchange: Exchange;
  readonly failed: (error: unknown) => void;
}

const SPACE = "hpctrain";
const LONGEST_NAME = 64, LONGEST_VALUE = 1024;
/** No request of the library's is longer. */
const LONGEST_LINE = 4 * LONGEST_VALUE;

/** So many connections at once may leave it open who they are, beside the ranks that still have to come. */
const STRANGERS = 64, STRANGER_MS = 30_000;

export class Pmi {
  readonly #ranks: readonly number[];
  readonly #world: number;
  readonly #exchange: Exchange;
  readonly #failed: (error: unknown) => void;
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #connections = new Map<number, Deno.Conn>();
  /** Whoever has not said which rank it is. A rank's library does so at once, so the oldest of many is none. */
  readonly #strangers = new Set<Deno.Conn>();
  /** `get` finds these: the entries of all ranks as of the last barrier. */
  readonly #known: Map<string, string>;
  /** These ranks have put it since. */
  #put: [string, string][] = [];
  /** Each lets a rank go that has come to the barrier. */
  #waiting: (() => void)[] = [];
  #closed = false;

  constructor({ ranks, world, nodes, exchange, failed }: PmiOptions) {
    this.#ranks = ranks;
    this.#world = world;
    this.#exchange = exchange;
    this.#failed = failed;
    this.#known = new Map([["PMI_process_mapping", `(vector,(0,${nodes},${ranks.length}))`]]);
    this.#accept().catch(() => {}); // closed
  }

  env(rank: number): Record<string, string> {
    return {
      PMI_PORT: `127.0.0.1:${(this.#listener.addr as Deno.NetAddr).port}`,
      PMI_ID: String(rank),
      PMI_RANK: String(rank),
      PMI_SIZE: String(this.#world),
    };
  }

  close(): void {
    this.#closed = true;
    this.#listener.close();
    this.#strangers.forEach(closeQuietly);
    this.#exchange.close();
  }

  async #accept(): Promise<void> {
    for await (const connection of this.#listener) {
      if (!isOwn(connection)) {
        closeQuietly(connection);
        continue;
      }
      const strangers = this.#strangers;
      if (strangers.size >= STRANGERS + this.#ranks.length) closeQuietly(strangers.values().next().value!);
      strangers.add(connection);
      this.#serve(connection).catch(() => {}); // it has ended
    }
  }

  async #serve(connection: Deno.Conn): Promise<void> {
    const patience = setTimeout(() => closeQuietly(connection), STRANGER_MS);
    const isKnown = () => {
      clearTimeout(patience);
      this.#strangers.delete(connection);
    };
    try {
      await this.#answerLines(connection, isKnown);
    } finally {
      isKnown();
    }
  }

  async #answerLines(connection: Deno.Conn, isRank: () => void): Promise<void> {
    const say = (...lines: string[]) => write(connection, lines.map((line) => `${line}\n`).join(""));
    let rank: number | null = null;
    for await (const line of linesOf(connection)) {
      const fields = fieldsOf(line);
      if (rank === null) {
        rank = fields.cmd === "initack" ? Number(fields.pmiid) : NaN;
        // None of ours.
        if (!this.#ranks.includes(rank) || this.#connections.has(rank)) return closeQuietly(connection);
        this.#connections.set(rank, connection);
        isRank();
        await say(
          "cmd=initack rc=0",
          `cmd=set size=${this.#world}`,
          `cmd=set rank=${rank}`,
          "cmd=set debug=0",
        );
      } else if (fields.cmd === "barrier_in") {
        this.#barrier(() => void say("cmd=barrier_out rc=0").catch(() => {}));
      } else await say(this.#answer(fields) ?? `cmd=${fields.cmd}_result rc=-1 msg=unknown_command`);
    }
  }

  /** Null for what no training run needs. */
  #answer({ cmd, key = "", value = "" }: Record<string, string>): string | null {
    switch (cmd) {
      case "init":
        return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
      case "get_maxes":
        return `cmd=maxes kvsname_max=${LONGEST_NAME} keylen_max=${LONGEST_NAME} vallen_max=${LONGEST_VALUE} rc=0`;
      case "get_appnum":
        return "cmd=appnum appnum=0 rc=0";
      case "get_my_kvsname":
        return `cmd=my_kvsname kvsname=${SPACE} rc=0`;
      case "get_universe_size":
        return `cmd=universe_size size=${this.#world} rc=0`;
      case "put":
        this.#put.push([key, value]);
        return "cmd=put_result rc=0 msg=success";
      case "get":
        return this.#known.has(key)
          ? `cmd=get_result rc=0 msg=success value=${this.#known.get(key)}`
          : "cmd=get_result rc=-1 msg=key_not_found value=unknown";
      case "finalize":
        return "cmd=finalize_ack rc=0";
      default:
        return null;
    }
  }

  /** The last rank of this node to come exchanges what all have put, and all go on. */
  async #barrier(go: () => void): Promise<void> {
    this.#waiting.push(go);
    if (this.#waiting.length < this.#ranks.length) return;
    const mine = this.#put, waiting = this.#waiting;
    this.#put = [];
    this.#waiting = [];
    try {
      for (const [name, value] of await this.#exchange.all(mine)) this.#known.set(name, value);
      waiting.forEach((pass) => pass());
    } catch (error) {
      if (this.#closed) return;
      this.#failed(error);
      this.#connections.forEach(closeQuietly); // their library tells them that its launcher has gone
    }
  }
}

/** Other users on this machine can connect too; the kernel knows the peer's user. */
function isOwn(connection: Deno.Conn): boolean {
  const end = (address: Deno.Addr) =>
    `0100007F:${(address as Deno.NetAddr).port.toString(16).toUpperCase().padStart(4, "0")}`;
  const from = end(connection.remoteAddr), to = end(connection.localAddr);
  try {
    const table = Deno.readTextFileSync("/proc/net/tcp").split("\n").map((line) => line.trim().split(/\s+/));
    return Number(table.find(([, local, remote]) => local === from && remote === to)?.[7]) === Deno.uid();
  } catch {
    return true; // a system that does not tell
  }
}

/** "cmd=put kvsname=x key=a value=b". */
const fieldsOf = (line: string): Record<string, string> =>
  Object.fromEntries(
    line.trim().split(/\s+/).map((word) => {
      const at = word.indexOf("=");
      return [word.slice(0, at), word.slice(at + 1)];
    }),
  );

async function* linesOf(connection: Deno.Conn): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of connection.readable) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop()!;
    if (rest.length > LONGEST_LINE) return closeQuietly(connection);
    yield* lines;
  }
}

function closeQuietly(connection: Deno.Conn): void {
  try {
    connection.close();
  } catch { /* closed before */ }
}

async function write(connection: Deno.Conn, text: string): Promise<void> {
  const bytes = new TextEncoder().encode(text);
  for (let done = 0; done < bytes.length;) done += await connection.write(bytes.subarray(done));
}

type Entries = readonly (readonly [string, string])[];

export interface Exchange {
  /** Gives the entries of all nodes, when each has given its own; it may be called again. */
  all(mine: Entries): Promise<Entries>;
  close(): void;
}

interface ExchangeOptions {
  readonly node: number;
  readonly nodes: number;
  readonly master: { readonly host: string; readonly port: number };
  readonly secret: Secret;
  readonly patience?: number;
}

const PATIENCE_MS = 600_000;

/** Without the secret anybody on the network could give ranks wrong addresses. */
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
  options.node === 0 ? openFirstNode(options) : openOtherNode(options);

/** A node that comes again has lost its connection and its ranks. */
function openFirstNode({ nodes, master: { port }, secret }: ExchangeOptions): Exchange {
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

function openOtherNode(
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
