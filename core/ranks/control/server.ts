// Rank 0's server: it takes in the job's ranks, holds named barriers, and lets ranks agree to stop or save at
// the same step.
import { type Channel, close, encode, type Fault, FrameError, greetClient, type Secret } from "./channel.ts";
import { type AskEngine, type Keep, openHangWatch, wholeSeconds } from "./hang.ts";
import {
  active,
  type ControlJob,
  type ControlTimeouts,
  differentSettings,
  endJob,
  FIRST_REPORT_MS,
  flushed,
  type From,
  full,
  type Member,
  ranksIn,
  type Refusal,
  refusalOf,
  send,
} from "./job.ts";
import { commonFailure, rankLost, rankOnHost, reportedFailure } from "./failure.ts";
import type { Hello, SeatRow, Settings, ToRank, ToServer, Wish } from "./messages.ts";
import { PATIENT } from "./shared.ts";

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
  readonly askEngine?: AskEngine;
}

interface Server {
  close(): Promise<void>;
}

const TICK_MS = 1000;
const GOODBYE_MS = 5000;

export function openServer(options: ServerOptions): Server {
  const { listener, own, limits, say } = options;
  const now = () => performance.now();
  const job: ControlJob = { world: own.world, limits, members: new Map(), error: null, say, now };
  const parts = {
    barriers: openBarriers(job),
    agreement: openAgreement(job),
    watch: openHangWatch(job, options.keep, options.askEngine),
  };
  const gathering = { since: now(), nextWord: FIRST_REPORT_MS };
  const connections = new Set<Channel>();
  const ticks = setInterval(() => {
    send(job, { is: "beat" });
    if (job.error) return;
    if (!full(job)) lookForMissing(job, gathering, options.nodeOf);
    for (const part of Object.values(parts)) part.look();
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
    if (message.is === "goodbye") member.hasEnded = true;
    else await handle(job, parts, member, message);
  }
  if (!member.hasEnded) {
    endJob(job, rankLost(member, "is gone: its process ended without a word (killed, or out of memory?)"));
  }
  member.hasEnded = true;
  parts.agreement.look();
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
  const here = [...job.members.values()].map((member) => member.hello);
  if (full(job)) {
    rejectExtra();
    const sentence =
      `Rank ${hello.rank} came when all ${own.world} ranks of this job were here: is it a second job in ` +
      "the same folder, or with the same HPCTRAIN_SECRET?";
    const error = commonFailure(hello, { kind: "refused" }, sentence, { namesRank: false });
    answer({ is: "error", error });
    return null;
  }
  let refusal: Refusal | null = refusalOf(hello, own, here);
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
  if (full(job)) {
    const hellos = [...job.members.values()].map(({ hello }) => hello);
    const seats = hellos.toSorted((a, b) => a.rank - b.rank).map(seatOf);
    send(job, { is: "table", seats });
  }
  return member;
}

const seatOf = ({ localRank, host, pid, device }: Hello): SeatRow => [localRank, host, pid, device];

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
      parts.agreement.wish(message);
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

function lookForMissing(
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

// Ranks that stop, or save, at the same place, whichever of them wants it. Each place they pass has a number,
// the same on all. They are held at their next place and send its number; the largest, plus one, is a place
// that no rank has passed.

interface AgreementRound {
  readonly id: number;
  readonly what: Wish;
  readonly reason: string;
  readonly counts: Map<number, number>;
}

interface Agreement {
  wish(message: From<"wish">): void;
  held(member: Member, message: From<"held">): void;
  /** Begins what had to wait; goes on without a rank that has gone. */
  look(): void;
}

function openAgreement(job: ControlJob): Agreement {
  const wishes: From<"wish">[] = [];
  let round: AgreementRound | null = null;
  let rounds = 0, last = 0, stopping = false;

  const begin = () => {
    const next = wishes[0];
    if (round || !next) return;
    round = { ...next, id: ++rounds, counts: new Map() };
    send(job, { is: "hold", id: rounds });
  };
  const conclude = () => {
    if (!round) return;
    const { what, reason, counts } = round;
    if (!active(job).every(({ hello }) => counts.has(hello.rank))) return;
    const most = Math.max(0, ...counts.values());
    // Before every rank has passed the last place, another agreement would take its room: let them go on for
    // a second.
    const early = Math.min(...counts.values()) < last;
    if (!early) {
      wishes.shift();
      last = most + 1;
      stopping ||= what === "stop";
    }
    round = null;
    send(job, { is: "agreed", agreed: { at: early ? 0 : last, what, reason } });
  };
  return {
    wish(message) {
      const known = (other: From<"wish">) => other.what === message.what && other.reason === message.reason;
      if (stopping || wishes.some(known)) return;
      wishes.push(message);
      begin();
    },
    held({ hello }, { id, count }) {
      if (id === round?.id) round.counts.set(hello.rank, count);
      conclude();
    },
    look() {
      conclude();
      begin();
    },
  };
}

interface WaitingBarrier {
  readonly name: string;
  since: number;
  readonly came: Map<number, Member>;
  readonly values: Map<number, unknown>;
  nextWord: number;
}

interface Barriers {
  came(member: Member, message: From<"barrier">): void;
  look(): void;
}

function openBarriers(job: ControlJob): Barriers {
  const open = new Map<number, WaitingBarrier>();
  const look = () => {
    for (const waiting of open.values()) checkBarrier(job, waiting);
  };
  return {
    came(member, { n, name, value }) {
      const now = job.now();
      const waiting = open.get(n) ??
        { name, since: now, came: new Map(), values: new Map(), nextWord: FIRST_REPORT_MS };
      open.set(n, waiting);
      if (name !== waiting.name) {
        const first = waiting.came.values().next().value!;
        const why =
          `came to "${name}" while ${
            rankOnHost(first.hello)
          } waits at "${waiting.name}": internal: ranks must meet ` +
          "in the same order";
        return void endJob(job, rankLost(member, why));
      }
      waiting.came.set(member.hello.rank, member);
      if (value !== undefined) waiting.values.set(member.hello.rank, value);
      if (waiting.came.size < job.world) return look(); // somebody may have left for good
      open.delete(n);
      const values = waiting.values.size === 0
        ? null
        : Array.from({ length: job.world }, (_, rank) => waiting.values.get(rank));
      send(job, { is: "passed", n, values });
    },
    look,
  };
}

function checkBarrier(job: ControlJob, waiting: WaitingBarrier): void {
  const { name, came } = waiting;
  const missing = [...job.members.values()].filter(({ hello }) => !came.has(hello.rank));
  const gone = missing.find(({ hasEnded }) => hasEnded);
  if (gone) return void endJob(job, rankLost(gone, `has ended, and the others wait for it at "${name}"`));
  const [first] = missing;
  if (missing.some(({ beat }) => beat?.phase === PATIENT)) waiting.since = job.now();
  const waited = job.now() - waiting.since;
  if (
    waited > job.limits.stall && active(job).every(({ moved }) => moved) || waited > job.limits.firstStall
  ) {
    return void endJob(job, rankLost(first, `did not come to "${name}" within ${wholeSeconds(waited)}`));
  }
  if (waited < waiting.nextWord) return;
  waiting.nextWord *= 2;
  const who = missing.length === 1
    ? rankOnHost(first.hello).replace("Rank", "rank")
    : ranksIn(missing.map(({ hello }) => hello.rank));
  job.say(`Waiting at "${name}" for ${who}, for ${wholeSeconds(waited)} so far.`);
}

// The log gets the first line of each kind about strangers at the rendezvous port, then a count now and then.

const REJECTIONS_EVERY_MS = 30_000;

/** A silent connection is a scanner, or a rank that has got through at another address. */
type Rejected = Exclude<Fault, "silent"> | "crowd" | "extra";

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
