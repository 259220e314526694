// Rank 0's server: it takes in the job's ranks, holds named barriers, and lets ranks agree to stop or save at
// the same step. What a rank costs must not depend on how many there are: nothing that is done once a rank goes through
// all of them, and what goes to all is encoded once.
import {
  type Channel,
  type ChannelFault,
  closeConnection,
  CROWD_MS,
  encode,
  FrameError,
  greetClient,
  type Secret,
} from "./channel.ts";
import { openBarriers } from "./barriers.ts";
import { type Keep, openHangWatch, type QueryEngine, wholeSeconds } from "./hang.ts";
import {
  active,
  activeCount,
  beatMs,
  type ControlJob,
  type ControlTimeouts,
  differentSettings,
  endJob,
  FIRST_REPORT_MS,
  flushed,
  type From,
  full,
  gpuOf,
  type JoinRefusal,
  joinRefusal,
  leave,
  type Member,
  ranksIn,
  send,
} from "./job.ts";
import { commonFailure, rankLost, reportedFailure } from "./failure.ts";
import {
  type Hello,
  type RequestKind,
  runLengths,
  type Settings,
  type ToRank,
  type ToServer,
} from "./messages.ts";

interface ServerOptions {
  readonly listener: Deno.TcpListener;
  readonly secret: Secret;
  readonly own: Hello;
  readonly settings: Settings;
  readonly limits: ControlTimeouts;
  /** Null where it is unknown. */
  nodeOf(rank: number): string | null;
  say(line: string): void;
  readonly keep: Keep;
  readonly queryEngine?: QueryEngine;
}

interface Server {
  close(): Promise<void>;
}

const TICK_MS = 1000;
const GOODBYE_MS = 5000;

export function openControlServer(options: ServerOptions): Server {
  const { listener, own, limits, say } = options;
  const now = () => performance.now();
  const { world } = own;
  const job: ControlJob = {
    world,
    limits,
    members: new Map(),
    gpus: new Map(),
    ended: 0,
    error: null,
    say,
    now,
  };
  const parts = {
    barriers: openBarriers(job),
    agreement: openAgreement(job),
    watch: openHangWatch(job, options.keep, options.queryEngine),
  };
  const gathering = { since: now(), nextWord: FIRST_REPORT_MS };
  const connections = new Set<Channel>();
  let beaten = -Infinity;
  const ticks = setInterval(() => {
    if (now() - beaten > beatMs(world) - TICK_MS / 2) {
      beaten = now();
      send(job, { is: "beat" });
    }
    if (job.error) return;
    if (!full(job)) findMissing(job, gathering, options.nodeOf);
    for (const part of Object.values(parts)) part.poll();
  }, TICK_MS);
  const accepting = accept(options, job, async (channel, from, reject) => {
    connections.add(channel);
    await converse(options, job, parts, channel, () => reject("extra", from));
    connections.delete(channel);
    channel.close();
  });
  return {
    async close() {
      const until = now() + GOODBYE_MS;
      while (active(job).length > 0 && now() < until) await new Promise((resolve) => setTimeout(resolve, 20));
      send(job, { is: "goodbye" });
      await flushed(active(job));
      clearInterval(ticks);
      listener.close();
      connections.forEach((channel) => channel.close());
      await Promise.all([...connections].map((channel) => channel.flushed()));
      await accepting;
    },
  };
}

/** The limit counts strangers beside the ranks that still have to come. */
const STRANGERS = 64;

type Serve = (channel: Channel, from: string, reject: ReturnType<typeof openRejectionLog>) => Promise<void>;

async function accept(
  { listener, secret, say }: ServerOptions,
  job: ControlJob,
  serve: Serve,
): Promise<void> {
  const reject = openRejectionLog(say);
  const strangers = new Set<Deno.TcpConn>();
  const greet = async (conn: Deno.TcpConn) => {
    const from = conn.remoteAddr.hostname.replace("::ffff:", "");
    if (strangers.size >= STRANGERS + 2 * job.world) {
      // A rank proves itself at once, so the oldest stranger is none.
      const [oldest] = strangers;
      strangers.delete(oldest);
      closeConnection(oldest);
      reject("crowd", from);
    }
    strangers.add(conn);
    try {
      const channel = await greetClient(conn, secret, CROWD_MS * job.world).finally(() =>
        strangers.delete(conn)
      );
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
      // Too many open files, or a connection that was reset before it was accepted: neither is the end.
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

interface Parts {
  readonly barriers: ReturnType<typeof openBarriers>;
  readonly agreement: ReturnType<typeof openAgreement>;
  readonly watch: ReturnType<typeof openHangWatch>;
}

async function converse(
  options: ServerOptions,
  job: ControlJob,
  parts: Parts,
  channel: Channel,
  rejectExtra: () => void,
): Promise<void> {
  const next = () => channel.receive().catch(() => null) as Promise<ToServer | null>;
  const hello = await next();
  if (hello?.is !== "hello") return;
  const member = await enter(options, job, channel, hello.hello, next, rejectExtra);
  if (!member) return await channel.flushed();
  for (let message; (message = await next());) {
    member.lastMessage = job.now();
    if (message.is === "goodbye") leave(job, member);
    else await handle(job, parts, member, message);
  }
  if (!member.hasEnded) {
    endJob(job, rankLost(member, "is gone: its process ended without a word (killed, or out of memory?)"));
  }
  leave(job, member);
  parts.agreement.poll();
}

/** Null for a rank that can't take part; it has got the reason. */
async function enter(
  { own, settings }: ServerOptions,
  job: ControlJob,
  channel: Channel,
  hello: Hello,
  next: () => Promise<ToServer | null>,
  rejectExtra: () => void,
): Promise<Member | null> {
  const answer = (message: ToRank) => channel.send(encode(message));
  if (full(job)) {
    rejectExtra();
    const sentence =
      `Rank ${hello.rank} came when all ${own.world} ranks of this job were here: is it a second job in ` +
      "the same folder, or with the same HPCTRAIN_SECRET?";
    const error = commonFailure(hello, { kind: "refused" }, sentence, { namesRank: false });
    answer({ is: "error", error });
    return null;
  }
  let refusal: JoinRefusal | null = joinRefusal(hello, own, job);
  if (!refusal && hello.settings !== own.settings) {
    answer({ is: "settings?" });
    const theirs = await next();
    refusal = differentSettings(hello, theirs?.is === "settings" ? theirs.settings : {}, own, settings);
  }
  if (refusal && !job.error) {
    endJob(job, commonFailure(hello, { kind: "refused" }, refusal.sentence, refusal));
  }
  if (job.error) {
    answer({ is: "error", error: job.error });
    return null;
  }
  const member: Member = {
    hello,
    channel,
    lastMessage: job.now(),
    beat: null,
    moved: false,
    hasEnded: false,
  };
  job.members.set(hello.rank, member);
  const gpu = gpuOf(hello);
  if (gpu !== null) job.gpus.set(gpu, hello);
  if (full(job)) {
    const hosts = Array.from({ length: job.world }, (_, rank) => job.members.get(rank)!.hello.host);
    send(job, { is: "hosts", hosts: runLengths(hosts) });
  }
  return member;
}

async function handle(job: ControlJob, parts: Parts, member: Member, message: ToServer): Promise<void> {
  switch (message.is) {
    case "beat":
      member.moved ||= member.beat !== null && member.beat.step !== message.beat.step;
      member.beat = message.beat;
      break;
    case "barrier":
      parts.barriers.came(member, message);
      break;
    case "value":
      send(job, message, active(job).filter((other) => other !== member));
      break;
    case "wish":
      parts.agreement.request(message);
      break;
    case "held":
      parts.agreement.held(member, message);
      break;
    case "flight":
      parts.watch.flight(member, message);
      break;
    case "failed":
      await endJob(job, reportedFailure(member.hello, message));
      send(job, { is: "noted" }, [member]);
      break;
  }
}

function findMissing(
  job: ControlJob,
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
      `Of ${job.world} ranks ${job.members.size} came within ${
        wholeSeconds(waited)
      }; ${who} never arrived: ` +
      `look at ${missing.length === 1 ? "its" : "their"} output, and whether the nodes reach rank 0's.`;
    const lost = { rank: first, host: nodeOf(first) ?? "" },
      cause = { kind: "missing", ranks: missing } as const;
    return void endJob(job, commonFailure(lost, cause, sentence, { namesRank: false }));
  }
  if (waited < gathering.nextWord) return;
  gathering.nextWord *= 2;
  job.say(`Waiting for ${who}, for ${wholeSeconds(waited)} so far.`);
}

// The log gets the first line of each kind about strangers at the rendezvous port, then a count now and then.

const REJECTIONS_EVERY_MS = 30_000;

/** A silent connection is a scanner, or a rank that has got through at another address. */
type Rejected = Exclude<ChannelFault, "silent"> | "crowd" | "extra";

const REJECTION_TEXT: Record<Rejected, string> = {
  stranger: "something that is no rank of hpctrain, or one of another version",
  oversized: "a message that is longer than any of ours",
  slow: "nothing in time",
  secret: "what another secret was used for: another job, or a rank without this job's HPCTRAIN_SECRET",
  cut: "half of a message before the connection ended",
  crowd: "nothing yet, and there are too many like it: the oldest was closed",
  extra: "a rank although all are here",
};

type LogRejection = (what: Rejected, from: string) => void;

export function openRejectionLog(
  say: (line: string) => void,
  now: () => number = () => performance.now(),
): LogRejection {
  const last = new Map<Rejected, { at: number; silent: number }>();
  return (what, from) => {
    const before = last.get(what);
    if (before && now() - before.at < REJECTIONS_EVERY_MS) return void before.silent++;
    const more = before?.silent ? ` (and ${before.silent} times more since the last such line)` : "";
    say(`The rendezvous port refused a connection from ${from}, which sent ${REJECTION_TEXT[what]}${more}.`);
    last.set(what, { at: now(), silent: 0 });
  };
}

// Ranks that stop, or save, at the same place, whichever of them wants it. Each place they pass has a number,
// the same on all. They are held at their next place and send its number; the largest, plus one, is a place
// that no rank has passed.

interface AgreementRound {
  readonly id: number;
  readonly what: RequestKind;
  readonly reason: string;
  readonly counts: Map<number, number>;
}

interface Agreement {
  request(message: From<"wish">): void;
  held(member: Member, message: From<"held">): void;
  /** Begins what had to wait; goes on without a rank that has gone. */
  poll(): void;
}

function openAgreement(job: ControlJob): Agreement {
  const requests: From<"wish">[] = [];
  let round: AgreementRound | null = null;
  let rounds = 0, last = 0, stopping = false;

  const begin = () => {
    const next = requests[0];
    if (round || !next) return;
    round = { ...next, id: ++rounds, counts: new Map() };
    send(job, { is: "hold", id: rounds });
  };
  const conclude = () => {
    if (!round) return;
    const { what, reason, counts } = round;
    if (counts.size < activeCount(job)) return;
    if (!active(job).every(({ hello }) => counts.has(hello.rank))) return;
    const most = Math.max(0, ...counts.values());
    // Before every rank has passed the last place, another agreement would take its room: let them go on for
    // a second.
    const early = Math.min(...counts.values()) < last;
    if (!early) {
      requests.shift();
      last = most + 1;
      stopping ||= what === "stop";
    }
    round = null;
    send(job, { is: "agreed", agreed: { at: early ? 0 : last, what, reason } });
  };
  return {
    request(message) {
      const known = (other: From<"wish">) => other.what === message.what && other.reason === message.reason;
      if (stopping || requests.some(known)) return;
      requests.push(message);
      begin();
    },
    held({ hello }, { id, count }) {
      if (id === round?.id) round.counts.set(hello.rank, count);
      conclude();
    },
    poll() {
      conclude();
      begin();
    },
  };
}
