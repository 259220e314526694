// A rank's end of its connection to the server.
import { UserError } from "../../base/errors.ts";
import {
  type Channel,
  type ChannelFault,
  closeConnection,
  connectionKey,
  CROWD_MS,
  encode,
  FrameError,
  greetServer,
  type Secret,
} from "./channel.ts";
import { type Address, addressText } from "./rendezvous.ts";
import { wholeSeconds } from "./hang.ts";
import { commonFailure, type FirstError, JobFailed } from "./failure.ts";
import { type Hello, type Settings, type ToRank, type ToServer, unrolled } from "./messages.ts";

export interface Client {
  /** By rank. */
  readonly hosts: readonly string[];
  readonly address: Address;
  /** Only this job's ranks know it, and it is never sent. */
  readonly key: Uint8Array;
  readonly ends: FoundServer["ends"];
  send(message: ToServer): void;
  flushed(): Promise<void>;
  /** Lasts until the connection ends; true after a goodbye. */
  listen(receive: (message: ToRank) => void): Promise<boolean>;
  silence(): number;
  close(): void;
}

interface JoinOptions {
  readonly hello: Hello;
  /** Sent when its hash differs from rank 0's, so that the server can name the difference. */
  readonly settings: Settings;
  find(): ServerCandidates;
  /** Milliseconds for finding the server, and for its silence. */
  readonly arrive: number;
  readonly silence: number;
}

export async function join(options: JoinOptions): Promise<Client> {
  const { hello, settings } = options;
  const { channel, address, secret, ends } = await findServer(
    options.find,
    performance.now() + options.arrive,
    hello.world,
  );
  const send = (message: ToServer) => channel.send(encode(message));
  let lastMessage = performance.now();
  const receive = async () => {
    const message = await channel.receive().catch(() => null) as ToRank | null;
    lastMessage = performance.now();
    return message;
  };
  send({ is: "hello", hello });
  const sendSettings = () => send({ is: "settings", settings });
  const hosts = await seated(receive, sendSettings, channel, options.silence, hello.rank)
    .catch((error) => {
      channel.close();
      throw error;
    });
  return {
    hosts,
    address,
    key: connectionKey(secret),
    ends,
    send,
    flushed: channel.flushed,
    async listen(pass) {
      for (let message; (message = await receive());) {
        if (message.is === "goodbye") return true;
        pass(message);
      }
      return false;
    },
    silence: () => performance.now() - lastMessage,
    close: channel.close,
  };
}

async function seated(
  receive: () => Promise<ToRank | null>,
  sendSettings: () => void,
  channel: Channel,
  silence: number,
  rank: number,
): Promise<readonly string[]> {
  let timer = 0;
  const again = () => {
    clearTimeout(timer);
    timer = setTimeout(() => channel.close(), silence);
  };
  try {
    for (again();; again()) {
      const message = await receive();
      if (message === null) {
        const why = `is gone before all had come, or silent for ${wholeSeconds(silence)}`;
        throw new JobFailed(zeroIsGone("", why), rank);
      }
      if (message.is === "hosts") return unrolled(message.hosts);
      if (message.is === "error") throw new JobFailed(message.error, rank);
      if (message.is === "settings?") sendSettings();
    }
  } finally {
    clearTimeout(timer);
  }
}

export function zeroIsGone(host: string, why: string): FirstError {
  const sentence = `Rank 0${host && ` on ${host}`} ${why}: look at its own output first.`;
  return commonFailure({ rank: 0, host }, { kind: "lost" }, sentence, { namesRank: host !== "" });
}

export interface ServerCandidates {
  readonly secret: Secret | null;
  readonly addresses: readonly Address[];
  readonly lacking: string;
}

interface FoundServer {
  readonly channel: Channel;
  readonly secret: Secret;
  readonly address: Address;
  readonly ends: { readonly own: string; readonly server: string };
}

/** The next address is tried when this one has not answered after so long. */
const STAGGER_MS = 300;
const CONNECT_MS = 4000;
const FIRST_PAUSE_MS = 50, LONGEST_PAUSE_MS = 1000;
/** An answer with another secret may come from the job before, which is just ending. */
const OTHER_SECRET_MS = 5000;

export async function findServer(
  find: () => ServerCandidates,
  deadline: number,
  world = 2,
): Promise<FoundServer> {
  const crowd = CROWD_MS * world;
  const answers = new Map<string, string>();
  let otherSecret: { readonly since: number; readonly address: string } | null = null;
  let lacking = "";
  for (let pause = FIRST_PAUSE_MS;; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    const outlook = find();
    lacking = outlook.lacking;
    if (outlook.secret) {
      const round = await tryAll(outlook.addresses, outlook.secret, crowd);
      if (round.found) return round.found;
      for (const { address, why } of round.failures) answers.set(addressText(address), faultText(why));
      const stranger = round.failures.find(({ why }) => why === "secret");
      otherSecret = stranger
        ? otherSecret ?? { since: performance.now(), address: addressText(stranger.address) }
        : null;
      if (otherSecret && performance.now() - otherSecret.since > OTHER_SECRET_MS) {
        throw anotherSecret(otherSecret.address);
      }
    }
    if (performance.now() > deadline) throw notFound(answers, lacking);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

type Why = ChannelFault | "refused" | "unreachable" | "unknown";

interface Failure {
  readonly address: Address;
  readonly why: Why;
}

interface FindRound {
  readonly found: FoundServer | null;
  readonly failures: readonly Failure[];
}

async function tryAll(addresses: readonly Address[], secret: Secret, crowd: number): Promise<FindRound> {
  const failures: Failure[] = [];
  const over = new AbortController();
  const first = Promise.withResolvers<FoundServer>();
  const one = async (address: Address) => {
    try {
      const { channel, ends } = await connect(address, secret, crowd, over.signal);
      if (over.signal.aborted) return channel.close();
      over.abort();
      first.resolve({ channel, secret, address, ends });
    } catch (error) {
      failures.push({ address, why: whyOf(error) });
    }
  };
  const begun: Promise<void>[] = [];
  for (const address of addresses) {
    begun.push(one(address));
    await aWhile(STAGGER_MS + crowd, [first.promise, Promise.all(begun)]);
    if (over.signal.aborted) break;
  }
  const found = await Promise.race([first.promise, Promise.all(begun).then(() => null)]);
  return { found, failures };
}

/** It ends sooner when one of these has. */
async function aWhile(ms: number, sooner: readonly Promise<unknown>[]): Promise<void> {
  let timer = 0;
  await Promise.race([new Promise((resolve) => timer = setTimeout(resolve, ms)), ...sooner]);
  clearTimeout(timer);
}

/** Deno.connect's own signal leaks something for each name that can't be resolved. */
async function connect(
  address: Address,
  secret: Secret,
  crowd: number,
  over: AbortSignal,
): Promise<Pick<FoundServer, "channel" | "ends">> {
  const connecting = Deno.connect(address);
  let give: () => void = () => {};
  const given = new Promise<never>((_, reject) => give = () => reject(new FrameError("slow")));
  const timer = setTimeout(give, CONNECT_MS + crowd);
  over.addEventListener("abort", give);
  try {
    const conn = await Promise.race([connecting, given]);
    const channel = await greetServer(conn, secret, crowd);
    return { channel, ends: { own: plain(conn.localAddr), server: plain(conn.remoteAddr) } };
  } catch (error) {
    connecting.then(closeConnection, () => {});
    throw error;
  } finally {
    clearTimeout(timer);
    over.removeEventListener("abort", give);
  }
}

const plain = ({ hostname }: Deno.NetAddr): string => hostname.replace(/^::ffff:/, "");

function whyOf(error: unknown): Why {
  if (error instanceof FrameError) return error.fault;
  if (error instanceof Deno.errors.ConnectionRefused) return "refused";
  return error instanceof Error && /lookup|resolve|name or service/i.test(error.message)
    ? "unknown"
    : "unreachable";
}

const FAULT_TEXT: Record<Why, string> = {
  refused: "nobody listens there",
  unreachable: "can't be reached",
  unknown: "a name that this host does not know",
  secret: "answers with another secret",
  stranger: "is another program",
  oversized: "is another program",
  slow: "says nothing",
  cut: "closes the connection",
  silent: "closes the connection",
};
const faultText = (why: Why): string => FAULT_TEXT[why];

const anotherSecret = (address: string) =>
  new UserError(
    "communication",
    `The server at ${address} has another secret than this rank: it is another job's, or HPCTRAIN_SECRET differs ` +
      "between the nodes. Set it once in the job script, before the ranks start (mpirun -x HPCTRAIN_SECRET).",
  );

function notFound(answers: ReadonlyMap<string, string>, lacking: string): UserError {
  const tried = [...answers].map(([address, why]) => `${address} (${why})`).join(", ");
  const what = [tried && `tried ${tried}`, lacking].filter((part) => part !== "").join("; ");
  return new UserError(
    "communication",
    `Rank 0 was not found: ${what}. Does it run, and do all nodes see the same folder? --master-addr and ` +
      "--master-port name an address by hand.",
  );
}
