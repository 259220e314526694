// Rank 0's server: takes in the job's ranks, refuses everybody else, and passes on what they have to tell each other.
// May import its siblings.
import { EXIT } from "../../errors.ts";
import { openAgreement } from "./agreement.ts";
import type { Secret } from "./auth.ts";
import { openBarriers } from "./barriers.ts";
import { type Channel, close, encode, greetClient } from "./channel.ts";
import { FrameError } from "./frames.ts";
import { seconds } from "./hang.ts";
import { differentSettings, ranksIn, type Refusal, refusalOf } from "./hello.ts";
import {
  active,
  fail,
  failed,
  FIRST_WORD_MS,
  flushed,
  full,
  type Job,
  type Limits,
  lost,
  type Member,
  refused,
  tell,
} from "./job.ts";
import type { Hello, SeatRow, Settings, ToRank, ToServer } from "./messages.ts";
import { openTell } from "./tell.ts";
import { type AskEngine, type Keep, openWatch } from "./watch.ts";

export interface ServerOptions {
  readonly listener: Deno.TcpListener;
  readonly secret: Secret;
  /** Rank 0's own: what the others must agree with. */
  readonly own: Hello;
  readonly settings: Settings;
  readonly limits: Limits;
  /** Where a rank that has not come was expected, if that is known. */
  nodeOf(rank: number): string | null;
  say(line: string): void;
  readonly keep: Keep;
  /** Left out: the engine has nothing to tell of a stall. */
  readonly askEngine?: AskEngine;
}

export interface Server {
  /** Waits a little for the others to say goodbye. */
  close(): Promise<void>;
}

const TICK_MS = 1000;
/** Ranks that end a little later than rank 0. */
const GOODBYE_MS = 5000;

export function openServer(options: ServerOptions): Server {
  const { listener, own, limits, say } = options;
  const now = () => performance.now();
  const job: Job = { world: own.world, limits, members: new Map(), error: null, say, now };
  const parts = {
    barriers: openBarriers(job),
    agreement: openAgreement(job),
    watch: openWatch(job, options.keep, options.askEngine),
  };
  const gathering = { since: now(), nextWord: FIRST_WORD_MS };
  const connections = new Set<Channel>();
  const ticks = setInterval(() => {
    tell(job, { is: "beat" });
    if (job.error) return;
    if (!full(job)) lookForMissing(job, gathering, options.nodeOf);
    for (const part of Object.values(parts)) part.look();
  }, TICK_MS);
  const accepting = accept(options, job, async (channel, from, reject) => {
    connections.add(channel);
    await converse(options, job, parts, channel, () => reject("late", from));
    connections.delete(channel);
    channel.close();
  });
  return {
    async close() {
      const until = now() + GOODBYE_MS;
      while (active(job).length > 0 && now() < until) await new Promise((resolve) => setTimeout(resolve, 20));
      tell(job, { is: "goodbye" });
      await flushed(active(job));
      clearInterval(ticks);
      listener.close();
      connections.forEach((channel) => channel.close());
      await Promise.all([...connections].map((channel) => channel.flushed()));
      await accepting;
    },
  };
}

/** Strangers at the same time, beside those ranks that still have to come. */
const STRANGERS = 64;

type Serve = (channel: Channel, from: string, reject: ReturnType<typeof openTell>) => Promise<void>;

async function accept({ listener, secret, say }: ServerOptions, job: Job, serve: Serve): Promise<void> {
  const reject = openTell(say);
  const strangers = new Set<Deno.TcpConn>();
  const greet = async (conn: Deno.TcpConn) => {
    const from = conn.remoteAddr.hostname.replace("::ffff:", "");
    if (strangers.size >= STRANGERS + 2 * job.world) {
      // A rank proves itself in no time: the oldest of them is none.
      const [oldest] = strangers;
      strangers.delete(oldest);
      close(oldest);
      reject("crowd", from);
    }
    strangers.add(conn);
    try {
      const channel = await greetClient(conn, secret).finally(() => strangers.delete(conn));
      await serve(channel, from, reject);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error; // ours: the thread ends with it
      if (error.fault !== "silent") reject(error.fault, from);
    }
  };
  for (;;) {
    try {
      greet(await listener.accept());
    } catch (error) {
      if (error instanceof Deno.errors.BadResource || error instanceof Deno.errors.Interrupted) return;
      // Too many open files, a connection that was reset before it was taken: neither is the end.
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

interface Parts {
  readonly barriers: ReturnType<typeof openBarriers>;
  readonly agreement: ReturnType<typeof openAgreement>;
  readonly watch: ReturnType<typeof openWatch>;
}

async function converse(
  options: ServerOptions,
  job: Job,
  parts: Parts,
  channel: Channel,
  late: () => void,
): Promise<void> {
  // Cut off, or not ours any more: the same as gone.
  const next = () => channel.receive().catch(() => null) as Promise<ToServer | null>;
  const hello = await next();
  if (hello?.is !== "hello") return;
  const member = await enter(options, job, channel, hello.hello, next, late);
  if (!member) return await channel.flushed();
  for (let message; (message = await next());) {
    member.heard = job.now();
    if (message.is === "goodbye") member.left = true;
    else await handle(job, parts, member, message);
  }
  if (!member.left) {
    fail(job, lost(member, "is gone: its process ended without a word (killed, or out of memory?)"));
  }
  member.left = true;
  parts.agreement.look();
}

/** Null for who can't take part; it has been told why. */
async function enter(
  { own, settings }: ServerOptions,
  job: Job,
  channel: Channel,
  hello: Hello,
  next: () => Promise<ToServer | null>,
  late: () => void,
): Promise<Member | null> {
  const answer = (message: ToRank) => channel.send(encode(message));
  const here = [...job.members.values()].map((member) => member.hello);
  if (full(job)) {
    late();
    const sentence =
      `Rank ${hello.rank} came when all ${own.world} ranks of this job were here: is it a second job in ` +
      "the same folder, or with the same HPCTRAIN_SECRET?";
    answer({ is: "error", error: refused({ sentence, code: EXIT.communication }, hello) });
    return null;
  }
  let refusal: Refusal | null = refusalOf(hello, own, here);
  if (!refusal && hello.settings !== own.settings) {
    answer({ is: "settings?" });
    const theirs = await next();
    refusal = differentSettings(hello, theirs?.is === "settings" ? theirs.settings : {}, own, settings);
  }
  if (refusal && !job.error) fail(job, refused(refusal, hello));
  if (job.error) {
    answer({ is: "error", error: job.error });
    return null;
  }
  const member: Member = { hello, channel, heard: job.now(), beat: null, moved: false, left: false };
  job.members.set(hello.rank, member);
  if (full(job)) {
    const seats = Array.from({ length: job.world }, (_, rank) => seatOf(job.members.get(rank)!.hello));
    tell(job, { is: "table", seats });
  }
  return member;
}

const seatOf = ({ localRank, host, pid, device }: Hello): SeatRow => [localRank, host, pid, device];

async function handle(job: Job, parts: Parts, member: Member, message: ToServer): Promise<void> {
  switch (message.is) {
    case "beat":
      member.moved ||= member.beat !== null && member.beat.step !== message.beat.step;
      member.beat = message.beat;
      break;
    case "barrier":
      parts.barriers.came(member, message);
      break;
    case "value":
      tell(job, message, active(job).filter((other) => other !== member));
      break;
    case "wish":
      parts.agreement.wish(message);
      break;
    case "held":
      parts.agreement.held(member, message);
      break;
    case "flight":
      parts.watch.flight(member, message);
      break;
    case "failed":
      await fail(job, failed(member, message));
      tell(job, { is: "noted" }, [member]);
      break;
  }
}

function lookForMissing(
  job: Job,
  gathering: { since: number; nextWord: number },
  nodeOf: ServerOptions["nodeOf"],
) {
  const waited = job.now() - gathering.since;
  const missing = Array.from({ length: job.world }, (_, rank) => rank).filter((rank) =>
    !job.members.has(rank)
  );
  const [first] = missing;
  const node = missing.length === 1 ? nodeOf(first) : null;
  const who = ranksIn(missing) + (node ? ` (expected on ${node})` : "");
  if (waited > job.limits.arrive) {
    const sentence =
      `Of ${job.world} ranks ${job.members.size} came within ${seconds(waited)}; ${who} never arrived: ` +
      `look at ${missing.length === 1 ? "its" : "their"} output, and whether the nodes reach rank 0's.`;
    const error = { rank: first, host: nodeOf(first) ?? "", step: 0, code: EXIT.communication, sentence };
    return void fail(job, { ...error, told: sentence, others: EXIT.communication });
  }
  if (waited < gathering.nextWord) return;
  gathering.nextWord *= 2;
  job.say(`Waiting for ${who}, for ${seconds(waited)} so far.`);
}
