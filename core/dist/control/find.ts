// A rank's way to the server: every address that may lead there is tried, a little after one another, until one of
// them has proved that it has this job's secret. May import address, auth, channel, errors, frames.
import { UserError } from "../../errors.ts";
import { type Address, shown } from "./address.ts";
import type { Secret } from "./auth.ts";
import { type Channel, close, greetServer } from "./channel.ts";
import { type Fault, FrameError } from "./frames.ts";

/** What is known at the moment; it is asked for anew in each round. */
export interface Outlook {
  /** Null: not known yet. */
  readonly secret: Secret | null;
  readonly addresses: readonly Address[];
  /** Why there is no secret or no address. */
  readonly lacking: string;
}

export interface Found {
  readonly channel: Channel;
  /** By which both have proved themselves. */
  readonly secret: Secret;
  readonly address: Address;
  /** The addresses at both ends, as numbers. */
  readonly ends: { readonly own: string; readonly server: string };
}

/** The next address is tried when this one has not answered after so long. */
const STAGGER_MS = 300;
/** Hosts that can't be reached don't always say so. */
const CONNECT_MS = 4000;
const FIRST_PAUSE_MS = 50, LONGEST_PAUSE_MS = 1000;
/** An answer with another secret may be of the job before, which is just ending. */
const OTHER_SECRET_MS = 5000;

export async function findServer(look: () => Outlook, deadline: number): Promise<Found> {
  const answers = new Map<string, string>();
  let otherSecret: { readonly since: number; readonly address: string } | null = null;
  let lacking = "";
  for (let pause = FIRST_PAUSE_MS;; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    const outlook = look();
    lacking = outlook.lacking;
    if (outlook.secret) {
      const round = await tryAll(outlook.addresses, outlook.secret);
      if (round.found) return round.found;
      for (const { address, why } of round.failures) answers.set(shown(address), sayWhy(why));
      const stranger = round.failures.find(({ why }) => why === "secret");
      otherSecret = stranger
        ? otherSecret ?? { since: performance.now(), address: shown(stranger.address) }
        : null;
      if (otherSecret && performance.now() - otherSecret.since > OTHER_SECRET_MS) {
        throw anotherSecret(otherSecret.address);
      }
    }
    if (performance.now() > deadline) throw notFound(answers, lacking);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

type Why = Fault | "refused" | "unreachable" | "unknown";

interface Failure {
  readonly address: Address;
  readonly why: Why;
}

interface Round {
  readonly found: Found | null;
  readonly failures: readonly Failure[];
}

/** The first that gets through; the others are broken off. */
function tryAll(addresses: readonly Address[], secret: Secret): Promise<Round> {
  const failures: Failure[] = [];
  const over = new AbortController();
  return new Promise((resolve) => {
    const one = async (address: Address, i: number) => {
      if (i > 0) await aWhile(i * STAGGER_MS, over.signal, () => failures.length >= i);
      if (over.signal.aborted) return;
      try {
        const { channel, ends } = await connect(address, secret, over.signal);
        if (over.signal.aborted) return channel.close();
        over.abort();
        resolve({ found: { channel, secret, address, ends }, failures });
      } catch (error) {
        failures.push({ address, why: whyOf(error) });
      }
    };
    Promise.all(addresses.map(one)).then(() => resolve({ found: null, failures }));
  });
}

/** Over sooner when all before it have failed. */
async function aWhile(ms: number, signal: AbortSignal, enough: () => boolean): Promise<void> {
  const until = performance.now() + ms;
  while (performance.now() < until && !signal.aborted && !enough()) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Not by Deno.connect's own signal, which leaves something behind for each name that can't be resolved. */
async function connect(
  address: Address,
  secret: Secret,
  over: AbortSignal,
): Promise<Pick<Found, "channel" | "ends">> {
  const connecting = Deno.connect(address);
  let give: () => void = () => {};
  const given = new Promise<never>((_, reject) => give = () => reject(new FrameError("slow")));
  const timer = setTimeout(give, CONNECT_MS);
  over.addEventListener("abort", give);
  try {
    const conn = await Promise.race([connecting, given]);
    const channel = await greetServer(conn, secret);
    return { channel, ends: { own: plain(conn.localAddr), server: plain(conn.remoteAddr) } };
  } catch (error) {
    connecting.then(close, () => {});
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

const SAID: Record<Why, string> = {
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
const sayWhy = (why: Why): string => SAID[why];

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
